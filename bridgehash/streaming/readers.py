"""Rows that lie in one place, read a run at a time: arrays, files, streams.

There are two kinds. What can be sliced (an array, a mapped file, a zarr array) gives any rows at
once; what can only be run through (Parquet, an iterable of blocks) is read on from where the last
read ended. A file is opened when it is read and never travels: a pickled source is a path.
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
from typing import IO, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .._core.errors import InputError
from .formats import (
    MATRIX,
    arrow,
    check_finite,
    check_not_empty,
    choose,
    float_type,
    naming,
    npy_header,
    parquet_columns,
)

_BATCH_BYTES = 4 << 20  # decoded at a time by a run through a Parquet file


class Source(Protocol):
    """Rows of numbers in one place."""

    name: str  # for messages
    shape: tuple[int, int]
    dtype: np.dtype[Any]  # float32 or float64, what the numbers fit into
    breaks: Sequence[int]  # rows at which a block begins best, ascending
    by_row: bool  # are single rows read without their neighbours?

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows start to stop: an array of its own, or a view that is not to be changed."""

    def take(self, rows: NDArray[np.intp]) -> NDArray[Any]:
        """Given rows, of a source that reads by row."""


class Sliced:
    """Rows of anything that has a shape and can be sliced."""

    def __init__(self, name: str, data: Any) -> None:
        self.name, self.data = name, data
        shape = tuple(data.shape)
        dtype = np.asarray(data[:0]).dtype if shape else np.dtype(object)
        self.shape, self.dtype = as_matrix(shape, dtype)
        chunks = getattr(data, "chunks", None)
        step = chunks[0] if chunks and isinstance(chunks[0], int) else None
        self.breaks: Sequence[int] = range(0, self.shape[0], step) if step else ()
        self.by_row = isinstance(data, np.ndarray | Mapped)

    def read(self, start: int, stop: int) -> NDArray[Any]:
        return np.asarray(self.data[start:stop]).view()

    def take(self, rows: NDArray[np.intp]) -> NDArray[Any]:
        return np.asarray(self.data[rows])


@dataclass(frozen=True)
class Mapped:
    """An array in a file, mapped anew each time it is sliced: no page is held that nobody uses."""

    path: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    offset: int = 0
    fortran_order: bool = False

    def __getitem__(self, key: Any) -> NDArray[Any]:
        order: Any = "F" if self.fortran_order else "C"
        whole: Any = np.memmap(self.path, self.dtype, "r", self.offset, self.shape, order)
        return whole[key]


class ZarrRows:
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


class Streamed:
    """Rows that can only be run through, from a few entries on.

    Each thread has a place of its own, where its last read ended; reading on from there costs
    nothing, going back means to begin again at the entry before.
    """

    by_row = False

    def __init__(
        self,
        name: str,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        run: Callable[[int], Iterator[NDArray[Any]]],  # arrays of rows from an entry to the end
        entries: Sequence[int],
        breaks: Sequence[int],
    ) -> None:
        self.name, self.run, self.entries, self.breaks = name, run, entries, breaks
        self.shape, self.dtype = as_matrix(shape, dtype)
        self._place = threading.local()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_place"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _place=threading.local())

    def read(self, start: int, stop: int) -> NDArray[Any]:
        block = np.empty((stop - start, self.shape[1]), dtype=self.dtype)
        entry = bisect_right(self.entries, start) - 1
        row, pieces, rest = vars(self._place).pop("at", (-1, iter(()), block[:0]))
        if not self.entries[entry] <= row <= start:
            row, pieces, rest = self.entries[entry], self.run(entry), block[:0]
        while row < stop:
            if len(rest) == 0:
                rest = self._next(pieces, row)
            size = min(len(rest), (stop if row >= start else start) - row)
            if row >= start:
                block[row - start : row - start + size] = rest[:size]
            row, rest = row + size, rest[size:]
        self._place.at = row, pieces, rest
        return block

    def _next(self, pieces: Iterator[NDArray[Any]], row: int) -> NDArray[Any]:
        """The next rows of a run, which begin at `row`."""
        n, width = self.shape
        try:
            found = next(pieces)
        except StopIteration:
            raise InputError(f"gave fewer than {n} rows when read again") from None
        if found.shape[1] != width:
            lengths = f"row {row} (counted from 0) has {found.shape[1]} values, row 0 has {width}"
            raise InputError(f"all rows must have one length; {lengths}: fill or drop such rows")
        return found

    def take(self, rows: NDArray[np.intp]) -> NDArray[Any]:
        raise NotImplementedError("a stream is read in order")


def as_matrix(
    shape: tuple[int, ...], dtype: np.dtype[Any]
) -> tuple[tuple[int, int], np.dtype[Any]]:
    """The shape of a matrix of real numbers, and the floating type that they fit into."""
    if len(shape) != 2 or dtype.kind not in "biuf":
        raise InputError(f"{MATRIX[2]}; this is {shape} {dtype}: convert it")
    check_not_empty(shape)
    return (int(shape[0]), int(shape[1])), float_type(dtype)


def npy_source(path: Path) -> Sliced:
    """A .npy file, mapped."""
    with open(path, "rb") as file:
        header = npy_header(file, path.stat().st_size)
    choose([header.field()], path, None, MATRIX)
    check_not_empty(header.shape)
    shape, fortran_order, dtype, start = header
    return Sliced(str(path), Mapped(os.path.abspath(path), dtype, shape, start, fortran_order))


def memmap_source(name: str, data: np.memmap[Any, Any]) -> Sliced:
    """A mapped array, by the file that it lies in where that can be told."""
    if data.filename is None or data.mode == "c" or not data.flags.c_contiguous or not data.size:
        return Sliced(name, data)
    # A slice keeps the offset of the whole: where it begins is told by its address.
    begin = np.frombuffer(data._mmap, np.uint8).ctypes.data  # type: ignore[attr-defined]
    offset = data.offset - data.offset % mmap.ALLOCATIONGRANULARITY + data.ctypes.data - begin
    path = os.path.abspath(data.filename)
    return Sliced(name, Mapped(path, data.dtype, data.shape, offset))


def zarr_source(path: Path) -> Sliced:
    """A zarr array in a folder."""
    return Sliced(str(path), ZarrRows(os.path.abspath(path)))


def parquet_source(path: Path, key: str | None = None) -> Streamed:
    """A Parquet file: one column of vectors, or all numeric columns side by side."""
    metadata = arrow().parquet.read_metadata(path)
    sizes = [metadata.row_group(g).num_rows for g in range(metadata.num_row_groups)]
    *starts, n = accumulate(sizes, initial=0)
    check_not_empty((n,))
    first = next(_parquet_rows(path, key, starts, 1, 0))
    batch = max(1, _BATCH_BYTES // max(1, first[0].nbytes))
    run = partial(_parquet_rows, Path(os.path.abspath(path)), key, starts, batch)
    return Streamed(str(path), (n, first.shape[1]), first.dtype, run, starts, starts)


def _parquet_rows(
    path: Path, key: str | None, starts: Sequence[int], batch_rows: int, entry: int
) -> Iterator[NDArray[Any]]:
    """The rows of a file from one row group on, a few at a time."""
    pa = arrow()
    # With other settings all of a row group is read before its first row is there.
    with pa.parquet.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False) as file:
        column = choose(parquet_columns(file.schema_arrow), path, key, MATRIX)
        for group in range(entry, len(starts)):
            row = starts[group]
            chosen = {"row_groups": [group], "columns": list(column.columns)}
            for batch in file.iter_batches(batch_rows, **chosen):
                yield column.convert(pa.Table.from_batches([batch]), row)
                row += batch.num_rows


def iterable_source(name: str, blocks: Iterable[Any]) -> Streamed:
    """Blocks that an object gives each time it is iterated; once now, to see their shapes."""
    shapes, dtype = [], np.dtype(np.float32)
    for block in _checked(name, blocks):
        shapes.append(block.shape)
        dtype = np.result_type(dtype, float_type(block.dtype))
    *starts, n = accumulate((rows for rows, _ in shapes), initial=0)
    with naming(name):
        check_not_empty((n,))
    run = partial(_run, name, blocks)
    return Streamed(name, (n, shapes[0][1]), dtype, run, [0], starts)


def _run(name: str, blocks: Iterable[Any], entry: int) -> Iterator[NDArray[Any]]:
    return _checked(name, blocks)  # the only entry is the first block


def _checked(name: str, blocks: Iterable[Any]) -> Iterator[NDArray[Any]]:
    """The blocks as arrays, all of one width."""
    width = None
    for number, block in enumerate(blocks):
        array = np.asarray(block)
        with naming(f"{name}: block {number}"):
            (_, columns), _ = as_matrix(array.shape, array.dtype)
        width = width or columns
        if columns != width:
            raise InputError(
                f"{name}: block {number} has {columns} columns where block 0 has {width}; "
                "all must have the same"
            )
        yield array


def spooled(name: str, blocks: Iterator[Any]) -> Sliced:
    """Blocks that come only once, kept in a temporary .npy file that goes with the source.

    It lies where `tempfile` puts it: set TMPDIR to a folder with room for all rows.
    """
    descriptor, path = tempfile.mkstemp(prefix="bridgehash-", suffix=".npy")
    try:
        with open(descriptor, "wb") as file:
            mapped = Mapped(path, *_written(file, name, blocks))
    except BaseException:
        os.unlink(path)
        raise
    weakref.finalize(mapped, Path(path).unlink, missing_ok=True)
    return Sliced(name, mapped)


def _written(
    file: IO[bytes], name: str, blocks: Iterator[Any]
) -> tuple[np.dtype[Any], tuple[int, int], int]:
    """Write the blocks one below the other: their type, their shape, where they begin."""
    dtype, n, width, begin = np.dtype(np.float32), 0, 0, 0
    for number, block in enumerate(_checked(name, blocks)):
        if number == 0:
            dtype, width = float_type(block.dtype), block.shape[1]
            begin = _write_header(file, dtype, (0, width))
        elif not np.can_cast(float_type(block.dtype), dtype):
            raise InputError(
                f"{name}: block {number} is {block.dtype} where block 0 is {dtype}; "
                "give all blocks in one type"
            )
        block = np.ascontiguousarray(block, dtype=dtype)
        with naming(f"{name}: block {number}"):
            check_finite(block)
        file.write(block.data)
        n += len(block)
    with naming(name):
        check_not_empty((n,))
    file.seek(0)
    _write_header(file, dtype, (n, width))  # of the same length: NumPy leaves room for n to grow
    return dtype, (n, width), begin


def _write_header(file: IO[bytes], dtype: np.dtype[Any], shape: tuple[int, int]) -> int:
    descr = np.lib.format.dtype_to_descr(dtype)
    header = {"descr": descr, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)
    return file.tell()
