"""File formats: list the arrays or columns of a file, choose one, and check its values.

The command line and `as_blocks` both use these rules. Files are inspected before their data is
read. No format can run code: pickled arrays are refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .._core.arrow import arrow as arrow
from .._core.errors import InputError, unknown

Want = tuple[int, str, str]  # number of dimensions, allowed kinds, the rule for messages
MATRIX: Want = (2, "number byte", "a matrix has two dimensions of real numbers, one row per sample")


@dataclass(frozen=True)
class Field:
    """An array or column of a file, described before it is read; the name may be empty."""

    name: str
    kind: str  # number, byte, binary, text or other
    ndim: int
    note: str  # shape and type, for messages


FieldT = TypeVar("FieldT", bound=Field)


def choose(fields: Sequence[FieldT], path: Path, key: str | None, want: Want) -> FieldT:
    """Return the only suitable field, or the field called `key`."""
    names = [field.name for field in fields if field.name]
    if key is not None and not names:
        raise InputError(f"the file has one array, without a name; drop ':{key}'")
    if key is not None and key not in names:
        raise InputError(unknown("array or column", key, names))
    candidates = [field for field in fields if key in (None, field.name)]
    ndim, kinds, rule = want
    suitable = [field for field in candidates if field.ndim == ndim and field.kind in kinds.split()]
    if not suitable:
        raise InputError(f"{rule}; this is {_listed(candidates)}: convert it or name another")
    if len(suitable) > 1:
        raise InputError(f"several fit: {_listed(suitable)}; name one: {path}:{suitable[0].name}")
    return suitable[0]


def _listed(fields: Sequence[Field]) -> str:
    fields = [field for field in fields if field.name] or fields
    shown = ", ".join(f"{field.name} {field.note}".strip() for field in fields[:8]) or "empty"
    return shown + (f" and {len(fields) - 8} more" if len(fields) > 8 else "")


def check_regular(path: Path) -> None:
    """Raise `InputError` for a pipe or a device, which could be read forever."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise InputError("is a pipe or a device; copy its content to a file")


def check_not_empty(shape: tuple[int, ...]) -> None:
    """Raise `InputError` for an array without values."""
    if math.prod(shape) == 0:
        raise InputError(f"is empty (shape {shape}); at least one row is needed")


def float_type(dtype: DTypeLike) -> np.dtype[Any]:
    """Return float32 if it represents all values of a type exactly, else float64.

    >>> float_type(np.int16), float_type(np.int32)
    (dtype('float32'), dtype('float64'))
    """
    return np.dtype(np.float32 if np.can_cast(dtype, np.float32) else np.float64)


def check_finite(X: NDArray[np.floating[Any]], first_row: int = 0) -> None:
    """Raise `InputError` for NaN and infinity; `first_row` is the number of the first row of X."""
    if np.isfinite(X.min()) and np.isfinite(X.max()):  # without a temporary array
        return
    rows, columns = np.nonzero(~np.isfinite(X))
    raise InputError(
        f"{len(rows)} of {X.size} values are not finite, the first in row {first_row + rows[0]}, "
        f"column {columns[0]} (counted from 0): {X[rows[0], columns[0]]}; fill or drop them"
    )


class NpyHeader(NamedTuple):
    """The header of a .npy file."""

    shape: tuple[int, ...]
    fortran_order: bool
    dtype: np.dtype[Any]
    start: int  # offset of the values in the file

    def field(self, name: str = "") -> Field:
        """Describe the array."""
        note = f"{self.shape} {self.dtype}"
        if self.dtype.hasobject:
            note += " (pickled objects, refused because they can run code)"
        kinds = {**dict.fromkeys("biuf", "number"), **dict.fromkeys("US", "text")}
        kind = "byte" if self.dtype == np.uint8 else kinds.get(self.dtype.kind, "other")
        return Field(name, kind, len(self.shape), note)


def npy_header(file: IO[bytes], size: int) -> NpyHeader:
    """Read the header of an array and check it against the size of the file in bytes."""
    try:
        version = "_".join(map(str, np.lib.format.read_magic(file)))
        shape, fortran_order, dtype = getattr(np.lib.format, f"read_array_header_{version}")(file)
    except (MemoryError, RecursionError, AttributeError) as error:  # of the parser of literals
        raise InputError("has a header that NumPy did not write; save it again") from error
    header = NpyHeader(shape, fortran_order, dtype, file.tell())
    if not all(type(n) is int and n >= 0 for n in shape) or dtype.itemsize == 0:
        raise InputError(f"has the impossible shape or type {header.field().note}; save it again")
    if not dtype.hasobject and header.start + math.prod(shape) * dtype.itemsize > size:
        note = header.field().note
        raise InputError(f"is truncated: {note} needs more than {size} bytes; copy it again")
    return header


_NO_FEATURES = {"id", "ids", "index", "label", "labels", "class", "classes"}


def is_feature(name: str) -> bool:
    """Whether a column of numbers may be a feature: ids and labels, by their name, are none.

    >>> is_feature("width"), is_feature("Label"), is_feature("photo_id")
    (True, False, False)
    """
    plain = name.strip().casefold()
    return plain not in _NO_FEATURES and not plain.endswith("_id")


@dataclass(frozen=True)
class Column(Field):
    """A column of a Parquet file, or all its numeric columns side by side."""

    columns: tuple[str, ...]
    convert: Callable[[Any, int], NDArray[Any]]  # (table, number of its first row) to an array


def parquet_columns(schema: Any, *, features: bool = False) -> list[Column]:
    """List the columns; without a vector column also all numeric columns as one matrix.

    With `features` the matrix is without ids and labels.
    """
    pa = arrow()
    columns = [_column(pa, field) for field in schema]
    numeric = [
        each
        for each in columns
        if each.ndim == 1
        and each.kind in ("number", "byte")
        and (is_feature(each.name) or not features)
    ]
    if numeric and all(each.ndim == 1 or each.kind in ("text", "other") for each in columns):

        def convert(table: Any, first_row: int) -> NDArray[Any]:
            return np.stack([each.convert(table, first_row) for each in numeric], axis=1)

        names = tuple(each.name for each in numeric)
        columns.append(Column("", "number", 2, "", names, convert))
    return columns


_ARROW_KINDS = {
    "byte": "uint8",
    "number": "integer floating boolean",
    "text": "string large_string",
    "binary": "fixed_size_binary binary large_binary",
}


def _column(pa: Any, field: Any) -> Column:
    def is_any(type_: Any, tests: str) -> bool:
        return any(getattr(pa.types, f"is_{test}")(type_) for test in tests.split())

    listed = is_any(field.type, "list large_list fixed_size_list")
    inside = field.type.value_type if listed or is_any(field.type, "dictionary") else field.type
    kind = next((kind for kind, tests in _ARROW_KINDS.items() if is_any(inside, tests)), "other")

    def convert(table: Any, first_row: int) -> NDArray[Any]:
        values = table.column(field.name)
        if listed or kind == "binary":
            return _vectors(pa, values, kind, first_row)
        values = values.cast(inside)  # decodes dictionaries
        return _numpy(values.fill_null("") if kind == "text" else values, kind)

    ndim = 1 + listed + (kind == "binary")
    return Column(field.name, kind, ndim, str(field.type), (field.name,), convert)


def _vectors(pa: Any, column: Any, kind: str, first_row: int) -> NDArray[Any]:
    """Convert a column of vectors or of bytes to a two-dimensional array."""
    measure = pa.compute.binary_length if kind == "binary" else pa.compute.list_value_length
    widths = measure(column).fill_null(0).to_numpy()
    width = int(widths[0]) if len(widths) else 0
    if (widths != width).any():
        row = int(np.argmax(widths != width))
        raise different_lengths(first_row + row, int(widths[row]), first_row, width)
    if width == 0:
        return np.empty((len(column), 0))
    if kind != "binary":
        return _numpy(pa.compute.list_flatten(column), kind).reshape(len(column), width)
    packed = column.cast(pa.binary(width)).combine_chunks()
    start, n_bytes = packed.offset * width, len(packed) * width
    flat = np.frombuffer(packed.buffers()[1], np.uint8, count=n_bytes, offset=start)
    return flat.reshape(len(packed), width).copy()


def _numpy(values: Any, kind: str) -> NDArray[Any]:
    """Convert to NumPy; missing numbers become NaN, which `check_finite` reports."""
    array: NDArray[Any] = values.to_numpy()
    return array.astype(np.str_ if kind == "text" else np.float64) if array.dtype == "O" else array


def different_lengths(row: int, width: int, other: int, other_width: int) -> InputError:
    """Return the error for two rows of different length."""
    return InputError(
        f"all rows must have the same length; row {row} (counted from 0) has {width} values, "
        f"row {other} has {other_width}: fill or drop such rows"
    )
