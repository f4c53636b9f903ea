"""Ids of codes: whole numbers or text, one kind per index.

A table holds the ids of all rows in increasing order; text is ordered by code points. So the row of
a code is its place among the ids: search works with rows, and only its results become ids.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, ClassVar, Literal, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._core.errors import InputError

IdKind = Literal["numbers", "text"]
Ids = NDArray[Any]  # int64, or objects of type str
Rows = NDArray[np.intp]

MAX_ID = 2**53 - 1  # of automatic ids: larger integers lose digits in some JSON parsers
MAX_CHARACTERS = 256  # of a text id
MAX_BYTES = 4 * MAX_CHARACTERS  # in UTF-8
_GROWTH = 8  # arrays grow by one eighth
_BLOCK = 256  # text ids that are compared at a time
_PART = 1 << 16  # text ids that are looked up at a time


def on_host(array: Any) -> Any:
    """Copy a torch tensor to the CPU; return anything else unchanged."""
    return array.cpu() if hasattr(array, "cpu") else array


def kind_of(ids: Ids) -> IdKind:
    """Return the kind of ids that `parse_ids` returned."""
    return "text" if ids.dtype == object else "numbers"


def parse_ids(ids: ArrayLike) -> Ids:
    """Return ids as an int64 array, or an array of objects of type str, of one dimension.

    >>> parse_ids([7, 3]), parse_ids(["SKU-7", "SKU-3"])
    (array([7, 3]), array(['SKU-7', 'SKU-3'], dtype=object))
    """
    given: Any = ids
    if hasattr(given, "__iter__") and not isinstance(given, str | bytes | np.ndarray):
        given = on_host(given) if hasattr(given, "dtype") else list(given)
    first = given[0] if isinstance(given, list) and given else None
    array = _as_objects(given) if isinstance(first, str) else np.asarray(given)
    mixed = isinstance(given, list) and array.dtype != object  # NumPy makes [1, "a"] texts
    if array.ndim == 1 and array.dtype.kind in "OUT" and array.size and not mixed:
        texts = array.tolist()
        if all(type(text) is str for text in texts):
            _check_texts(texts)
            return array if array.dtype == object else _as_objects(texts)
    elif array.ndim == 1 and (array.size == 0 or array.dtype.kind in "iu"):
        return array.astype(np.int64)
    shown = f"shape {array.shape}, type {array.dtype}"
    raise InputError(f"{shown}; a list of whole numbers or a list of texts is needed", "ids")


def _as_objects(values: Any) -> NDArray[Any]:
    """Return values as an array of objects, which keeps trailing zero characters."""
    array = np.empty(len(values), object)
    array[:] = values
    return array


def _check_texts(texts: list[str]) -> None:
    for text in texts:
        if not 0 < len(text) <= MAX_CHARACTERS or "\0" in text:
            raise InputError(f"id {text[:40]!r} is not allowed; {TEXT_RULE}", "ids")
    try:
        "".join(texts).encode()
    except UnicodeEncodeError as error:
        problem = "an id has half of a surrogate pair, which is not valid Unicode"
        raise InputError(problem, "ids") from error


TEXT_RULE = f"text ids have 1 to {MAX_CHARACTERS} characters and no zero character"


def check_kind(ids: Ids, kind: IdKind | None) -> Ids:
    """Return ids if an index with ids of this kind can have them; None: it has no ids yet."""
    if kind is None or not len(ids) or kind_of(ids) == kind:
        return ids
    has, given = ("whole numbers", "text") if kind == "numbers" else ("text", "whole numbers")
    raise InputError(f"ids of this index are {has}, not {given}", "ids")


def no_ids(n_queries: int, k: int, kind: IdKind | None) -> Ids:
    """Return ids of places without a code: -1, or None if ids are text."""
    if kind == "text":
        return np.full((n_queries, k), None, object)
    return np.full((n_queries, k), -1, np.int64)


def is_id(ids: Ids) -> NDArray[np.bool_]:
    """Return which places of a search result have a code."""
    found = ids >= 0 if kind_of(ids) == "numbers" else ids != None  # noqa: E711
    return np.asarray(found, dtype=bool)


def append(array: NDArray[Any], n: int, more: NDArray[Any]) -> NDArray[Any]:
    """Return an array whose columns after the first n are `more`; it may have unused ones.

    Readers use the first n columns only, so writing after them is safe.
    """
    stop = n + more.shape[-1]
    if stop > array.shape[-1] or not array.flags.writeable:
        grown = np.empty((*array.shape[:-1], stop + n // _GROWTH), array.dtype)
        grown[..., :n] = array[..., :n]
        array = grown
    array[..., n:stop] = more
    return array


class NumberIds:
    """Whole numbers, increasing."""

    kind: ClassVar[IdKind | None] = "numbers"

    def __init__(self, values: NDArray[np.int64], n: int | None = None) -> None:
        self._values = values  # may have unused places after the first n
        self._n = len(values) if n is None else n

    def __len__(self) -> int:
        return self._n

    @property
    def last(self) -> Any:
        """The highest id; the table must not be empty."""
        return self._values[self._n - 1]

    def used(self) -> Self:
        """Return the table without room for more."""
        return type(self)(self._values[: self._n])

    def map(self, change: Callable[[NDArray[Any]], NDArray[Any]]) -> Self:
        """Return a table whose arrays are changed by a function."""
        return type(self)(change(self._values), self._n)

    def locate(self, ids: Ids) -> tuple[Rows, NDArray[np.bool_]]:
        """Return the rows where ids are or would be inserted, and which of the ids exist."""
        known = self._values[: self._n]
        rows = np.searchsorted(known, ids)
        exists = rows < self._n
        exists[exists] = known[rows[exists]] == ids[exists]
        return rows, exists

    def take(self, rows: Rows) -> Ids:
        """Return the ids of rows; -1 for a negative row."""
        if not self._n:
            return np.full(rows.shape, -1)
        return np.where(rows < 0, -1, self._values[rows])

    def between(self, start: int, stop: int) -> Ids:
        """Return the ids of consecutive rows."""
        return self._values[: self._n][start:stop].copy()

    def insert(self, rows: Rows, ids: Ids) -> NumberIds:
        """Return a table with more ids, which are new and increasing, at their rows."""
        if not self._n or ids[0] > self.last:
            return NumberIds(append(self._values, self._n, ids), self._n + len(ids))
        return NumberIds(np.insert(self._values[: self._n], rows, ids))

    def select(self, rows: Rows) -> Self:
        """Return a table of some increasing rows."""
        return type(self)(np.ascontiguousarray(self._values[rows]))

    def free(self, n: int) -> Ids:
        """Return n ids that are not in the table."""
        return free_ids(self._values[: self._n], n)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays to store in a file."""
        return {"ids": self._values[: self._n]}

    @classmethod
    def parse(cls, arrays: dict[str, NDArray[Any]]) -> Self:
        """Take the arrays that `arrays` returned out of a dictionary, and check them."""
        ids = arrays.pop("ids")
        if ids.dtype != np.int64 or ids.ndim != 1:
            raise ValueError("type of ids")
        if len(ids) and not (ids[0] >= 0 and (ids[1:] > ids[:-1]).all()):
            raise ValueError("order of ids")
        return cls(np.require(ids, requirements=["C", "A"]))


class NoIds(NumberIds):
    """The empty table of an index whose first ids decide on the kind."""

    kind = None

    def locate(self, ids: Ids) -> tuple[Rows, NDArray[np.bool_]]:
        return np.zeros(len(ids), np.intp), np.zeros(len(ids), bool)

    def insert(self, rows: Rows, ids: Ids) -> Any:
        return EMPTY[kind_of(ids)].insert(rows, ids)

    @classmethod
    def parse(cls, arrays: dict[str, NDArray[Any]]) -> Self:
        table = super().parse(arrays)
        if len(table):
            raise ValueError("ids without a kind")
        return table


class TextIds:
    """Texts, increasing: one array of UTF-8 bytes, and where each text ends in it."""

    kind: ClassVar[IdKind | None] = "text"

    def __init__(
        self, text: NDArray[np.uint8], ends: NDArray[np.int64], n: int | None = None
    ) -> None:
        self._text, self._ends = text, ends  # may have unused places after the first n ids
        self._n = len(ends) if n is None else n

    def __len__(self) -> int:
        return self._n

    @property
    def last(self) -> str:
        """The last id; the table must not be empty."""
        return str(self.between(self._n - 1, self._n)[0])

    def used(self) -> TextIds:
        """Return the table without room for more."""
        return TextIds(self._text[: self._start(self._n)], self._ends[: self._n])

    def map(self, change: Callable[[NDArray[Any]], NDArray[Any]]) -> TextIds:
        """Return a table whose arrays are changed by a function."""
        return TextIds(change(self._text), change(self._ends), self._n)

    def locate(self, ids: Ids) -> tuple[Rows, NDArray[np.bool_]]:
        """Return the rows where ids are or would be inserted, and which of the ids exist."""
        rows, exists = np.zeros(len(ids), np.intp), np.zeros(len(ids), bool)
        if not self._n:
            return rows, exists
        order = np.argsort(ids, kind="stable")
        for start in range(0, len(ids), _PART):
            part = order[start : start + _PART]
            rows[part], exists[part] = self._locate(TextIds.of(ids[part])._padded(0, len(part)))
        return rows, exists

    def _locate(self, keys: NDArray[np.bytes_]) -> tuple[Rows, NDArray[np.bool_]]:
        """Look up increasing keys: first the block of each, then its place in the block."""
        rows, exists = np.zeros(len(keys), np.intp), np.zeros(len(keys), bool)
        blocks = np.searchsorted(self._fences, keys, "right") - 1
        found, firsts = np.unique(blocks, return_index=True)
        stops = [*firsts[1:].tolist(), len(keys)]
        for block, first, stop in zip(found.tolist(), firsts.tolist(), stops, strict=True):
            if block < 0:
                continue  # before all ids
            start = block * _BLOCK
            known = self._padded(start, min(start + _BLOCK, self._n))
            places = np.searchsorted(known, keys[first:stop])
            rows[first:stop] = start + places
            inside = places < len(known)
            exists[first:stop][inside] = known[places[inside]] == keys[first:stop][inside]
        return rows, exists

    @cached_property
    def _fences(self) -> NDArray[np.bytes_]:
        """The first id of each block."""
        rows = np.arange(0, self._n, _BLOCK)
        return np.array([text.encode() for text in self.take(rows)], np.bytes_)

    def take(self, rows: Rows) -> Ids:
        """Return the ids of rows; None for a negative row."""
        if not self._n:
            return np.full(rows.shape, None)
        flat = np.maximum(rows, 0).ravel()
        stops = self._ends[flat]
        starts = np.where(flat > 0, self._ends[flat - 1], 0)
        taken = _as_objects(self._slices(starts, stops)).reshape(rows.shape)
        taken[rows < 0] = None
        return taken

    def _slices(self, starts: NDArray[np.int64], stops: NDArray[np.int64]) -> list[str]:
        """Return the texts at some places; those of one width in ASCII, such as UUIDs, at once."""
        width = int(stops[0] - starts[0]) if len(starts) else 0
        if len(starts) > 1 and (stops - starts == width).all():
            # An array of all pieces of this width, which overlap; only those at `starts` are read.
            shape = (len(self._text) - width + 1,)
            pieces: Any = np.ndarray(shape, f"S{width}", self._text, strides=(1,))
            joined = pieces[starts].tobytes()
            if joined.isascii():
                text = joined.decode()
                return [text[at : at + width] for at in range(0, len(text), width)]
        view: Any = memoryview(cast(Any, self._text))
        pairs = zip(starts.tolist(), stops.tolist(), strict=True)
        return [str(view[start:stop], "utf-8") for start, stop in pairs]

    def between(self, start: int, stop: int) -> Ids:
        """Return the ids of consecutive rows."""
        return self.take(np.arange(*slice(start, stop).indices(self._n)))

    def insert(self, rows: Rows, ids: Ids) -> TextIds:
        """Return a table with more ids, which are new and increasing, at their rows."""
        n, more, used = self._n, TextIds.of(ids), self._start(self._n)
        if not n or rows[0] == n:
            text = append(self._text, used, more._text)
            return TextIds(text, append(self._ends, n, more._ends + used), n + len(ids))
        cuts = [self._start(row) for row in rows.tolist()]
        stops = more._ends.tolist()
        pieces, at, begin = [], 0, 0
        for cut, stop in zip(cuts, stops, strict=True):
            pieces += [self._text[at:cut], more._text[begin:stop]]
            at, begin = cut, stop
        text = np.concatenate([*pieces, self._text[at:used]])
        lengths = np.insert(self._lengths(0, n), rows, more._lengths(0, len(ids)))
        return TextIds(text, np.cumsum(lengths))

    def select(self, rows: Rows) -> TextIds:
        """Return a table of some increasing rows."""
        if not len(rows):
            return TextIds(np.empty(0, np.uint8), np.empty(0, np.int64))
        gaps = np.flatnonzero(np.diff(rows) != 1)
        firsts, lasts = rows[np.append(0, gaps + 1)], rows[np.append(gaps, len(rows) - 1)]
        runs = zip(firsts.tolist(), lasts.tolist(), strict=True)
        pieces = [self._text[self._start(first) : self._ends[last]] for first, last in runs]
        return TextIds(np.concatenate(pieces), np.cumsum(self._lengths(0, self._n)[rows]))

    def free(self, n: int) -> Ids:
        """Return no ids: only the user can name codes."""
        if n == 0:
            return _as_objects([])
        raise InputError("this index has text ids; give one id per code", "ids")

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays to store in a file."""
        used = self.used()
        return {"id_text": used._text, "id_ends": used._ends}

    @staticmethod
    def of(ids: Ids) -> TextIds:
        """Return a table of ids in the given order."""
        texts = ids.tolist()
        joined = "".join(texts)
        parts = texts if joined.isascii() else [text.encode() for text in texts]
        lengths = np.fromiter(map(len, parts), np.int64, len(parts))
        return TextIds(np.frombuffer(joined.encode(), np.uint8), np.cumsum(lengths))

    @classmethod
    def parse(cls, arrays: dict[str, NDArray[Any]]) -> TextIds:
        """Take the arrays that `arrays` returned out of a dictionary, and check them."""
        table = cls(*take_texts(arrays, "id"))
        _require(bool((table._lengths(0, len(table)) > 0).all()), "an empty id")
        last = b""
        for start in range(0, len(table), _PART):  # in parts, since it may be a memory map
            stop = min(start + _PART, len(table))
            first = table._start(start)
            part = table._text[first : table._start(stop)]
            joined = part.tobytes().decode()
            _require("\0" not in joined, "an id with a zero character")
            begins = (part & 0xC0) != 0x80  # of characters
            places = table._ends[start:stop] - table._lengths(start, stop) - first
            _require(bool(begins[places].all()), "an id that begins inside a character")
            longest = int(np.add.reduceat(begins, places, dtype=np.int64).max())
            _require(longest <= MAX_CHARACTERS, "an id that is too long")
            for low in range(start, stop, _BLOCK):
                block = table._padded(low, min(low + _BLOCK, stop))
                order = bool((block[1:] > block[:-1]).all()) and bool(block[0] > last)
                _require(order, "order of ids")
                last = block[-1]
        return table

    def _start(self, row: int) -> int:
        return int(self._ends[row - 1]) if row else 0

    def _lengths(self, start: int, stop: int) -> NDArray[np.int64]:
        return np.diff(self._ends[start:stop], prepend=self._start(start))

    def _padded(self, start: int, stop: int) -> NDArray[np.bytes_]:
        """Return consecutive ids as bytes of one width; they are in the order of the texts."""
        if stop <= start:
            return np.empty(0, "S1")
        lengths = self._lengths(start, stop)
        width, text = int(lengths.max()), self._text[self._start(start) : self._start(stop)]
        if (lengths == width).all():
            return np.ascontiguousarray(text).view(f"S{width}")
        padded = np.zeros((stop - start, width), np.uint8)
        padded[np.arange(width) < lengths[:, None]] = text
        return padded.view(f"S{width}")[:, 0]


IdTable = NumberIds | TextIds
TABLES: dict[IdKind | None, type[IdTable]] = {None: NoIds, "numbers": NumberIds, "text": TextIds}
EMPTY: dict[IdKind | None, IdTable] = {
    None: NoIds(np.empty(0, np.int64)),
    "numbers": NumberIds(np.empty(0, np.int64)),
    "text": TextIds(np.empty(0, np.uint8), np.empty(0, np.int64)),
}


def free_ids(ids: Ids, n: int) -> Ids:
    """Return n whole numbers that are not among some increasing ones.

    They follow the highest id, or if that is too high, fill the lowest gaps.

    >>> free_ids(np.array([0, 5]), 2), free_ids(np.array([0, 2, MAX_ID]), 3)
    (array([6, 7]), array([1, 3, 4]))
    """
    first = int(ids[-1]) + 1 if len(ids) else 0
    if first + n - 1 <= MAX_ID:
        return np.arange(first, first + n)
    ids = ids[: np.searchsorted(ids, MAX_ID, "right")]
    before = np.append(-1, ids)
    sizes = np.append(ids, MAX_ID + 1) - before - 1  # of the gap after each id
    last = int(np.argmax(np.cumsum(np.minimum(sizes, n)) >= n))  # gap with the n-th free id
    starts, lengths = before[: last + 1] + 1, np.minimum(sizes[: last + 1], n)
    steps = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return (np.repeat(starts, lengths) + steps)[:n]


def take_texts(
    arrays: dict[str, NDArray[Any]], name: str
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Take the bytes and the ends of texts out of the arrays of a file, and check them."""
    text, ends = arrays.pop(f"{name}_text"), arrays.pop(f"{name}_ends")
    _require(text.dtype == np.uint8 and text.ndim == 1, f"type of {name}s")
    _require(ends.dtype == np.int64 and ends.ndim == 1, f"type of {name} ends")
    _require(len(ends) == 0 or bool(ends[0] >= 0), f"order of {name} ends")
    _require(bool((ends[1:] >= ends[:-1]).all()), f"order of {name} ends")
    _require((int(ends[-1]) if len(ends) else 0) == len(text), f"length of {name}s")
    aligned = np.require(ends, requirements=["C", "A"])
    return np.require(text, requirements=["C"]), aligned


def _require(condition: bool, problem: str) -> None:
    if not condition:
        raise ValueError(problem)
