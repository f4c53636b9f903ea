"""A matrix in blocks of rows, read one at a time, as often as needed.

The rows may be larger than memory: a memory map, a Parquet file, a zarr array, a folder of such
files, or an iterable of blocks. `Blocks` can be pickled. Files are pickled as paths, so a worker
on another machine needs the same files under the same path.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from .._core.errors import InputError, named
from .formats import MATRIX, check_finite, check_regular
from .readers import (
    ArrayReader,
    RowReader,
    iterable_reader,
    memmap_reader,
    names_of,
    npy_reader,
    parquet_reader,
    spooled_reader,
    zarr_reader,
)

if TYPE_CHECKING:
    from .._core.linalg import Array

BLOCK_BYTES = 64 << 20
CACHE_BYTES = 4 * BLOCK_BYTES
_FILES: dict[str, Callable[..., RowReader]] = {
    ".npy": npy_reader,
    ".parquet": parquet_reader,
    ".zarr": zarr_reader,
}


def as_blocks(data: Any, block_bytes: int = BLOCK_BYTES, *, name: str = "X") -> Blocks:
    """Return a matrix in blocks of rows, from an array, files or an iterable.

    Parameters
    ----------
    data : array, path, sequence or iterable
        - An array, a memory map, or any object with a shape and slices of rows (zarr, h5py).
        - A path to a .npy or .parquet file, to a .zarr folder, or to a folder of such files, which
          are read in the order of their names. `file.parquet:column` selects a vector column.
        - A list of arrays or paths.
        - An object that yields the same 2-D blocks each time it is iterated, or an iterator that
          yields them once and is written to a temporary file.
    block_bytes : int, default=64 MiB
        Maximum size of a block; a block has at least one row. A fit temporarily needs up to five
        times as much memory per block.
    name : str
        Name in messages, for data without a path.

    Examples
    --------
    >>> blocks = as_blocks(np.arange(6).reshape(3, 2), block_bytes=32)
    >>> blocks.shape, blocks.n_blocks, blocks.read(1)
    ((3, 2), 2, array([[4., 5.]]))
    """
    if isinstance(data, Blocks):
        return data
    return Blocks(_readers(data, name), block_bytes)


def _readers(data: Any, name: str) -> list[RowReader]:
    if isinstance(data, str | os.PathLike):
        return _file_readers(Path(data))
    if hasattr(data, "shape") and hasattr(data, "__getitem__"):
        with named(name):
            is_map = isinstance(data, np.memmap)
            return [memmap_reader(name, data) if is_map else ArrayReader(name, data)]
    if isinstance(data, list | tuple):
        if not data:
            raise InputError("is empty; at least one block is needed", name)
        readers = []
        for number, part in enumerate(data):
            block = f"{name}: block {number}"
            if not (isinstance(part, str | os.PathLike) or hasattr(part, "shape")):
                raise InputError(f"is of type {type(part).__name__}; pass arrays or paths", block)
            readers += _readers(part, block)
        return readers
    if isinstance(data, Iterator):
        return [spooled_reader(name, data)]
    if isinstance(data, Iterable):
        return [iterable_reader(name, data)]
    raise InputError(f"{MATRIX[2]}; this is {type(data).__name__}: pass an array or a path", name)


def _file_readers(path: Path) -> list[RowReader]:
    """Read a file, or the files of a folder by name; names that begin with . or _ are skipped."""
    if not path.is_dir() or path.suffix.lower() == ".zarr":
        return [_file_reader(path)]
    files = [each for each in sorted(path.iterdir()) if each.name[0] not in "._"]
    if not files:
        raise InputError(f"the folder is empty; add {', '.join(_FILES)} files", str(path))
    return [_file_reader(each) for each in files]


def _file_reader(path: Path) -> RowReader:
    keys: list[str] = []
    if not path.exists() and ":" in path.name:
        name, _, key = path.name.rpartition(":")
        if path.with_name(name).suffix.lower() == ".parquet":
            path, keys = path.with_name(name), [key]
    if not path.exists():
        raise InputError(f"File not found: {path}")
    with named(path, "check the file and its extension"):
        if path.suffix.lower() not in _FILES:
            raise InputError(f"unknown kind of file {path.suffix!r}; use {', '.join(_FILES)}")
        check_regular(path)
        return _FILES[path.suffix.lower()](path, *keys)


class Blocks:
    """Rows of one or more readers, cut into blocks; built by `as_blocks`.

    Attributes
    ----------
    shape : (int, int)
    dtype : float32 or float64
        Type of the blocks: that of the data, or the smaller type that represents it exactly.
    n_blocks : int
    cache_bytes : int
        Memory in which a fit may keep blocks, per process.
    columns : list of str or None
        Names of the columns, if they have some.
    """

    def __init__(
        self,
        readers: Sequence[RowReader],
        block_bytes: int = BLOCK_BYTES,
        cache_bytes: int = CACHE_BYTES,
    ) -> None:
        width = readers[0].shape[1]
        self.columns = readers[0].columns
        for reader in readers:
            if reader.shape[1] != width:
                raise InputError(
                    f"has {reader.shape[1]} columns, {readers[0].name} has {width}; "
                    "use equal widths",
                    reader.name,
                )
            if None not in (reader.columns, self.columns) and reader.columns != self.columns:
                raise InputError(
                    f"its columns have other names, or another order, than those of "
                    f"{readers[0].name}; write them alike",
                    reader.name,
                )
        self._readers = list(readers)
        self.cache_bytes = cache_bytes
        self.shape = sum(reader.shape[0] for reader in readers), width
        self.dtype: np.dtype[Any] = np.result_type(*(reader.dtype for reader in readers))
        rows = max(1, block_bytes // (width * self.dtype.itemsize))
        self._places = [
            (number, *bounds)
            for number, reader in enumerate(readers)
            for bounds in _cut(reader.shape[0], rows, reader.breaks)
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
        """Return the same rows in blocks of another size."""
        return Blocks(self._readers, block_bytes, cache_bytes).astype(self.dtype)

    def astype(self, dtype: DTypeLike) -> Blocks:
        """Return the same rows, read as another floating type."""
        other = object.__new__(Blocks)
        vars(other).update(vars(self), dtype=np.dtype(dtype))
        return other

    def bounds(self, i: int) -> tuple[int, int]:
        """Return the number of the first row of block i and of the first row after it."""
        return int(self._starts[i]), int(self._starts[i + 1])

    def read(self, i: int) -> Array:
        """Return the rows of block i: an array that owns its memory, or a read-only view."""
        reader, start, stop = self._place(i)
        with named(reader.name):
            return np.asarray(reader.read(start, stop), dtype=self.dtype, order="C")

    def read_checked(self, i: int) -> Array:
        """Return the rows of block i; raise `InputError` for NaN and infinity."""
        reader, start, _ = self._place(i)
        block = self.read(i)
        with named(reader.name):
            check_finite(block, start)
        return block

    def reads_by_row(self, i: int) -> bool:
        """Return whether rows of block i can be read without their neighbours."""
        return self._place(i)[0].by_row

    def read_rows(self, i: int, rows: NDArray[np.intp]) -> Array:
        """Return some rows of block i, numbered within it, as a new array."""
        reader, start, _ = self._place(i)
        if not reader.by_row:
            return self.read(i)[rows]
        with named(reader.name):
            return np.asarray(reader.take(start + rows), dtype=self.dtype, order="C")

    def take(self, rows: ArrayLike) -> Array:
        """Return the given rows in the given order.

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
        """Return row numbers as an array; raise `InputError` for numbers out of range."""
        numbers = np.asarray(rows, dtype=np.intp)
        if numbers.ndim != 1 or (
            numbers.size and not 0 <= numbers.min() <= numbers.max() < len(self)
        ):
            raise InputError(f"must be a list of row numbers in 0..{len(self) - 1}", "rows")
        return numbers

    def by_block(
        self, rows: NDArray[np.intp]
    ) -> Iterator[tuple[int, NDArray[np.intp], NDArray[np.intp]]]:
        """Yield each block that has some of the rows: block, positions in `rows`, numbers in it."""
        order = np.argsort(rows, kind="stable")
        ordered = rows[order]
        ends = np.searchsorted(ordered, self._starts)
        for i in np.flatnonzero(np.diff(ends)):
            part = slice(ends[i], ends[i + 1])
            yield int(i), order[part], ordered[part] - self._starts[i]

    def _place(self, i: int) -> tuple[RowReader, int, int]:
        number, start, stop = self._places[i]
        return self._readers[number], start, stop


def _cut(n: int, rows: int, breaks: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the bounds of blocks of at most `rows` rows that end at breaks where possible.

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
    """Return whether the rows are in files or blocks rather than in an array."""
    if isinstance(data, Blocks | str | os.PathLike | Iterator):
        return True
    if isinstance(data, list | tuple):
        return bool(data) and all(isinstance(part, str | os.PathLike) for part in data)
    return type(data).__module__.partition(".")[0] in ("zarr", "h5py")


def column_names(data: Any) -> list[str] | None:
    """Return the names of the columns of a DataFrame, a file or blocks; None if they have none."""
    if isinstance(data, np.ndarray | Iterator):
        return None
    if needs_reading(data) and not isinstance(data, Blocks):
        return as_blocks(data).columns
    return names_of(data)


def read_all(data: Any, name: str = "X") -> Any:
    """Read all rows into one array; data that is an array already is returned unchanged."""
    if not needs_reading(data):
        return data
    blocks = as_blocks(data, name=name)
    X = np.empty(blocks.shape, dtype=blocks.dtype)
    for i in range(blocks.n_blocks):
        X[slice(*blocks.bounds(i))] = blocks.read_checked(i)
    return X
