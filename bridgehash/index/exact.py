"""`HammingIndex`: nearest codes by Hamming distance, in memory or from a file.

A change replaces the state of the index and never modifies what a search may be reading. So the
index is thread-safe: any number of threads can search while one changes it.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from pathlib import Path
from threading import Lock
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._core.errors import InputError, LostChangesWarning, ModelFileError
from .._core.files import StrPath, remove_leftovers
from .._core.locks import FileLock
from ..codes import MAX_BITS, n_bytes
from ..models.model_file import FileWatch
from . import state as states
from .approximate import InvertedLists
from .batch import (
    Batch,
    Ids,
    SearchMode,
    check_number,
    check_search_mode,
    checked_batch,
    free_ids,
    id_exists,
    no_neighbors,
    on_host,
    packed_codes,
    whole_ids,
)
from .index_file import (
    IndexFile,
    IndexVersion,
    journal_path,
    read_index,
    read_version,
    write_index,
)
from .scan import DeviceCodes, Neighbors, nearest_rows
from .state import IndexState, as_bytes, as_words, locate

_QUERIES_PER_PASS = 256  # their candidates fit into the cache
_QUERIES_PER_PASS_GPU = 1024
_MAX_EMPTY = 100_000_000  # results of a search that asks for more codes than there are


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
        return tuple(self.state.tags.names[number] for number in used if number)


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
        self._loaded: IndexVersion | None = None  # the file this index was read from
        self._watch: FileWatch | None = None  # of memory-mapped arrays
        self._shares_tags = False  # with the index that this is a snapshot of
        self._views: tuple[IndexState, dict[str | None, SearchView]]
        no_words = np.empty((-(-n_bits // 64), 0), np.uint64)
        self._state = IndexState(no_words, np.empty(0, np.int64), 0)
        self._write_lock = Lock()

    @property
    def _state(self) -> IndexState:
        return self._read()[0]

    @_state.setter
    def _state(self, state: IndexState) -> None:
        self._views = state, {}  # one assignment: a reader never sees views of another state

    def __getstate__(self) -> dict[str, Any]:
        state = self._state.used().map(np.array)  # without memory maps
        return {**vars(self), "_views": (state, {}), "_write_lock": None, "_watch": None}

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
        state, views = self._read()
        twin = type(self).__new__(type(self))
        # Without unused columns: otherwise both would write new codes to the same ones.
        own = {"_views": (state.used(), views), "_write_lock": Lock(), "_shares_tags": True}
        vars(twin).update(vars(self), about=dict(self.about), **own)
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
        return codes, [state.tags.names[number] for number in numbers]

    def contains(self, ids: ArrayLike) -> NDArray[np.bool_]:
        """Return which ids are in the index."""
        return locate(self._state, whole_ids(ids))[1]

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
            existing = batch.ids[self.contains(batch.ids)]
            if len(existing):
                raise id_exists(existing[0])
            self._state = states.upsert(self._own_state(), batch)
        return self

    def upsert(self, codes: ArrayLike, ids: ArrayLike, *, tags: ArrayLike | None = None) -> Self:
        """Add packed codes; codes with the same ids are replaced, tags included."""
        with self._write_lock:
            batch = self._check(codes, ids, tags)
            self._state = states.upsert(self._own_state(), batch)
        return self

    def remove(self, ids: ArrayLike) -> int:
        """Remove codes by id and return how many were removed; unknown ids are ignored."""
        with self._write_lock:
            self._state, n_removed = states.remove(self._own_state(), whole_ids(ids))
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
        view = self._view(tag)
        state = view.state
        width = min(k, state.n)
        if k > len(self) and k * len(queries) > _MAX_EMPTY:
            raise InputError(f"{k} for {len(self)} codes; use at most {max(1, len(self))}", "k")
        distances, ids = no_neighbors(len(queries), k, self.n_bits)

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

    def save(self, path: StrPath, *, overwrite: bool = True) -> None:
        """Write the index to one file with a checksum. A failed write leaves the old file.

        Raises `InputError` if another process has the file open for changes, or has changed it
        since this index was loaded from it. To change an index file that others change too, use
        `IndexStore`.

        Parameters
        ----------
        path : path
        overwrite : bool, default=True
            False refuses a file that exists.
        """
        with FileLock(path) as lock:
            if not overwrite and not lock.is_new:
                raise InputError("exists already; choose another name", os.fspath(path))
            if self._loaded and self._loaded.path == lock.path and not lock.is_new:
                self._check_version(lock.path)
            remove_leftovers(lock.path)
            generation = self.write(lock.path, replace=lock.replace)
            journal_path(lock.path).unlink(missing_ok=True)
            self._loaded = IndexVersion(lock.path, generation)

    def write(
        self, path: StrPath, *, parent: str = "", replace: Callable[[Path], object] | None = None
    ) -> str:
        """Write the file of an index that is locked by the caller; return its generation."""
        state = self._state
        return write_index(path, self.n_bits, self.about, state, parent=parent, replace=replace)

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
        """Read an index from a file, with all changes that were acknowledged until now.

        With `memory_map` the file is read once, to check it, and again during searches; it takes
        no memory of its own. If another program changes the file in place, the next search raises
        `ModelFileError`. A file that is shortened *during* a search crashes the process: replace
        index files, as `save` does, and do not overwrite them.

        The other parameters are those of the constructor.
        """
        file = read_index(path, memory_map=memory_map)
        if file.problem:
            warnings.warn(file.problem, LostChangesWarning, stacklevel=2)
        return cls.from_file(file, n_jobs, search=search, recall=recall, device=device)

    @classmethod
    def from_file(cls, file: IndexFile, n_jobs: int | None = None, **options: Any) -> Self:
        """Return the index in a file that was read."""
        index = cls(file.n_bits, n_jobs, **options)
        index._state, index.about = file.state, file.about
        index._loaded, index._watch = file.version, file.watch
        return index

    def _check(self, codes: ArrayLike, ids: ArrayLike | None, tags: ArrayLike | None) -> Batch:
        batch = checked_batch(codes, ids, tags, self.n_bits, 0)
        if ids is None:
            batch = batch._replace(ids=free_ids(self._state.used().ids, len(batch.ids)))
        return batch

    def _check_version(self, path: Path) -> None:
        """Raise an error if the file of this index was changed since it was loaded."""
        if read_version(path) != self._loaded:
            raise InputError(
                "was changed since it was loaded; load it again and repeat the change, or use "
                "IndexStore",
                str(path),
            )

    def _own_state(self) -> IndexState:
        """Return the state to change; the first change of a snapshot copies the table of tags."""
        if self._shares_tags:
            self._shares_tags = False
            return states.own_tags(self._state)
        return self._state

    def _read(self) -> tuple[IndexState, dict[str | None, SearchView]]:
        """Return the state and its views, unless they are in a file that was changed meanwhile."""
        if self._watch is not None and self._watch.changed():
            name = "" if self._loaded is None else str(self._loaded.path)
            raise ModelFileError("was changed while it was in use; load the index again", name)
        return self._views

    def _view(self, tag: str | None) -> SearchView:
        """Return the codes of a tag, or all. Views are kept until the index changes."""
        state, views = self._read()
        if tag in views:
            return views[tag]
        selected = state if tag is None else states.with_tag(state, tag)
        approximate = self.search_mode == "approximate" and tag is None
        view = SearchView(selected, partial(self._searcher, approximate=approximate))
        if tag is None or state.tags.number(tag) is not None:  # else there is nothing worth keeping
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
