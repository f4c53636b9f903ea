"""What a file of numbers holds, found out before anything is read, and how its rows are named.

Both the command line and matrices read in blocks choose, check and refuse by these rules. An error
is one line: the rule, the value and the way out. No format may run code: pickled arrays are
refused.
"""

from __future__ import annotations

import difflib
import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .._core.errors import InputError
from .._core.files import StrPath

Want = tuple[int, str, str]  # dimensions, kinds and the rule in words
MATRIX: Want = (2, "number byte", "a matrix has two dimensions of real numbers, one row a sample")


@contextmanager
def naming(spec: StrPath) -> Iterator[None]:
    """Put the name of the input before every error; turn foreign errors into `InputError`."""
    name = os.fspath(spec)
    try:
        yield
    except InputError as error:
        raise InputError(f"{name}: {error}") from error.__cause__
    except MemoryError:
        raise
    except Exception as error:  # whatever a parser makes of a broken file
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        problem = f"cannot be read ({' '.join(reason.split())[:200]})"
        raise InputError(f"{name}: {problem}; check the file and its extension") from error


@dataclass(frozen=True)
class Field:
    """An array or column of a file, known before it is read; nameless where nothing names it."""

    name: str
    kind: str  # number, byte, binary, text or other
    ndim: int
    note: str  # shape and type, for messages


FieldT = TypeVar("FieldT", bound=Field)


def choose(fields: Sequence[FieldT], path: Path, key: str | None, want: Want) -> FieldT:
    """The one field called `key` (any, without a key) that fits."""
    names = [field.name for field in fields if field.name]
    if key is not None and not names:
        raise InputError(f"the file holds one array, without a name; drop ':{key}'")
    if key is not None and key not in names:
        nearest = difflib.get_close_matches(key, names, n=1)
        hint = f"did you mean {nearest[0]!r}? " if nearest else ""
        raise InputError(f"there is no {key!r} in it; {hint}It holds {_listed(fields)}")
    named = [field for field in fields if key in (None, field.name)]
    ndim, kinds, rule = want
    fitting = [field for field in named if field.ndim == ndim and field.kind in kinds.split()]
    if not fitting:
        raise InputError(f"{rule}; this is {_listed(named)}: convert it or name another")
    if len(fitting) > 1:
        raise InputError(f"several fit: {_listed(fitting)}; name one: {path}:{fitting[0].name}")
    return fitting[0]


def _listed(fields: Sequence[Field]) -> str:
    fields = [field for field in fields if field.name] or fields
    shown = ", ".join(f"{field.name} {field.note}".strip() for field in fields[:8]) or "empty"
    return shown + (f" and {len(fields) - 8} more" if len(fields) > 8 else "")


def check_not_empty(shape: tuple[int, ...]) -> None:
    """Refuse an array without a value."""
    if math.prod(shape) == 0:
        raise InputError(f"is empty (shape {shape}); at least one row is needed")


def float_type(dtype: DTypeLike) -> np.dtype[Any]:
    """float32 where it holds all numbers of a type exactly, float64 elsewhere.

    >>> float_type(np.int16), float_type(np.int32)
    (dtype('float32'), dtype('float64'))
    """
    return np.dtype(np.float32 if np.can_cast(dtype, np.float32) else np.float64)


def check_finite(X: NDArray[np.floating[Any]], first_row: int = 0) -> None:
    """Refuse NaN and infinity, with the place of the first; `first_row` is the number of row 0."""
    if np.isfinite(X.min()) and np.isfinite(X.max()):  # no temporary as large as X
        return
    rows, columns = np.nonzero(~np.isfinite(X))
    place = f"row {first_row + rows[0]}, column {columns[0]} (counted from 0)"
    bad = f"{len(rows)} of {X.size} values are not finite"
    raise InputError(f"{bad}, the first in {place}: {X[rows[0], columns[0]]}; fill or drop them")


class NpyHeader(NamedTuple):
    """What the start of a .npy file says of the bytes that follow."""

    shape: tuple[int, ...]
    fortran_order: bool
    dtype: np.dtype[Any]
    start: int  # of the values in the file

    def field(self, name: str = "") -> Field:
        """The array as something to choose from."""
        note = f"{self.shape} {self.dtype}"
        if self.dtype.hasobject:
            note += " (pickled objects, refused because they can run code)"
        kinds = {**dict.fromkeys("biuf", "number"), **dict.fromkeys("US", "text")}
        kind = "byte" if self.dtype == np.uint8 else kinds.get(self.dtype.kind, "other")
        return Field(name, kind, len(self.shape), note)


def npy_header(file: IO[bytes], size: int) -> NpyHeader:
    """The header of an array, checked against the `size` bytes that its file has."""
    version = "_".join(map(str, np.lib.format.read_magic(file)))
    shape, fortran_order, dtype = getattr(np.lib.format, f"read_array_header_{version}")(file)
    header = NpyHeader(shape, fortran_order, dtype, file.tell())
    if not dtype.hasobject and header.start + math.prod(shape) * dtype.itemsize > size:
        note = header.field().note
        raise InputError(f"is truncated: {note} needs more than its {size} bytes; copy it again")
    return header


@dataclass(frozen=True)
class Column(Field):
    """A column of a Parquet file, or all its numeric columns side by side."""

    columns: tuple[str, ...]
    convert: Callable[[Any, int], NDArray[Any]]  # of a table whose first row has this number


def arrow() -> Any:
    """The module pyarrow, with what reading Parquet needs."""
    try:
        import pyarrow.compute
        import pyarrow.parquet
    except ImportError as error:
        raise InputError("Parquet needs pyarrow; pip install 'bridgehash[parquet]'") from error
    return pyarrow


def parquet_columns(schema: Any) -> list[Column]:
    """What a Parquet file holds; its numbers side by side, where it has no column of vectors."""
    pa = arrow()
    columns = [_column(pa, field) for field in schema]
    numeric = [each for each in columns if each.ndim == 1 and each.kind in ("number", "byte")]
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
        values = values.cast(inside)  # a dictionary becomes what it stands for
        return _numpy(values.fill_null("") if kind == "text" else values, kind)

    ndim = 1 + listed + (kind == "binary")
    return Column(field.name, kind, ndim, str(field.type), (field.name,), convert)


def _vectors(pa: Any, column: Any, kind: str, first_row: int) -> NDArray[Any]:
    """A column of vectors, or of bytes, as an array of two dimensions."""
    measure = pa.compute.binary_length if kind == "binary" else pa.compute.list_value_length
    widths = measure(column).fill_null(0).to_numpy()
    width = int(widths[0]) if len(widths) else 0
    if (widths != width).any():
        row = int(np.argmax(widths != width))
        lengths = (
            f"row {first_row + row} (counted from 0) has {widths[row]} values, "
            f"row {first_row} has {width}"
        )
        raise InputError(f"all rows must have one length; {lengths}: fill or drop such rows")
    if width == 0:
        return np.empty((len(column), 0))
    if kind != "binary":
        return _numpy(pa.compute.list_flatten(column), kind).reshape(len(column), width)
    packed = column.cast(pa.binary(width)).combine_chunks()
    start, n_bytes = packed.offset * width, len(packed) * width
    flat = np.frombuffer(packed.buffers()[1], np.uint8, count=n_bytes, offset=start)
    return flat.reshape(len(packed), width).copy()


def _numpy(values: Any, kind: str) -> NDArray[Any]:
    """Missing numbers become NaN, which the checks of the values then find and count."""
    array: NDArray[Any] = values.to_numpy()
    return array.astype(np.str_ if kind == "text" else np.float64) if array.dtype == "O" else array
