"""`HammingIndex`: exact nearest codes under ids of one's own, in memory or from a file.

A change never touches what a search may be reading: it puts a new state in place of the old. So
any number of threads may search while one writes.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from functools import cached_property
from threading import Lock
from typing import Any, Literal, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._core.errors import ModelFileError
from .._core.files import StrPath
from ..codes import n_bytes
from ..models.model_file import load_model, map_model, save_model
from .approximate import Lists
from .batch import Batch, Ids, check_k, check_length, checked_batch, packed_codes
from .scan import Found, HostCodes
from .state import State, as_words, empty, found, packed_rows, tagged, upserted, without

_QUERIES = 256  # in one pass over the codes: their candidates fit into the cache
_QUERIES_OF_A_GPU = 1024
KIND = "index"


class Searcher(Protocol):
    """How the rows nearest to queries are found."""

    def nearest(self, queries: NDArray[np.uint64], k: int) -> Found:
        """Distances and rows, by (distance, row)."""
        ...


class View:
    """The codes that a search looks at, and how it does, which is made when it is needed."""

    def __init__(self, state: State, make: Callable[[State], Searcher]) -> None:
        self.state = state
        self._make = make

    @cached_property
    def searcher(self) -> Searcher:
        return self._make(self.state)


class HammingIndex:
    """Exact search for the codes nearest to a query, or within a radius of it.

    Results are ordered by (distance, id). Ids are whole numbers of one's own, or those from the
    next free one on.

    Parameters
    ----------
    n_bits : int
        Length of the codes, 1 to 1,024.
    n_jobs : int, optional
        Threads of a search; all cores if not given.
    kind : "exact" or "ivf", default="exact"
        "ivf" looks into some lists of faiss only: approximate, and faster from millions of codes
        on. The lists are made by the first search after a change.
    recall : float, default=0.99
        Share of the ten nearest that "ivf" must find of codes of the index itself.
    device : str, optional
        Where torch searches, such as "cuda"; the codes are copied there by the first search after a
        change. Without it the CPU searches, and torch is not needed.

    Attributes
    ----------
    about : dict of str
        What one wants to know of the codes later, such as the model they come from; saved along.

    Examples
    --------
    >>> index = HammingIndex(n_bits=8).add([[0b00000000], [0b00000111], [0b11111111]])
    >>> index.search([[0b00000011]], k=2)
    (array([[1, 2]], dtype=int32), array([[1, 0]]))
    """

    def __init__(
        self,
        n_bits: int = 64,
        n_jobs: int | None = None,
        *,
        kind: Literal["exact", "ivf"] = "exact",
        recall: float = 0.99,
        device: str | None = None,
    ) -> None:
        if kind not in ("exact", "ivf") or not 0 < recall <= 1:
            raise ValueError(f"kind={kind!r}, recall={recall}: give 'exact' or 'ivf', and 0 to 1")
        if kind == "ivf" and device is not None:
            raise ValueError(f"device={device!r}: the lists of kind='ivf' stay on the CPU")
        self.n_bits = check_length(n_bits)
        self.n_jobs = n_jobs
        self.kind = kind
        self.recall = recall
        self.device = device
        self.about: dict[str, str] = {}
        self._views: tuple[State, dict[str | None, View]] = empty(n_bits), {}
        self._writing = Lock()

    @property
    def _state(self) -> State:
        return self._views[0]

    @_state.setter
    def _state(self, state: State) -> None:
        self._views = state, {}

    def __len__(self) -> int:
        return self._state.n

    @property
    def ids(self) -> Ids:
        """The ids of all codes, increasing."""
        state = self._state
        return state.ids[: state.n].copy()

    @property
    def names(self) -> tuple[str, ...]:
        """All tags that codes have had."""
        return tuple(name for name in self._state.names if name)

    def snapshot(self) -> Self:
        """The index as it is now, to search and to look things up in; later changes miss it."""
        return copy(self)

    def get(self, ids: ArrayLike) -> tuple[NDArray[np.uint8], list[str]]:
        """Packed codes and tags by id; `KeyError` names an id that is not there."""
        state, wanted = self._state, np.asarray(ids, dtype=np.int64)
        rows, there = found(state, wanted)
        if not there.all():
            raise KeyError(int(wanted[~there][0]))
        tags = np.zeros(len(rows), np.int32) if state.tags is None else state.tags[rows]
        return packed_rows(state, rows, n_bytes(self.n_bits)), [state.names[tag] for tag in tags]

    def page(self, start: int, length: int, *, tag: str | None = None) -> tuple[Ids, int]:
        """Some ids in their order, of one tag if one likes, and how many there are in all."""
        state = self._view(tag).state
        return state.ids[: state.n][start : start + length].copy(), state.n

    def add(
        self, codes: ArrayLike, ids: ArrayLike | None = None, *, tags: ArrayLike | None = None
    ) -> Self:
        """Add packed codes, each with a tag if one likes; an id that is there is refused."""
        with self._writing:
            batch = self._checked(codes, ids, tags)
            taken = batch.ids[found(self._state, batch.ids)[1]]
            if len(taken):
                raise ValueError(f"id {taken[0]} is in the index already; use upsert to replace it")
            self._state = upserted(self._state, batch)
        return self

    def upsert(self, codes: ArrayLike, ids: ArrayLike, *, tags: ArrayLike | None = None) -> Self:
        """Add packed codes, in place of those that have their ids."""
        with self._writing:
            self._state = upserted(self._state, self._checked(codes, ids, tags))
        return self

    def remove(self, ids: ArrayLike) -> int:
        """Forget codes by their ids; how many of them were there."""
        with self._writing:
            self._state, n_removed = without(self._state, np.asarray(ids, dtype=np.int64))
        return n_removed

    def search(
        self,
        codes: ArrayLike,
        k: int = 10,
        *,
        tag: str | None = None,
        rerank: ArrayLike | None = None,
        n_candidates: int | None = None,
    ) -> tuple[NDArray[np.int32], Ids]:
        """Distances and ids of the k nearest codes of each query, shape (n_queries, k).

        Fewer codes than k: the rest has distance n_bits + 1 and id -1. Queries in a torch tensor
        are answered by tensors on its device.

        Parameters
        ----------
        codes : uint8 array of shape (n_queries, n_bytes)
            Packed codes of the queries.
        k : int, default=10
        tag : str, optional
            Look at the codes of this tag only.
        rerank : array of shape (n_queries, n_bits), optional
            Projections of the queries before the sign (`decision_function`). The nearest codes in
            Hamming distance are then put in the order of their agreement with the projections,
            in which a sure bit counts more than a doubtful one.
        n_candidates : int, optional
            How many codes are put in order; 10 k if not given.
        """
        queries = np.ascontiguousarray(as_words(packed_codes(codes, self.n_bits)).T)
        depth = check_k(k) if rerank is None else max(check_k(k), n_candidates or 10 * k)
        H = None if rerank is None else self._projections(rerank, len(queries))
        distances = np.full((len(queries), k), self.n_bits + 1, np.int32)
        ids = np.full((len(queries), k), -1, np.int64)
        view = self._view(tag)
        state = view.state
        n_found = min(k, state.n)

        def part(rows: slice) -> None:
            D, R = searcher.nearest(queries[rows], min(depth, state.n))
            if H is not None:
                D, R = _by_agreement(state.words, D, R, H[rows])
            D, R = D[:, :n_found], R[:, :n_found]
            distances[rows, :n_found] = np.where(R < 0, self.n_bits + 1, D)
            ids[rows, :n_found] = np.where(R < 0, -1, state.ids[R])

        if n_found and len(queries):
            searcher = view.searcher
            self._in_parts(part, len(queries))
        return _like(codes, distances), _like(codes, ids)

    def _view(self, tag: str | None) -> View:
        """The codes of a tag, or all; kept until the index changes."""
        state, views = self._views
        if tag is not None and tag not in state.names:  # nothing to keep
            return View(tagged(state, tag), self._searcher)
        if tag not in views:
            seen = state if tag is None else tagged(state, tag)
            views[tag] = View(seen, self._searcher if tag is None else self._exact_searcher)
        return views[tag]

    def _searcher(self, state: State) -> Searcher:
        if self.kind == "ivf" and state.n:
            return Lists(state.words[:, : state.n], self.n_bits, self.recall)
        return self._exact_searcher(state)

    def _exact_searcher(self, state: State) -> Searcher:
        words = state.words[:, : state.n]
        if self.device is not None:
            from .gpu import DeviceCodes

            return DeviceCodes(words, self.n_bits, self.device)
        return HostCodes(words, self.n_bits)

    @property
    def lists(self) -> Lists | None:
        """The lists of kind="ivf", with `n_probe` and `recall` as measured; made if need be."""
        searcher = self._view(None).searcher
        return searcher if isinstance(searcher, Lists) else None

    def _projections(self, rerank: ArrayLike, n_queries: int) -> NDArray[np.float32]:
        H = np.asarray(rerank, dtype=np.float32)
        if H.shape != (n_queries, self.n_bits) or not np.isfinite(H).all():
            raise ValueError(
                f"rerank of shape {H.shape} is not a finite projection of {n_queries} queries to "
                f"{self.n_bits} bits"
            )
        return H

    def within(
        self, codes: ArrayLike, radius: int, *, tag: str | None = None
    ) -> list[tuple[NDArray[np.int32], Ids]]:
        """For each query the distances and ids of all codes at most `radius` bits away."""
        if radius < 0:
            raise ValueError(f"radius={radius} is not allowed: give a whole number of at least 0")
        state, queries = self._view(tag).state, as_words(packed_codes(codes, self.n_bits))
        return [_ball(state, query, radius) for query in queries.T]

    def _in_parts(self, work: Callable[[slice], None], n_queries: int) -> None:
        """All queries in parts, a few parts a thread; a GPU takes larger ones, one by one."""
        n_threads = 1 if self.device else self.n_jobs or os.cpu_count() or 1
        most = _QUERIES_OF_A_GPU if self.device else _QUERIES
        step = max(1, min(most, -(-n_queries // n_threads)))
        parts = [slice(start, start + step) for start in range(0, n_queries, step)]
        if n_threads == 1 or len(parts) == 1:
            for part in parts:
                work(part)
            return
        with ThreadPoolExecutor(n_threads) as pool:
            list(pool.map(work, parts))

    def save(self, path: StrPath) -> None:
        """Write the index to one file, whole or not at all, with a checksum."""
        state = self._state
        header: dict[str, Any] = {"n_bits": self.n_bits, "about": self.about}
        arrays: dict[str, NDArray[Any]] = {
            "words": state.words[:, : state.n],
            "ids": state.ids[: state.n],
        }
        if state.tags is not None:
            header["names"] = state.names
            arrays["tags"] = state.tags[: state.n]
        save_model(path, KIND, header, arrays)

    @classmethod
    def load(
        cls,
        path: StrPath,
        *,
        memory_map: bool = False,
        n_jobs: int | None = None,
        kind: Literal["exact", "ivf"] = "exact",
        recall: float = 0.99,
        device: str | None = None,
    ) -> Self:
        """Read an index; or open it where it lies, without reading or checking it first."""
        file = (map_model if memory_map else load_model)(path)
        if file.kind != KIND:
            raise ModelFileError(f"{path}: holds a {file.kind}, not an index; name an index file")
        n_bits = int(file.header["n_bits"])
        index = cls(n_bits, n_jobs, kind=kind, recall=recall, device=device)
        index.about = dict(file.header.get("about", {}))
        words, ids, tags = file.arrays["words"], file.arrays["ids"], file.arrays.get("tags")
        index._state = State(words, ids, len(ids), tags, tuple(file.header.get("names", ("",))))
        return index

    def _checked(self, codes: ArrayLike, ids: ArrayLike | None, tags: ArrayLike | None) -> Batch:
        state = self._state
        next_id = int(state.ids[state.n - 1]) + 1 if state.n else 0
        return checked_batch(codes, ids, tags, self.n_bits, next_id)


def _like(codes: Any, result: NDArray[Any]) -> Any:
    """A result where its queries lie: an array, or a tensor on their device."""
    if not hasattr(codes, "cpu"):
        return result
    import torch

    return torch.from_numpy(result).to(codes.device)


def _ball(state: State, query: NDArray[np.uint64], radius: int) -> tuple[NDArray[np.int32], Ids]:
    distances = np.zeros(state.n, np.int32)
    for word, q in zip(state.words, query, strict=True):
        distances += np.bitwise_count(word[: state.n] ^ q)
    rows = np.flatnonzero(distances <= radius)
    rows = rows[np.argsort(distances[rows], kind="stable")]
    return distances[rows], state.ids[rows]


def _by_agreement(
    words: NDArray[np.uint64],
    distances: NDArray[np.int32],
    rows: NDArray[np.int64],
    H: NDArray[np.float32],
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Candidates of each query by falling Σ_j h_j b_j; equal ones by (distance, row)."""
    order = np.empty_like(rows)
    for q, (candidates, h) in enumerate(zip(rows, H, strict=True)):
        packed = np.ascontiguousarray(words[:, candidates].T).view(np.uint8)
        bits = np.unpackbits(packed, axis=1, count=len(h))
        agreement = np.where(candidates < 0, -np.inf, bits @ h)  # ±1 or 0/1: the order is the same
        order[q] = np.argsort(-agreement, kind="stable")
    return np.take_along_axis(distances, order, axis=1), np.take_along_axis(rows, order, axis=1)
