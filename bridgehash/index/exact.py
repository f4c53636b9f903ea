"""`HammingIndex`: exact nearest codes under ids of one's own, in memory or from a file.

Codes lie in the order of their ids, word by word. A change never touches what a search may be
reading: it fills room beyond the end, or makes new arrays, and then puts one new state in
place of the old. So any number of threads may search while one writes.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._files import ModelFileError, StrPath, load_model, map_model, save_model
from ..codes import n_bytes
from .ivf import Lists
from .scan import nearest_rows

_QUERIES = 256  # in one pass over the codes: their candidates fit into the cache
_ROOM = 8  # one part in so many is kept free when arrays grow
_MOST_BITS = 1024
KIND = "index"

Ids = NDArray[np.int64]


class State(NamedTuple):
    """What a search sees: never changed, only replaced."""

    words: NDArray[np.uint64]  # (n_words, room)
    ids: Ids  # (room,), increasing up to n
    n: int


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
    ) -> None:
        if kind not in ("exact", "ivf") or not 0 < recall <= 1:
            raise ValueError(f"kind={kind!r}, recall={recall}: give 'exact' or 'ivf', and 0 to 1")
        if not 1 <= n_bits <= _MOST_BITS:
            raise ValueError(f"n_bits={n_bits} is outside 1..{_MOST_BITS}")
        self.n_bits = n_bits
        self.n_jobs = n_jobs
        self.kind = kind
        self.recall = recall
        self.about: dict[str, str] = {}
        self._lists: tuple[State, Lists] | None = None
        n_words = -(-n_bits // 64)
        self._state = State(np.empty((n_words, 0), np.uint64), np.empty(0, np.int64), 0)
        self._writing = Lock()

    def __len__(self) -> int:
        return self._state.n

    @property
    def ids(self) -> Ids:
        """The ids of all codes, increasing."""
        state = self._state
        return state.ids[: state.n].copy()

    def add(self, codes: ArrayLike, ids: ArrayLike | None = None) -> Self:
        """Add packed codes; an id that is there already is refused."""
        with self._writing:
            words, new_ids = self._checked(codes, ids)
            state = self._state
            taken = new_ids[_found(state, new_ids)[1]]
            if len(taken):
                raise ValueError(f"id {taken[0]} is in the index already; use upsert to replace it")
            self._state = _merged(state, words, new_ids)
        return self

    def upsert(self, codes: ArrayLike, ids: ArrayLike) -> Self:
        """Add packed codes, in place of those that have their ids."""
        with self._writing:
            words, new_ids = self._checked(codes, ids)
            state = self._state
            rows, known = _found(state, new_ids)
            if known.any():
                replaced = state.words.copy()
                replaced[:, rows[known]] = words[:, known]
                state = state._replace(words=replaced)
            self._state = _merged(state, words[:, ~known], new_ids[~known])
        return self

    def remove(self, ids: ArrayLike) -> int:
        """Forget codes by their ids; how many of them were there."""
        with self._writing:
            state = self._state
            wanted = np.unique(np.asarray(ids, dtype=np.int64))
            rows, known = _found(state, wanted)
            keep = np.ones(state.n, dtype=bool)
            keep[rows[known]] = False
            n = int(keep.sum())
            self._state = State(
                np.ascontiguousarray(state.words[:, : state.n][:, keep]),
                state.ids[: state.n][keep],
                n,
            )
        return int(known.sum())

    def search(
        self,
        codes: ArrayLike,
        k: int = 10,
        *,
        rerank: ArrayLike | None = None,
        n_candidates: int | None = None,
    ) -> tuple[NDArray[np.int32], Ids]:
        """Distances and ids of the k nearest codes of each query, shape (n_queries, k).

        Fewer codes than k: the rest has distance n_bits + 1 and id -1.

        Parameters
        ----------
        codes : uint8 array of shape (n_queries, n_bytes)
            Packed codes of the queries.
        k : int, default=10
        rerank : array of shape (n_queries, n_bits), optional
            Projections of the queries before the sign (`decision_function`). The nearest codes in
            Hamming distance are then put in the order of their agreement with the projections,
            in which a sure bit counts more than a doubtful one.
        n_candidates : int, optional
            How many codes are put in order; 10 k if not given.
        """
        if k < 1:
            raise ValueError(f"k={k} is not allowed: give a whole number of at least 1")
        state, queries = self._state, np.ascontiguousarray(self._words(codes).T)
        depth = k if rerank is None else max(k, n_candidates or 10 * k)
        H = None if rerank is None else self._projections(rerank, len(queries))
        distances = np.full((len(queries), k), self.n_bits + 1, np.int32)
        ids = np.full((len(queries), k), -1, np.int64)
        found = min(k, state.n)
        if found == 0 or len(queries) == 0:
            return distances, ids

        nearest = self._nearest(state)

        def part(rows: slice) -> None:
            D, R = nearest(queries[rows], min(depth, state.n))
            if H is not None:
                D, R = _by_agreement(state.words, D, R, H[rows])
            D, R = D[:, :found], R[:, :found]
            distances[rows, :found] = np.where(R < 0, self.n_bits + 1, D)
            ids[rows, :found] = np.where(R < 0, -1, state.ids[R])

        self._in_threads(part, len(queries))
        return distances, ids

    def _nearest(
        self, state: State
    ) -> Callable[[NDArray[np.uint64], int], tuple[NDArray[np.int32], NDArray[np.int64]]]:
        """How the rows nearest to queries are found in a state."""
        if self.kind == "exact":
            return lambda queries, k: nearest_rows(state.words, 0, state.n, queries, k, self.n_bits)
        if self._lists is None or self._lists[0] is not state:
            self._lists = state, Lists(state.words[:, : state.n], self.n_bits, self.recall)
        return self._lists[1].nearest

    def _projections(self, rerank: ArrayLike, n_queries: int) -> NDArray[np.float32]:
        H = np.asarray(rerank, dtype=np.float32)
        if H.shape != (n_queries, self.n_bits) or not np.isfinite(H).all():
            raise ValueError(
                f"rerank of shape {H.shape} is not a finite projection of {n_queries} queries to "
                f"{self.n_bits} bits"
            )
        return H

    def within(self, codes: ArrayLike, radius: int) -> list[tuple[NDArray[np.int32], Ids]]:
        """For each query the distances and ids of all codes at most `radius` bits away."""
        if radius < 0:
            raise ValueError(f"radius={radius} is not allowed: give a whole number of at least 0")
        state, queries = self._state, self._words(codes)
        return [self._ball(state, query, radius) for query in queries.T]

    def _ball(
        self, state: State, query: NDArray[np.uint64], radius: int
    ) -> tuple[NDArray[np.int32], Ids]:
        distances = np.zeros(state.n, np.int32)
        for word, q in zip(state.words, query, strict=True):
            distances += np.bitwise_count(word[: state.n] ^ q)
        rows = np.flatnonzero(distances <= radius)
        rows = rows[np.argsort(distances[rows], kind="stable")]
        return distances[rows], state.ids[rows]

    def _in_threads(self, work: Callable[[slice], None], n_queries: int) -> None:
        """All queries in parts, a few parts a thread."""
        n_threads = self.n_jobs or os.cpu_count() or 1
        step = max(1, min(_QUERIES, -(-n_queries // n_threads)))
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
        arrays = {"words": state.words[:, : state.n], "ids": state.ids[: state.n]}
        save_model(path, KIND, {"n_bits": self.n_bits, "about": self.about}, arrays)

    @classmethod
    def load(
        cls,
        path: StrPath,
        *,
        memory_map: bool = False,
        n_jobs: int | None = None,
        kind: Literal["exact", "ivf"] = "exact",
        recall: float = 0.99,
    ) -> Self:
        """Read an index; or open it where it lies, without reading or checking it first."""
        file = (map_model if memory_map else load_model)(path)
        if file.kind != KIND:
            raise ModelFileError(f"{path}: holds a {file.kind}, not an index; name an index file")
        index = cls(int(file.header["n_bits"]), n_jobs, kind=kind, recall=recall)
        index.about = dict(file.header.get("about", {}))
        words, ids = file.arrays["words"], file.arrays["ids"]
        index._state = State(words, ids, len(ids))
        return index

    def _words(self, codes: ArrayLike) -> NDArray[np.uint64]:
        """Packed codes as 64-bit words, shape (n_words, n)."""
        packed = np.asarray(codes, dtype=np.uint8)
        if packed.ndim != 2 or packed.shape[1] != n_bytes(self.n_bits):
            raise ValueError(
                f"codes of shape {packed.shape} are not codes of {self.n_bits} bits, which have "
                f"{n_bytes(self.n_bits)} bytes a row"
            )
        n_words = len(self._state.words)
        padded = np.zeros((len(packed), 8 * n_words), np.uint8)
        padded[:, : packed.shape[1]] = packed
        return np.ascontiguousarray(padded.view(np.uint64).T)

    def _checked(self, codes: ArrayLike, ids: ArrayLike | None) -> tuple[NDArray[np.uint64], Ids]:
        """Codes and ids of a batch, in the order of the ids, each id once."""
        words, state = self._words(codes), self._state
        n = words.shape[1]
        if ids is None:
            first = int(state.ids[state.n - 1]) + 1 if state.n else 0
            return words, np.arange(first, first + n)
        given = np.asarray(ids)
        if given.shape != (n,) or given.dtype.kind not in "iu":
            raise ValueError(
                f"ids of shape {given.shape} and type {given.dtype}; one whole number for each of "
                f"the {n} codes is needed"
            )
        given = given.astype(np.int64)
        order = np.argsort(given, kind="stable")
        given = given[order]
        if n and given[0] < 0:
            raise ValueError(f"id {given[0]} is negative; ids are whole numbers from 0 on")
        twice = np.flatnonzero(given[1:] == given[:-1])
        if len(twice):
            raise ValueError(f"id {given[twice[0]]} is given twice")
        return np.ascontiguousarray(words[:, order]), given


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


def _found(state: State, ids: Ids) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Where ids are, or would be, and which of them are there."""
    known = state.ids[: state.n]
    rows = np.searchsorted(known, ids)
    there = rows < state.n
    there[there] = known[rows[there]] == ids[there]
    return rows, there


def _merged(state: State, words: NDArray[np.uint64], ids: Ids) -> State:
    """A state with further codes, whose ids are new and in order."""
    n, more = state.n, len(ids)
    if more == 0:
        return state
    if n and ids[0] <= state.ids[n - 1]:  # not at the end: everything is laid out anew
        rows = np.searchsorted(state.ids[:n], ids)
        return State(
            np.insert(state.words[:, :n], rows, words, axis=1),
            np.insert(state.ids[:n], rows, ids),
            n + more,
        )
    if n + more > len(state.ids) or not state.ids.flags.writeable:
        room = n + more + (n // _ROOM)
        grown = State(np.empty((len(state.words), room), np.uint64), np.empty(room, np.int64), n)
        grown.words[:, :n], grown.ids[:n] = state.words[:, :n], state.ids[:n]
        state = grown
    state.words[:, n : n + more], state.ids[n : n + more] = words, ids
    return state._replace(n=n + more)
