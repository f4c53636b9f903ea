"""Readers: rows from one array, file or iterable.

An `ArrayReader` (array, .npy, zarr) returns any rows directly. A `StreamReader` (Parquet, an
iterable of blocks) reads in order and continues where the last read ended. Files are opened when
they are read, so a pickled reader contains a path, not data.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import threading
import weakref
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import accumulate
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .._core.errors import InputError, named
from .formats import (
    MATRIX,
    arrow,
    check_finite,
    check_not_empty,
    choose,
    different_lengths,
    float_type,
    npy_header,
    parquet_columns,
)

_BATCH_BYTES = 4 << 20  # decoded at a time from a Parquet file


class RowReader(Protocol):
    """Rows of numbers from one array, file or iterable."""

    name: str  # for messages
    shape: tuple[int, int]
    dtype: np.dtype[Any]  # float32 or float64
    breaks: Sequence[int]  # rows at which a block should begin, ascending
    by_row: bool  # can single rows be read without their neighbours?
    columns: list[str] | None  # names, if the columns have some

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Return rows start to stop: a new array, or a view that must not be changed."""

    def take(self, rows: NDArray[np.intp]) -> NDArray[Any]:
        """Return the given rows; only if `by_row`."""


def as_matrix(
    shape: tuple[int, ...], dtype: np.dtype[Any]
) -> tuple[tuple[int, int], np.dtype[Any]]:
    """Check that this is a matrix of real numbers; return its shape and floating type."""
    if len(shape) != 2 or dtype.kind not in "biuf":
        raise InputError(f"{MATRIX[2]}; this is {shape} {dtype}: convert it")
    check_not_empty(shape)
    return (int(shape[0]), int(shape[1])), float_type(dtype)


def names_of(data: Any) -> list[str] | None:
    """Return the names of the columns of a DataFrame; None if it is none, or if they are no text.

    >>> names_of(np.eye(2)) is None
    True
    """
    columns = getattr(data, "columns", None)
    if columns is None or callable(columns):
        return None
    names = list(columns)
    return names if names and all(isinstance(name, str) for name in names) else None


class ArrayReader:
    """Rows of any object with a shape and slices."""

    def __init__(self, name: str, data: Any) -> None:
        self.name, self.data = name, data
        shape = tuple(data.shape)
        dtype = np.asarray(data[:0]).dtype if shape else np.dtype(object)
        self.shape, self.dtype = as_matrix(shape, dtype)
        chunks = getattr(data, "chunks", None)
        step = chunks[0] if chunks and isinstance(chunks[0], int) else None
        self.breaks: Sequence[int] = range(0, self.shape[0], step) if step else ()
        self.by_row = isinstance(data, np.ndarray | MappedArray)
        self.columns = names_of(data)

    def read(self, start: int, stop: int) -> NDArray[Any]:
        return np.asarray(self.data[start:stop]).view()

    def take(self, rows: NDArray[np.intp]) -> NDArray[Any]:
        return np.asarray(self.data[rows])


@dataclass(frozen=True)
class MappedArray:
    """An array in a file, mapped again for each slice so that unused pages are released."""

    path: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    offset: int = 0
    fortran_order: bool = False

    def __getitem__(self, key: Any) -> NDArray[Any]:
        order: Any = "F" if self.fortran_order else "C"
        whole: Any = np.memmap(self.path, self.dtype, "r", self.offset, self.shape, order)
        return whole[key]


def npy_reader(path: Path) -> ArrayReader:
    """Return a reader of a .npy file."""
    with open(path, "rb") as file:
        header = npy_header(file, path.stat().st_size)
    choose([header.field()], path, None, MATRIX)
    check_not_empty(header.shape)
    shape, fortran_order, dtype, start = header
    data = MappedArray(os.path.abspath(path), dtype, shape, start, fortran_order)
    return ArrayReader(str(path), data)


def memmap_reader(name: str, data: np.memmap[Any, Any]) -> ArrayReader:
    """Return a reader of a memory map that keeps the path of its file where possible."""
    if data.filename is None or data.mode == "c" or not data.flags.c_contiguous or not data.size:
        return ArrayReader(name, data)
    # `offset` of a slice is that of the whole map, so the start is computed from the address.
    begin = np.frombuffer(data._mmap, np.uint8).ctypes.data  # type: ignore[attr-defined]
    offset = data.offset - data.offset % mmap.ALLOCATIONGRANULARITY + data.ctypes.data - begin
    path = os.path.abspath(data.filename)
    return ArrayReader(name, MappedArray(path, data.dtype, data.shape, offset))


class ZarrArray:
    """A zarr array, opened when it is first used."""

    def __init__(self, path: str) -> None:
        self.path = path

    @cached_property
    def _array(self) -> Any:
        try:
            import zarr
        except ImportError as error:
            raise InputError("zarr arrays need zarr; pip install 'bridgehash[zarr]'") from error
        return zarr.open_array(self.path, mode="r")

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path}

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self._array.shape)

    @property
    def chunks(self) -> tuple[int, ...]:
        return tuple(self._array.chunks)

    def __getitem__(self, key: Any) -> Any:
        return self._array[key]


def zarr_reader(path: Path) -> ArrayReader:
    """Return a reader of a zarr array in a folder."""
    return ArrayReader(str(path), ZarrArray(os.path.abspath(path)))


class StreamReader:
    """Rows that can only be read in order, from one of a few entry points.

    Each thread keeps its position. Reading on from there is free; going back restarts at the
    nearest entry point before the row.
    """

    by_row = False

    def __init__(
        self,
        name: str,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        run: Callable[[int], Iterator[NDArray[Any]]],  # arrays of rows from entry point i on
        entries: Sequence[int],  # row of each entry point
        breaks: Sequence[int],
        columns: list[str] | None = None,
    ) -> None:
        self.columns = columns
        self.name, self.run, self.entries, self.breaks = name, run, entries, breaks
        self.shape, self.dtype = as_matrix(shape, dtype)
        self._position = threading.local()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_position"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _position=threading.local())

    def read(self, start: int, stop: int) -> NDArray[Any]:
        block = np.empty((stop - start, self.shape[1]), dtype=self.dtype)
        entry = bisect_right(self.entries, start) - 1
        row, pieces, rest = vars(self._position).pop("at", (-1, iter(()), block[:0]))
        if not self.entries[entry] <= row <= start:
            row, pieces, rest = self.entries[entry], self.run(entry), block[:0]
        while row < stop:
            if len(rest) == 0:
                rest = self._next(pieces, row)
            size = min(len(rest), (stop if row >= start else start) - row)
            if row >= start:
                block[row - start : row - start + size] = rest[:size]
            row, rest = row + size, rest[size:]
        self._position.at = row, pieces, rest
        return block

    def _next(self, pieces: Iterator[NDArray[Any]], row: int) -> NDArray[Any]:
        """Return the next rows of the stream, which begin at `row`."""
        n, width = self.shape
        try:
            piece = next(pieces)
        except StopIteration:
            raise InputError(f"had fewer than {n} rows when read again") from None
        if piece.shape[1] != width:
            raise different_lengths(row, piece.shape[1], 0, width)
        return piece

    def take(self, rows: NDArray[np.intp]) -> NDArray[Any]:
        raise NotImplementedError("a stream is read in order")


def parquet_reader(path: Path, key: str | None = None) -> StreamReader:
    """Return a reader of one vector column of a Parquet file, or of all its numeric columns."""
    metadata = arrow().parquet.read_metadata(path)
    sizes = [metadata.row_group(g).num_rows for g in range(metadata.num_row_groups)]
    *starts, n = accumulate(sizes, initial=0)
    check_not_empty((n,))
    first = next(_parquet_rows(path, key, starts, 1, 0))
    schema = arrow().parquet.read_schema(path)
    column = choose(parquet_columns(schema, features=True), path, key, MATRIX)
    names = None if column.name else list(column.columns)
    batch = max(1, _BATCH_BYTES // max(1, first[0].nbytes))
    run = partial(_parquet_rows, Path(os.path.abspath(path)), key, starts, batch)
    return StreamReader(str(path), (n, first.shape[1]), first.dtype, run, starts, starts, names)


def _parquet_rows(
    path: Path, key: str | None, starts: Sequence[int], batch_rows: int, entry: int
) -> Iterator[NDArray[Any]]:
    """Yield the rows of a file from one row group on, in batches."""
    pa = arrow()
    # The default settings read a whole row group before the first row is returned.
    with pa.parquet.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False) as file:
        column = choose(parquet_columns(file.schema_arrow, features=True), path, key, MATRIX)
        for group in range(entry, len(starts)):
            row = starts[group]
            chosen = {"row_groups": [group], "columns": list(column.columns)}
            for batch in file.iter_batches(batch_rows, **chosen):
                yield column.convert(pa.Table.from_batches([batch]), row)
                row += batch.num_rows


def iterable_reader(name: str, blocks: Iterable[Any]) -> StreamReader:
    """Return a reader of an object that yields the same blocks each time it is iterated.

    It is iterated once here, for the shapes and types of the blocks.
    """
    shapes, dtype = [], np.dtype(np.float32)
    for block in _checked_blocks(name, blocks):
        shapes.append(block.shape)
        dtype = np.result_type(dtype, float_type(block.dtype))
    *starts, n = accumulate((rows for rows, _ in shapes), initial=0)
    with named(name):
        check_not_empty((n,))
    run = partial(_checked_blocks, name, blocks)
    return StreamReader(name, (n, shapes[0][1]), dtype, run, [0], starts)


def _checked_blocks(name: str, blocks: Iterable[Any], entry: int = 0) -> Iterator[NDArray[Any]]:
    """Yield the blocks as arrays of equal width; the only entry point is the first block."""
    width = None
    for number, block in enumerate(blocks):
        array = np.asarray(block)
        with named(f"{name}: block {number}"):
            (_, columns), _ = as_matrix(array.shape, array.dtype)
            width = width or columns
            if columns != width:
                raise InputError(f"has {columns} columns, block 0 has {width}; use equal widths")
        yield array


def spooled_reader(name: str, blocks: Iterator[Any]) -> ArrayReader:
    """Write the blocks of an iterator to a temporary .npy file, and return a reader of it.

    The file is deleted with the reader. Set TMPDIR to a folder with enough space for all rows.
    """
    descriptor, path = tempfile.mkstemp(prefix="bridgehash-", suffix=".npy")
    try:
        with open(descriptor, "wb") as file:
            data = MappedArray(path, *_write_blocks(file, name, blocks))
    except BaseException:
        os.unlink(path)
        raise
    weakref.finalize(data, Path(path).unlink, missing_ok=True)
    return ArrayReader(name, data)


def _write_blocks(
    file: Any, name: str, blocks: Iterator[Any]
) -> tuple[np.dtype[Any], tuple[int, int], int]:
    """Write blocks to a .npy file; return the type, the shape and the offset of the values."""
    dtype, n, width, begin = np.dtype(np.float32), 0, 0, 0
    for number, block in enumerate(_checked_blocks(name, blocks)):
        if number == 0:
            dtype, width = float_type(block.dtype), block.shape[1]
            begin = _write_header(file, dtype, (0, width))
        with named(f"{name}: block {number}"):
            if not np.can_cast(float_type(block.dtype), dtype):
                raise InputError(f"is {block.dtype}, block 0 is {dtype}; use one type")
            block = np.ascontiguousarray(block, dtype=dtype)
            check_finite(block)
        file.write(block.data)
        n += len(block)
    with named(name):
        check_not_empty((n,))
    file.seek(0)
    _write_header(file, dtype, (n, width))  # the same length: NumPy leaves space for a larger n
    return dtype, (n, width), begin


def _write_header(file: Any, dtype: np.dtype[Any], shape: tuple[int, int]) -> int:
    descr = np.lib.format.dtype_to_descr(dtype)
    header = {"descr": descr, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)
    return int(file.tell())
