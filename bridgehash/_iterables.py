"""Blocks of rows that an iterable gives: run through again and again, or kept in a file.

What can be iterated anew is; what comes only once is written to a temporary file as it comes.
"""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from ._formats import InputError, check_finite, check_not_empty, float_type, naming
from ._sources import Mapped, Sliced, Streamed, as_matrix


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
