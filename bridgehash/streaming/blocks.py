"""A matrix in blocks of rows that can be read again and again, wherever the rows lie.

Larger than memory, it is a memory map, a Parquet file, a zarr array, a folder of such files, or
what an iterable gives; small, it may be an array. Whoever holds it asks for a block at a time. It
can be pickled: files travel by their path, so a worker that sees the same path can read it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from .._core.errors import InputError
from .._core.linalg import Array
from .formats import MATRIX, check_finite, naming
from .readers import (
    Sliced,
    Source,
    iterable_source,
    memmap_source,
    npy_source,
    parquet_source,
    spooled,
    zarr_source,
)

BLOCK_BYTES = 64 << 20
CACHE_BYTES = 4 * BLOCK_BYTES
_FILES: dict[str, Callable[..., Source]] = {
    ".npy": npy_source,
    ".parquet": parquet_source,
    ".zarr": zarr_source,
}


def as_blocks(data: Any, block_bytes: int = BLOCK_BYTES, *, name: str = "X") -> Blocks:
    """A matrix in blocks of rows, from whatever holds its rows.

    Parameters
    ----------
    data : array, path, sequence or iterable
        An array, a memory map, or any object with a shape and slices of rows (zarr, h5py). A path
        to a .npy or .parquet file, to a .zarr folder, or to a folder of such files, which are read
        in the order of their names; `file.parquet:column` names one of several vector columns.
        A list of arrays or paths. An object that gives 2-D blocks each time it is
        iterated, or an iterator that gives them once: these are kept in a temporary file.
    block_bytes : int, default=64 MiB
        Size that a block does not exceed, but for a single row. Work on a block (`rows`) takes up
        to five times as much for a while.
    name : str
        What messages call data that has no path.

    Examples
    --------
    >>> blocks = as_blocks(np.arange(6).reshape(3, 2), block_bytes=32)
    >>> blocks.shape, blocks.n_blocks, blocks.read(1)
    ((3, 2), 2, array([[4., 5.]]))
    """
    if isinstance(data, Blocks):
        return data
    return Blocks(_sources(data, name), block_bytes)


def _sources(data: Any, name: str) -> list[Source]:
    if isinstance(data, str | os.PathLike):
        return _in_files(Path(data))
    if hasattr(data, "shape") and hasattr(data, "__getitem__"):
        with naming(name):
            is_map = isinstance(data, np.memmap)
            return [memmap_source(name, data) if is_map else Sliced(name, data)]
    if isinstance(data, list | tuple):
        return _listed(data, name)
    if isinstance(data, Iterator):
        return [spooled(name, data)]
    if isinstance(data, Iterable):
        return [iterable_source(name, data)]
    raise InputError(f"{name}: {MATRIX[2]}; this is {type(data).__name__}: give an array or a path")


def _listed(parts: Sequence[Any], name: str) -> list[Source]:
    if not parts:
        raise InputError(f"{name}: is empty; at least one block is needed")
    sources = []
    for number, part in enumerate(parts):
        if not (isinstance(part, str | os.PathLike) or hasattr(part, "shape")):
            kind = type(part).__name__
            raise InputError(f"{name}: block {number} is of type {kind}; give arrays or paths")
        sources += _sources(part, f"{name}: block {number}")
    return sources


def _in_files(path: Path) -> list[Source]:
    """A file, or those of a folder by name; names that begin with . or _ are not data."""
    if not path.is_dir() or path.suffix.lower() == ".zarr":
        return [_in_file(path)]
    found = [each for each in sorted(path.iterdir()) if each.name[0] not in "._"]
    if not found:
        raise InputError(f"{path}: the folder is empty; name one with {_kinds()} files")
    return [_in_file(each) for each in found]


def _in_file(path: Path) -> Source:
    keys: list[str] = []
    if not path.exists() and ":" in path.name:
        name, _, key = path.name.rpartition(":")
        if path.with_name(name).suffix.lower() == ".parquet":
            path, keys = path.with_name(name), [key]
    with naming(path):
        if not path.exists():
            raise InputError("there is no such file; name an existing one")
        if path.suffix.lower() not in _FILES:
            raise InputError(f"unknown kind of file {path.suffix!r}; use {_kinds()}")
        return _FILES[path.suffix.lower()](path, *keys)


def _kinds() -> str:
    return ", ".join(_FILES)


class Blocks:
    """Rows of one or more sources, cut into blocks; made by `as_blocks`.

    Attributes
    ----------
    shape : (int, int)
    dtype : float32 or float64
        Type of what is read: that of the data, or the narrower of the two that holds its numbers.
    n_blocks : int
    cache_bytes : int
        What those who work on the blocks may keep of them.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        block_bytes: int = BLOCK_BYTES,
        cache_bytes: int = CACHE_BYTES,
    ) -> None:
        width = sources[0].shape[1]
        for source in sources:
            if source.shape[1] != width:
                raise InputError(
                    f"{source.name}: has {source.shape[1]} columns where {sources[0].name} has "
                    f"{width}; all must have the same"
                )
        self._sources = list(sources)
        self.cache_bytes = cache_bytes
        self.shape = sum(source.shape[0] for source in sources), width
        self.dtype: np.dtype[Any] = np.result_type(*(source.dtype for source in sources))
        rows = max(1, block_bytes // (width * self.dtype.itemsize))
        self._places = [
            (number, *bounds)
            for number, source in enumerate(sources)
            for bounds in _cut(source.shape[0], rows, source.breaks)
        ]
        self._starts = np.cumsum([0, *(stop - start for _, start, stop in self._places)])

    @property
    def n_blocks(self) -> int:
        return len(self._places)

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"Blocks(shape={self.shape}, dtype={self.dtype}, n_blocks={self.n_blocks})"

    def in_blocks_of(self, block_bytes: int, cache_bytes: int) -> Blocks:
        """The same rows in other blocks."""
        return Blocks(self._sources, block_bytes, cache_bytes).astype(self.dtype)

    def astype(self, dtype: DTypeLike) -> Blocks:
        """The same rows, read as another floating type."""
        other = object.__new__(Blocks)
        vars(other).update(vars(self), dtype=np.dtype(dtype))
        return other

    def bounds(self, i: int) -> tuple[int, int]:
        """Numbers of the first row of block i and of the first row after it."""
        return int(self._starts[i]), int(self._starts[i + 1])

    def read(self, i: int) -> Array:
        """The rows of block i.

        The array owns its memory and may be changed, or is a view that must not be.
        """
        source, start, stop = self._place(i)
        with naming(source.name):
            return np.asarray(source.read(start, stop), dtype=self.dtype, order="C")

    def read_checked(self, i: int) -> Array:
        """The rows of block i, refused where they hold NaN or infinity."""
        source, start, _ = self._place(i)
        block = self.read(i)
        with naming(source.name):
            check_finite(block, start)
        return block

    def reads_by_row(self, i: int) -> bool:
        """Can rows of block i be read without their neighbours?"""
        return self._place(i)[0].by_row

    def read_rows(self, i: int, rows: NDArray[np.intp]) -> Array:
        """Some rows of block i, numbered inside it: an array of its own."""
        source, start, _ = self._place(i)
        if not source.by_row:
            return self.read(i)[rows]
        with naming(source.name):
            return np.asarray(source.take(start + rows), dtype=self.dtype, order="C")

    def take(self, rows: ArrayLike) -> Array:
        """Given rows in the given order.

        >>> as_blocks(np.arange(6).reshape(3, 2), block_bytes=16).take([2, 0])
        array([[4., 5.],
               [0., 1.]])
        """
        numbers = self.check_rows(rows)
        taken = np.empty((len(numbers), self.shape[1]), dtype=self.dtype)
        for i, places, inside in self.by_block(numbers):
            taken[places] = self.read_rows(i, inside)
        return taken

    def check_rows(self, rows: ArrayLike) -> NDArray[np.intp]:
        """Row numbers as an array, refused where there are no such rows."""
        numbers = np.asarray(rows, dtype=np.intp)
        if numbers.ndim != 1 or (
            numbers.size and not 0 <= numbers.min() <= numbers.max() < len(self)
        ):
            raise IndexError(f"rows are numbered 0..{len(self) - 1}")
        return numbers

    def by_block(
        self, rows: NDArray[np.intp]
    ) -> Iterator[tuple[int, NDArray[np.intp], NDArray[np.intp]]]:
        """The blocks that rows lie in: block, places in `rows`, numbers inside the block."""
        order = np.argsort(rows, kind="stable")
        ordered = rows[order]
        ends = np.searchsorted(ordered, self._starts)
        for i in np.flatnonzero(np.diff(ends)):
            part = slice(ends[i], ends[i + 1])
            yield int(i), order[part], ordered[part] - self._starts[i]

    def _place(self, i: int) -> tuple[Source, int, int]:
        number, start, stop = self._places[i]
        return self._sources[number], start, stop


def _cut(n: int, rows: int, breaks: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Bounds of runs of at most so many of n rows, which end at breaks where they can.

    >>> list(_cut(10, 4, [0, 3, 6])), list(_cut(5, 4, []))
    ([(0, 3), (3, 6), (6, 10)], [(0, 4), (4, 5)])
    """
    marks = np.append(np.asarray(breaks, dtype=np.intp), n)
    start = 0
    while start < n:
        before = marks[: np.searchsorted(marks, start + rows, side="right")]
        stop = int(before[-1]) if len(before) and before[-1] > start else start + rows
        yield start, stop
        start = stop


def needs_reading(data: Any) -> bool:
    """Whether the rows are in files, or come in blocks, rather than in an array."""
    if isinstance(data, Blocks | str | os.PathLike | Iterator):
        return True
    if isinstance(data, list | tuple):
        return bool(data) and all(isinstance(part, str | os.PathLike) for part in data)
    return type(data).__module__.partition(".")[0] in ("zarr", "h5py")


def read_all(data: Any, name: str = "X") -> Any:
    """Read all rows into one array; data that is an array already is returned unchanged."""
    if not needs_reading(data):
        return data
    blocks = as_blocks(data, name=name)
    X = np.empty(blocks.shape, dtype=blocks.dtype)
    for i in range(blocks.n_blocks):
        X[slice(*blocks.bounds(i))] = blocks.read_checked(i)
    return X
