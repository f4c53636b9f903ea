"""`HammingIndex`: nearest codes by Hamming distance, in memory or from a file.

A change replaces the state of the index and never modifies what a search may be reading. So the
index is thread-safe: any number of threads can search while one changes it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from threading import Lock
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._core.errors import InputError, ModelFileError, named
from .._core.files import StrPath
from ..codes import MAX_BITS, n_bytes
from ..models.model_file import INDEX_KIND, load_model, map_model, save_model
from . import state as states
from .approximate import InvertedLists
from .batch import (
    Batch,
    Ids,
    SearchMode,
    check_number,
    check_search_mode,
    checked_batch,
    id_exists,
    no_neighbors,
    on_host,
    packed_codes,
    whole_ids,
)
from .scan import DeviceCodes, Neighbors, nearest_rows
from .state import IndexState, as_bytes, as_words, locate

_QUERIES_PER_PASS = 256  # their candidates fit into the cache
_QUERIES_PER_PASS_GPU = 1024


# Takes queries (n_queries, n_words) and k; returns the nearest rows by (distance, row).
Searcher = Callable[[NDArray[np.uint64], int], Neighbors]


class SearchView:
    """The codes that a search sees. Its searcher is built when it is first needed."""

    def __init__(self, state: IndexState, build: Callable[[IndexState], Searcher]) -> None:
        self.state = state
        self._build = build

    @cached_property
    def searcher(self) -> Searcher:
        return self._build(self.state)

    @cached_property
    def tags(self) -> tuple[str, ...]:
        numbers = self.state.tag_numbers
        used = () if numbers is None else np.unique(numbers[: self.state.n])
        return tuple(self.state.tags[number] for number in used if number)


class HammingIndex:
    """Search for the codes nearest to a query, or within a radius of it.

    Results are ordered by (distance, id). Ids are whole numbers from 0. Codes that are added
    without ids get the next free ones. The index is thread-safe and can be pickled.

    Parameters
    ----------
    n_bits : int, default=64
        Length of the codes, 1 to 4,096.
    n_jobs : int, optional
        Number of threads of a search; all cores by default.
    search : "exact" or "approximate", default="exact"
        "approximate" uses the inverted lists of faiss. It is faster from about a million codes.
        The first search after a change builds the lists. A search with a tag is always exact.
    recall : float, default=0.99
        For approximate search: share of the ten nearest codes that must be found, as measured on
        codes of the index.
    device : str, optional
        Device on which torch searches, such as "cuda". The first search after a change copies the
        codes there. By default the CPU searches, without torch.

    Attributes
    ----------
    search_mode : "exact" or "approximate"
    about : dict of str
        Where the codes come from, such as their model; saved with the index.

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
        search: SearchMode = "exact",
        recall: float = 0.99,
        device: str | None = None,
    ) -> None:
        if not 0 < recall <= 1:
            raise InputError(f"{recall!r} is not allowed; use a number above 0, up to 1", "recall")
        if search == "approximate" and device is not None:
            raise InputError(f"{device!r}: approximate search runs on the CPU only", "device")
        self.n_bits = check_number(n_bits, "n_bits", 1, MAX_BITS)
        self.n_jobs = None if n_jobs is None else check_number(n_jobs, "n_jobs", 1)
        self.search_mode = check_search_mode(search)
        self.recall = recall
        self.device = device
        self.about: dict[str, str] = {}
        self._views: tuple[IndexState, dict[str | None, SearchView]]
        no_words = np.empty((-(-n_bits // 64), 0), np.uint64)
        self._state = IndexState(no_words, np.empty(0, np.int64), 0)
        self._write_lock = Lock()

    @property
    def _state(self) -> IndexState:
        return self._views[0]

    @_state.setter
    def _state(self, state: IndexState) -> None:
        self._views = state, {}  # one assignment: a reader never sees views of another state

    def __getstate__(self) -> dict[str, Any]:
        state = self._state.used().map(np.array)  # without memory maps
        return {**vars(self), "_views": (state, {}), "_write_lock": None}

    def __setstate__(self, values: dict[str, Any]) -> None:
        vars(self).update(values, _write_lock=Lock())

    def __len__(self) -> int:
        return self._state.n

    @property
    def ids(self) -> Ids:
        """All ids, increasing."""
        return self._state.used().ids.copy()

    @property
    def tags(self) -> tuple[str, ...]:
        """All tags in use, without the empty one."""
        return self._view(None).tags

    def snapshot(self) -> Self:
        """Return the index as it is now; later changes of either do not affect the other."""
        state, views = self._views
        twin = type(self).__new__(type(self))
        # Without unused columns: otherwise both would write new codes to the same ones.
        vars(twin).update(vars(self), _views=(state.used(), views), _write_lock=Lock())
        return twin

    def get(self, ids: ArrayLike) -> tuple[NDArray[np.uint8], list[str]]:
        """Return packed codes and tags by id. Raises `KeyError` with the first unknown id."""
        state, wanted = self._state, whole_ids(ids)
        rows, exists = locate(state, wanted)
        if not exists.all():
            raise KeyError(int(wanted[~exists][0]))
        numbers = state.tag_numbers
        numbers = np.zeros(len(rows), np.int32) if numbers is None else numbers[rows]
        codes = as_bytes(state.words[:, rows])[:, : n_bytes(self.n_bits)]
        return codes, [state.tags[number] for number in numbers]

    def page(self, start: int, length: int, *, tag: str | None = None) -> tuple[Ids, int]:
        """Return `length` ids from position `start`, and the total; with `tag`, of that tag."""
        state = self._view(tag).state
        return state.used().ids[start : start + length].copy(), state.n

    def add(
        self, codes: ArrayLike, ids: ArrayLike | None = None, *, tags: ArrayLike | None = None
    ) -> Self:
        """Add packed codes with optional tags. Raises `InputError` if an id exists."""
        with self._write_lock:
            batch = self._check(codes, ids, tags)
            existing = batch.ids[locate(self._state, batch.ids)[1]]
            if len(existing):
                raise id_exists(existing[0])
            self._state = states.upsert(self._state, batch)
        return self

    def upsert(self, codes: ArrayLike, ids: ArrayLike, *, tags: ArrayLike | None = None) -> Self:
        """Add packed codes; codes with the same ids are replaced, tags included."""
        with self._write_lock:
            self._state = states.upsert(self._state, self._check(codes, ids, tags))
        return self

    def remove(self, ids: ArrayLike) -> int:
        """Remove codes by id and return how many were removed; unknown ids are ignored."""
        with self._write_lock:
            self._state, n_removed = states.remove(self._state, whole_ids(ids))
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
        """Return distances and ids of the k nearest codes per query, shape (n_queries, k).

        If there are fewer than k codes, the remaining places have distance n_bits + 1 and id -1.
        So has every place if no code has the tag. Queries in a torch tensor give tensors on the
        same device.

        Parameters
        ----------
        codes : uint8 array of shape (n_queries, n_bytes)
            Packed codes of the queries.
        k : int, default=10
        tag : str, optional
            Search codes with this tag only.
        rerank : array of shape (n_queries, n_bits), optional
            Projections of the queries before the sign (`decision_function`). The nearest codes by
            Hamming distance are sorted by their inner product with the projections, so that bits
            far from the threshold count more.
        n_candidates : int, optional
            Number of codes to sort again; 10 k by default.
        """
        queries = np.ascontiguousarray(as_words(packed_codes(codes, self.n_bits)).T)
        k = check_number(k, "k", 1)
        depth = k if rerank is None else max(k, n_candidates or 10 * k)
        H = None if rerank is None else np.asarray(on_host(rerank), dtype=np.float32)
        shape = (len(queries), self.n_bits)
        if H is not None and (H.shape != shape or not np.isfinite(H).all()):
            raise InputError(
                f"shape {H.shape}; finite numbers of shape {shape} are needed", "rerank"
            )
        distances, ids = no_neighbors(len(queries), k, self.n_bits)
        view = self._view(tag)
        state = view.state
        width = min(k, state.n)

        def search_part(rows: slice) -> None:
            D, R = searcher(queries[rows], min(depth, state.n))
            if H is not None:
                D, R = _sort_by_projection(state.words, D, R, H[rows])
            D, R = D[:, :width], R[:, :width]
            distances[rows, :width] = np.where(R < 0, self.n_bits + 1, D)
            ids[rows, :width] = np.where(R < 0, -1, state.ids[R])

        if width and len(queries):
            searcher = view.searcher
            self._run_in_parts(search_part, len(queries))
        return _like(codes, distances), _like(codes, ids)

    def within(
        self, codes: ArrayLike, radius: int, *, tag: str | None = None
    ) -> list[tuple[NDArray[np.int32], Ids]]:
        """Return, per query, distances and ids of all codes at most `radius` bits away."""
        check_number(radius, "radius", 0)
        state, queries = self._view(tag).state, as_words(packed_codes(codes, self.n_bits))
        results = []
        for query in queries.T:
            distances = np.zeros(state.n, np.int32)
            for word, q in zip(state.words, query, strict=True):
                distances += np.bitwise_count(word[: state.n] ^ q)
            rows = np.flatnonzero(distances <= radius)
            rows = rows[np.argsort(distances[rows], kind="stable")]
            results.append((distances[rows], state.ids[rows]))
        return results

    @property
    def lists(self) -> InvertedLists | None:
        """The lists of approximate search, with measured `n_probe` and `recall`; else None."""
        searcher = self._view(None).searcher
        return searcher if isinstance(searcher, InvertedLists) else None

    def save(self, path: StrPath) -> None:
        """Write the index to one file with a checksum. A failed write leaves the old file."""
        state = self._state.used()
        header: dict[str, Any] = {"n_bits": self.n_bits, "about": self.about}
        arrays: dict[str, NDArray[Any]] = {"words": state.words, "ids": state.ids}
        if state.tag_numbers is not None:
            header["tags"] = state.tags
            arrays["tag_numbers"] = state.tag_numbers
        save_model(path, INDEX_KIND, header, arrays)

    @classmethod
    def load(
        cls,
        path: StrPath,
        *,
        memory_map: bool = False,
        n_jobs: int | None = None,
        search: SearchMode = "exact",
        recall: float = 0.99,
        device: str | None = None,
    ) -> Self:
        """Read an index from a file.

        With `memory_map` the file is opened at once and read during searches, without a check of
        its checksum. The other parameters are those of the constructor.
        """
        file = (map_model if memory_map else load_model)(path)
        if file.kind != INDEX_KIND:
            raise ModelFileError(
                f"is a model ({file.kind}), not an index; use bridgehash.load or `bridgehash info`",
                os.fspath(path),
            )
        with named(path, "build the index again"):
            n_bits = int(file.header["n_bits"])
            words, ids = file.arrays["words"], file.arrays["ids"]
            numbers, tags = file.arrays.get("tag_numbers"), tuple(file.header.get("tags", ("",)))
            about = dict(file.header.get("about", {}))
        index = cls(n_bits, n_jobs, search=search, recall=recall, device=device)
        index._state = IndexState(words, ids, len(ids), numbers, tags)
        index.about = about
        return index

    def _check(self, codes: ArrayLike, ids: ArrayLike | None, tags: ArrayLike | None) -> Batch:
        state = self._state
        next_id = int(state.ids[state.n - 1]) + 1 if state.n else 0
        return checked_batch(codes, ids, tags, self.n_bits, next_id)

    def _view(self, tag: str | None) -> SearchView:
        """Return the codes of a tag, or all. Views are kept until the index changes."""
        state, views = self._views
        if tag in views:
            return views[tag]
        selected = state if tag is None else states.with_tag(state, tag)
        approximate = self.search_mode == "approximate" and tag is None
        view = SearchView(selected, partial(self._searcher, approximate=approximate))
        if tag is None or tag in state.tags:  # else there is nothing worth keeping
            views[tag] = view
        return view

    def _searcher(self, state: IndexState, *, approximate: bool) -> Searcher:
        words = state.words[:, : state.n]
        if approximate and state.n:
            return InvertedLists(words, self.n_bits, self.recall)
        if self.device is not None:
            return DeviceCodes(words, self.n_bits, self.device)
        return partial(nearest_rows, words, n_bits=self.n_bits)

    def _run_in_parts(self, work: Callable[[slice], None], n_queries: int) -> None:
        """Divide the queries among threads; a GPU takes larger parts, one after the other."""
        n_threads = 1 if self.device else self.n_jobs or os.cpu_count() or 1
        most = _QUERIES_PER_PASS_GPU if self.device else _QUERIES_PER_PASS
        step = max(1, min(most, -(-n_queries // n_threads)))
        parts = [slice(start, start + step) for start in range(0, n_queries, step)]
        if n_threads == 1 or len(parts) == 1:
            for part in parts:
                work(part)
            return
        with ThreadPoolExecutor(n_threads) as pool:
            list(pool.map(work, parts))


def _like(codes: Any, result: NDArray[Any]) -> Any:
    """Return a result as a tensor on the device of the queries if these are a tensor."""
    if not hasattr(codes, "cpu"):
        return result
    import torch

    return torch.from_numpy(result).to(codes.device)


def _sort_by_projection(
    words: NDArray[np.uint64],
    distances: NDArray[np.int32],
    rows: NDArray[np.int64],
    H: NDArray[np.float32],
) -> Neighbors:
    """Sort the candidates of each query by falling Σ_j h_j b_j; ties by (distance, row)."""
    order = np.empty_like(rows)
    for q, (candidates, h) in enumerate(zip(rows, H, strict=True)):
        bits = np.unpackbits(as_bytes(words[:, candidates]), axis=1, count=len(h))
        score = np.where(candidates < 0, -np.inf, bits @ h)  # bits 0/1 or ±1: the same order
        order[q] = np.argsort(-score, kind="stable")
    return np.take_along_axis(distances, order, axis=1), np.take_along_axis(rows, order, axis=1)
