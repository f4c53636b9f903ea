"""`HammingIndex`: nearest codes by Hamming distance, in memory or from a file.

A change replaces the state of the index and never modifies what a search may be reading. So the
index is thread-safe: any number of threads can search while one changes it.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from pathlib import Path
from threading import Lock
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._core.errors import InputError, LostChangesWarning, ModelFileError, named
from .._core.files import StrPath, remove_leftovers
from .._core.locks import FileLock
from ..codes import MAX_BITS, n_bytes
from ..models.model_file import FileWatch
from . import state as states
from .approximate import InvertedLists
from .attributes import Attributes, ItemFilter, Match, Tags, parse_filter
from .batch import (
    Batch,
    SearchMode,
    check_number,
    check_search_mode,
    checked_batch,
    id_exists,
    packed_codes,
)
from .changes import Remove, make_changes
from .ids import EMPTY, IdKind, Ids, check_kind, parse_ids
from .index_file import (
    IndexFile,
    IndexVersion,
    journal_path,
    read_index,
    read_version,
    write_index,
)
from .parquet import ParquetInfo, read_info, read_rows, write_parquet
from .scan import DeviceCodes, Neighbors, nearest_rows
from .state import IndexState, as_bytes, as_words
from .weighted import ScoredCodes, Weights, rounded_weights

_QUERIES_PER_PASS = 256  # their candidates fit into the cache
_QUERIES_PER_PASS_GPU = 1024
_MEASURED = 64  # queries that decide how many candidates are needed
_MAX_EMPTY = 100_000_000  # results of a search that asks for more codes than there are


# Takes queries (n_queries, n_words) and k; returns the nearest rows by (distance, row).
Searcher = Callable[[NDArray[np.uint64], int], Neighbors]


class SearchView:
    """The codes that a search sees. Its searcher is built when it is first needed."""

    def __init__(
        self,
        state: IndexState,
        rows: NDArray[np.intp] | None,
        build: Callable[[NDArray[np.uint64]], Searcher],
    ) -> None:
        self._rows, self._build = rows, build  # rows None: all
        used = state.words[:, : state.n]
        self.words = used if rows is None else np.ascontiguousarray(used[:, rows])
        self.n = self.words.shape[1]
        corrections = state.corrections
        if corrections is not None:
            corrections = corrections[:, : state.n] if rows is None else corrections[:, rows]
        self.scored = ScoredCodes(self.words, corrections)
        self.depths: dict[int, int] = {}  # measured number of candidates, by k

    @cached_property
    def searcher(self) -> Searcher:
        return self._build(self.words)

    def of_index(self, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return the rows of the index for rows of this view; -1 for a negative one."""
        return rows if self._rows is None else np.where(rows < 0, -1, self._rows[rows])

    def page(self, start: int, length: int) -> NDArray[np.intp]:
        """Return some rows of the index, from a position in this view."""
        return self.of_index(np.arange(*slice(start, start + length).indices(self.n)))


class Views:
    """The views of one state. Those of filters are kept as long as they have n rows together."""

    def __init__(self, state: IndexState) -> None:
        self.state = state
        self._lock = Lock()
        self._views: dict[ItemFilter | None, SearchView] = {}

    def get(
        self, wanted: ItemFilter | None, make: Callable[[NDArray[np.intp] | None], SearchView]
    ) -> SearchView:
        """Return the view of a filter, made if it is not kept."""
        with self._lock:
            view = self._views.pop(wanted, None)
            if view is not None:
                self._views[wanted] = view  # as the most recent one
                return view
        view = make(None if wanted is None else self.state.matching(wanted))
        if wanted is None or view.n:
            with self._lock:
                self._views[wanted] = view
                filters = [key for key in self._views if key is not None]
                rows = sum(self._views[key].n for key in filters)
                for key in filters[:-1]:
                    if rows > self.state.n:
                        rows -= self._views.pop(key).n
        return view

    @cached_property
    def counts(self) -> list[tuple[Attributes, int]]:
        """All attributes in use, and how many codes have them."""
        return self.state.counts()

    def used(self) -> Views:
        """Return the same state without room for more codes. Both keep views for each other."""
        twin = Views(self.state.used())
        twin._lock, twin._views = self._lock, self._views
        return twin


class IndexItems(NamedTuple):
    """Codes, tags and domains of some items."""

    codes: NDArray[np.uint8]  # (n, n_bytes)
    tags: list[tuple[str, ...]]  # sorted
    domains: list[str]  # empty where it is not known


class HammingIndex:
    """Search for the codes nearest to a query, or within a radius of it.

    Results are ordered by (distance, id). Ids are whole numbers from 0, or texts of 1 to 256
    characters, ordered by code points; the first ids decide on the kind. Codes that are added
    without ids get the next free numbers. The index is thread-safe and can be pickled.

    Parameters
    ----------
    n_bits : int, default=64
        Length of the codes, 1 to 4,096.
    n_jobs : int, optional
        Number of threads of a search; all cores by default.
    search : "exact" or "approximate", default="exact"
        "approximate" uses the inverted lists of faiss. It is faster from about a million codes.
        The first search after a change builds the lists. A search with a filter is always exact.
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
    >>> index = HammingIndex(n_bits=8).add([[0], [7]], ["SKU-1", "SKU-2"], tags=["hat", "shoe"])
    >>> index.search([[0]], k=1, tags="shoe")
    (array([[3]], dtype=int32), array([['SKU-2']], dtype=object))
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
        self._shares_attributes = False  # with the index that this is a snapshot of
        no_words = np.empty((-(-n_bits // 64), 0), np.uint64)
        self._views = Views(IndexState(no_words, EMPTY[None], 0))
        self._write_lock = Lock()

    @property
    def _state(self) -> IndexState:
        return self._read().state

    @_state.setter
    def _state(self, state: IndexState) -> None:
        self._views = Views(state)  # one assignment: a reader never sees views of another state

    def __getstate__(self) -> dict[str, Any]:
        state = self._state.used().map(np.array)  # without memory maps
        return {**vars(self), "_views": state, "_write_lock": None, "_watch": None}

    def __setstate__(self, values: dict[str, Any]) -> None:
        vars(self).update(values, _views=Views(values["_views"]), _write_lock=Lock())

    def __len__(self) -> int:
        return self._state.n

    @property
    def id_kind(self) -> IdKind | None:
        """ "numbers" or "text"; None before the first ids are added."""
        return self._state.ids.kind

    @property
    def ids(self) -> Ids:
        """All ids, increasing."""
        state = self._state
        return state.ids.between(0, state.n)

    @property
    def tags(self) -> tuple[str, ...]:
        """All tags in use, sorted."""
        return tuple(sorted({tag for entry, _ in self._read().counts for tag in entry.tags}))

    @property
    def domains(self) -> dict[str, int]:
        """Number of codes per domain; the empty name stands for codes without a domain."""
        counts: dict[str, int] = {}
        for entry, n in self._read().counts:
            counts[entry.domain] = counts.get(entry.domain, 0) + n
        return dict(sorted(counts.items()))

    @property
    def has_corrections(self) -> bool:
        """Whether any item has corrections."""
        return self.corrections is not None

    @property
    def corrections(self) -> NDArray[np.float16] | None:
        """Offsets and slopes in the order of `ids`, shape (n, 2), NaN where an item has none.

        None if no item has any.
        """
        numbers = self._state.used().corrections
        return None if numbers is None or np.isnan(numbers[0]).all() else numbers.T

    def next_id(self) -> int:
        """Return the id that the next code without an id gets."""
        return int(self._state.ids.free(1)[0])

    def snapshot(self) -> Self:
        """Return the index as it is now; later changes of either do not affect the other."""
        twin = type(self).__new__(type(self))
        # Without unused columns: otherwise both would write new codes to the same ones.
        own = {
            "_views": self._read().used(),
            "_write_lock": Lock(),
            "_shares_attributes": True,
        }
        vars(twin).update(vars(self), about=dict(self.about), **own)
        return twin

    def get(self, ids: ArrayLike) -> IndexItems:
        """Return codes, tags and domains by id. Raises `KeyError` with the first unknown id."""
        state = self._state
        wanted = check_kind(parse_ids(ids), state.ids.kind)
        rows, exists = _locate(state, wanted)
        if not exists.all():
            raise KeyError(wanted[~exists].tolist()[0])
        return self._items(state, rows)

    def at(self, rows: NDArray[np.intp]) -> tuple[Ids, IndexItems]:
        """Return ids and items by row, for rows of `search_rows` or `best_rows` without -1."""
        state = self._state
        return state.ids.take(rows), self._items(state, rows)

    def _items(self, state: IndexState, rows: NDArray[np.intp]) -> IndexItems:
        codes = as_bytes(state.words[:, rows])[:, : n_bytes(self.n_bits)]
        entries = state.entries(rows)
        return IndexItems(codes, [each.tags for each in entries], [each.domain for each in entries])

    def contains(self, ids: ArrayLike) -> NDArray[np.bool_]:
        """Return which ids are in the index."""
        state = self._state
        return _locate(state, check_kind(parse_ids(ids), state.ids.kind))[1]

    def page(
        self,
        start: int,
        length: int,
        *,
        tags: Tags | None = None,
        match: Match = "any",
        domain: str | None = None,
    ) -> tuple[Ids, int]:
        """Return `length` ids from position `start`, and the total; filters as in `search`."""
        views, wanted = self._read(), parse_filter(tags, match, domain)
        view = self._view(views, wanted)
        return views.state.ids.take(view.page(start, length)), view.n

    def add(
        self,
        codes: ArrayLike,
        ids: ArrayLike | None = None,
        *,
        tags: ArrayLike | None = None,
        domain: ArrayLike | None = None,
        corrections: ArrayLike | None = None,
    ) -> Self:
        """Add packed codes. Raises `InputError` if an id exists.

        Parameters
        ----------
        codes : uint8 array of shape (n, n_bytes)
        ids : list of int or list of str, optional
            One per code, all of the kind that the index has. By default the next free numbers.
        tags : list, optional
            One text or list of texts per code, to filter searches.
        domain : str or list of str, optional
            Name of the domain that the codes come from: one for all, or one per code.
        corrections : float16 array of shape (n, 2), optional
            Those of `encode_corrected`, for searches with weights.
        """
        return self._add(codes, ids, tags, domain, corrections)

    def _add(
        self,
        codes: ArrayLike,
        ids: ArrayLike | None,
        tags: ArrayLike | None,
        domain: ArrayLike | None,
        corrections: ArrayLike | None,
        *,
        may_miss: bool = False,
    ) -> Self:
        with self._write_lock:
            batch = self._check(codes, ids, tags, domain, corrections, may_miss)
            existing = batch.ids[_locate(self._state, batch.ids)[1]]
            if len(existing):
                raise id_exists(existing[0])
            self._state = states.upsert(self._own_state(), batch)
        return self

    def upsert(
        self,
        codes: ArrayLike,
        ids: ArrayLike,
        *,
        tags: ArrayLike | None = None,
        domain: ArrayLike | None = None,
        corrections: ArrayLike | None = None,
    ) -> Self:
        """Add packed codes; items with the same ids are replaced, with all that belongs to them."""
        with self._write_lock:
            batch = self._check(codes, ids, tags, domain, corrections)
            self._state = states.upsert(self._own_state(), batch)
        return self

    def apply(self, changes: Sequence[Batch | Remove]) -> None:
        """Make changes that were checked already; they become visible at once."""
        with self._write_lock:
            self._state = make_changes(self._own_state(), changes, self.n_bits)

    def remove(self, ids: ArrayLike) -> int:
        """Remove codes by id and return how many were removed; unknown ids are ignored."""
        with self._write_lock:
            given = check_kind(parse_ids(ids), self.id_kind)
            self._state, n_removed = states.remove(self._own_state(), given)
        return n_removed

    def search(
        self,
        codes: ArrayLike,
        k: int = 10,
        *,
        tags: Tags | None = None,
        match: Match = "any",
        domain: str | None = None,
        weights: ArrayLike | None = None,
        n_candidates: int | Literal["auto"] | None = None,
    ) -> tuple[NDArray[np.int32] | NDArray[np.float32], Ids]:
        """Return distances and ids of the k nearest codes per query, shape (n_queries, k).

        Distances are int32, ids int64, or objects of type str if ids are text. If fewer than k
        codes are found, the remaining places have distance n_bits + 1 and id -1, or None if ids are
        text. Queries in a torch tensor give tensors on the same device, except for text ids.

        With weights, float32 scores take the place of distances: offset - slope (w · b), ordered by
        (score, id), smaller is nearer, infinite where there is no code. With the corrections of
        `encode_corrected` a score estimates the squared distance of the rows, less that of the
        query to the centre. Without any, it is -(w · b).

        Parameters
        ----------
        codes : uint8 array of shape (n_queries, n_bytes)
            Packed codes of the queries.
        k : int, default=10
        tags : str or list of str, optional
            Search codes with one of these tags only. The empty text stands for codes without tags.
        match : "any" or "all", default="any"
            "all" searches codes that have all the tags.
        domain : str, optional
            Search codes of this domain only.
        weights : array of shape (n_queries, n_bits), optional
            What each bit counts (`query_weights`): codes are ranked by their score.
        n_candidates : int or "auto", optional
            With weights: score only this many codes per query, the nearest ones by Hamming
            distance. "auto" measures on queries of the first search, for each k, how many are
            needed to find the share `recall` of the k best. By default all codes are scored, or, if
            search is approximate, "auto".
        """
        views, wanted = self._read(), parse_filter(tags, match, domain)
        distances: Any
        if weights is None:
            distances, rows = self._nearest(views, codes, k, wanted)
        else:
            distances, rows = self._best(views, codes, k, wanted, weights, n_candidates)
        return _like(codes, distances), _like(codes, views.state.ids.take(rows))

    def search_rows(
        self, codes: ArrayLike, k: int = 10, wanted: ItemFilter | None = None
    ) -> tuple[NDArray[np.int32], NDArray[np.intp]]:
        """Return distances and rows of the k nearest codes, for `at` of the same snapshot."""
        return self._nearest(self._read(), codes, k, wanted)

    def best_rows(
        self, codes: ArrayLike, weights: ArrayLike, k: int = 10, wanted: ItemFilter | None = None
    ) -> tuple[NDArray[np.float32], NDArray[np.intp]]:
        """Return scores and rows of the k best codes by weights, for `at` of the same snapshot."""
        return self._best(self._read(), codes, k, wanted, weights, None)

    def _nearest(
        self,
        views: Views,
        codes: ArrayLike,
        k: int,
        wanted: ItemFilter | None,
    ) -> tuple[NDArray[np.int32], NDArray[np.intp]]:
        queries = self._query_words(codes)
        view, width = self._view(views, wanted), self._width(views, len(queries), k)
        width = min(width, view.n)
        distances = np.full((len(queries), k), self.n_bits + 1, np.int32)
        found = np.full((len(queries), k), -1, np.int64)

        def search_part(rows: slice) -> None:
            D, R = searcher(queries[rows], width)
            distances[rows, :width] = np.where(R < 0, self.n_bits + 1, D)
            found[rows, :width] = view.of_index(R)

        if width and len(queries):
            searcher = view.searcher
            self._run_in_parts(search_part, len(queries))
        return distances, found

    def _best(
        self,
        views: Views,
        codes: ArrayLike,
        k: int,
        wanted: ItemFilter | None,
        weights: ArrayLike,
        n_candidates: int | Literal["auto"] | None,
    ) -> tuple[NDArray[np.float32], NDArray[np.intp]]:
        """Return scores and rows of the k best codes."""
        queries = self._query_words(codes)
        given = rounded_weights(weights, len(queries), self.n_bits)
        if n_candidates is not None and n_candidates != "auto":
            check_number(n_candidates, "n_candidates", 1)
        view, width = self._view(views, wanted), self._width(views, len(queries), k)
        width = min(width, view.n)
        scores = np.full((len(queries), k), np.inf, np.float32)
        found = np.full((len(queries), k), -1, np.int64)
        if not width or not len(queries):
            return scores, found
        searcher = view.searcher
        if n_candidates is None and isinstance(searcher, InvertedLists):
            n_candidates = "auto"
        if n_candidates == "auto":
            n_candidates = self._depth(view, queries, given, width)

        def search_part(rows: slice) -> None:
            part = given.part(rows)
            if n_candidates is not None:
                depth = min(max(width, n_candidates), view.n)
                S, R = view.scored.ordered(part, searcher(queries[rows], depth)[1])
            elif isinstance(searcher, DeviceCodes):
                S, R = searcher.nearest(view.scored, part, width)
            else:
                S, R = view.scored.nearest(part, width)
            scores[rows, :width], found[rows, :width] = S[:, :width], view.of_index(R[:, :width])

        self._run_in_parts(search_part, len(queries))
        return scores, found

    def _depth(
        self, view: SearchView, queries: NDArray[np.uint64], weights: Weights, k: int
    ) -> int:
        """Return how many Hamming candidates hold the share `recall` of the k best codes.

        It is measured on some of the queries, once for each k. Lists of approximate search may not
        hold enough; then it is the number above which no more of the best are found.
        """
        if k not in view.depths:
            some = slice(0, _MEASURED)
            best = view.scored.nearest(weights.part(some), k)[1]
            depth, share, before = k, 0.0, -1.0
            while before < share < self.recall and depth < view.n:
                depth, before = min(2 * depth, view.n), share
                pairs = zip(best, view.searcher(queries[some], depth)[1], strict=True)
                share = float(np.mean([np.isin(a, b) for a, b in pairs]))
            view.depths[k] = depth
        return view.depths[k]

    def _query_words(self, codes: ArrayLike) -> NDArray[np.uint64]:
        return np.ascontiguousarray(as_words(packed_codes(codes, self.n_bits)).T)

    def _width(self, views: Views, n_queries: int, k: int) -> int:
        """Check k; refuse results that would be large and empty."""
        k, n = check_number(k, "k", 1), views.state.n
        if k > n and k * n_queries > _MAX_EMPTY:
            raise InputError(f"{k} for {n} codes; use at most {max(1, n)}", "k")
        return k

    def within(
        self,
        codes: ArrayLike,
        radius: int,
        *,
        tags: Tags | None = None,
        match: Match = "any",
        domain: str | None = None,
    ) -> list[tuple[NDArray[np.int32], Ids]]:
        """Return, per query, distances and ids of all codes at most `radius` bits away.

        Filters are those of `search`.
        """
        check_number(radius, "radius", 0)
        views = self._read()
        view = self._view(views, parse_filter(tags, match, domain))
        results = []
        for query in as_words(packed_codes(codes, self.n_bits)).T:
            distances = np.zeros(view.n, np.int32)
            for word, q in zip(view.words, query, strict=True):
                distances += np.bitwise_count(word ^ q)
            rows = np.flatnonzero(distances <= radius)
            rows = rows[np.argsort(distances[rows], kind="stable")]
            results.append((distances[rows], views.state.ids.take(view.of_index(rows))))
        return results

    @property
    def lists(self) -> InvertedLists | None:
        """The lists of approximate search, with measured `n_probe` and `recall`; else None."""
        searcher = self._view(self._read(), None).searcher
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

    def to_parquet(self, path: StrPath) -> None:
        """Write the index to a Parquet file, for other programs and for `from_parquet`.

        The columns are id (int64 or string), code (fixed-size binary), domain (null if not known)
        and tags (list of strings). The metadata has n_bits and `about`. A failed write leaves the
        old file.
        """
        state = self._state
        write_parquet(path, ParquetInfo(self.n_bits, dict(self.about), state.ids.kind), state)

    @classmethod
    def from_parquet(
        cls,
        path: StrPath,
        *,
        n_jobs: int | None = None,
        search: SearchMode = "exact",
        recall: float = 0.99,
        device: str | None = None,
    ) -> Self:
        """Read an index from a Parquet file that `to_parquet` wrote.

        The other parameters are those of the constructor.
        """
        info = read_info(path)
        if info is None:
            raise InputError("is not an index; write it with to_parquet", os.fspath(path))
        index = cls(info.n_bits, n_jobs, search=search, recall=recall, device=device)
        index.about = info.about
        index._state = index._state._replace(ids=EMPTY[info.ids])
        for rows in read_rows(path, info):
            with named(path):
                index._add(*rows, may_miss=True)
        return index

    def _check(
        self,
        codes: ArrayLike,
        ids: ArrayLike | None,
        tags: ArrayLike | None,
        domain: ArrayLike | None,
        corrections: ArrayLike | None,
        may_miss: bool = False,
    ) -> Batch:
        known = self._state.ids
        batch = checked_batch(
            codes,
            ids,
            tags,
            domain,
            self.n_bits,
            corrections=corrections,
            may_miss=may_miss,
            kind=known.kind,
        )
        if ids is None:
            batch = batch._replace(ids=known.free(len(batch.ids)))
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
        """Return the state to change; the first change of a snapshot copies the attributes."""
        if self._shares_attributes:
            self._shares_attributes = False
            return states.own_attributes(self._state)
        return self._state

    def _read(self) -> Views:
        """Return the state and its views, unless they are in a file that was changed meanwhile."""
        if self._watch is not None and self._watch.changed():
            name = "" if self._loaded is None else str(self._loaded.path)
            raise ModelFileError("was changed while it was in use; load the index again", name)
        return self._views

    def _view(self, views: Views, wanted: ItemFilter | None) -> SearchView:
        """Return the codes of a filter, or all."""
        approximate = self.search_mode == "approximate" and wanted is None
        build = partial(self._searcher, approximate=approximate)
        return views.get(wanted, lambda rows: SearchView(views.state, rows, build))

    def _searcher(self, words: NDArray[np.uint64], *, approximate: bool) -> Searcher:
        if approximate and words.shape[1]:
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


def _locate(state: IndexState, ids: Ids) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    if not len(ids):  # of either kind
        return np.zeros(0, np.intp), np.zeros(0, bool)
    return state.ids.locate(ids)


def _like(codes: Any, result: NDArray[Any]) -> Any:
    """Return a result as a tensor on the device of the queries if these are a tensor."""
    if not hasattr(codes, "cpu") or result.dtype == object:
        return result
    import torch

    return torch.from_numpy(result).to(codes.device)
