"""Bodies of requests: from bytes to arrays. Bodies are not trusted.

The parser of JSON holds the GIL and builds a tree of the whole document, so a body that could take
long is parsed in a child process (`decoder.py`). The header of an array is compared with the bytes
after it, and arrays of objects, which would need pickle, are rejected.
"""

from __future__ import annotations

import io
from typing import Any, TypeVar

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray
from pydantic import ValidationError

from .errors import RequestError, validation_error
from .schemas import RequestSchema

_SMALL_BYTES = 1 << 16
_SMALL_LISTS = 1_100  # lists and objects; they take the parser longest
_MAX_HEADER_BYTES = 1024  # of an .npy file

S = TypeVar("S", bound=RequestSchema)


def is_quick(body: bytes) -> bool:
    """Return whether any JSON of these bytes is parsed within a few milliseconds."""
    return len(body) <= _SMALL_BYTES and body.count(b"[") + body.count(b"{") <= _SMALL_LISTS


def parse_json(body: bytes, schema: type[S]) -> S:
    """Parse a JSON body; `features`, `codes` and number `ids` become arrays.

    An error names the field.
    """
    try:
        form = schema.model_validate_json(body)
    except ValidationError as error:
        errors = error.errors(include_url=False, include_context=False, include_input=False)
        raise validation_error(errors) from None  # the error holds the whole body
    for name, convert in (("features", _as_rows), ("codes", _as_bytes), ("ids", _as_ids)):
        values = getattr(form, name, None)
        if values is not None:
            setattr(form, name, convert(values))
    return form


def parse_npy(body: bytes | memoryview, n_dimensions: int = 2) -> NDArray[Any]:
    """Return the array of numbers in a body."""
    file = io.BytesIO(body[: _MAX_HEADER_BYTES + 12])
    try:
        version = npy.read_magic(file)
        readers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
        shape, fortran, dtype = readers[version](file, max_header_size=_MAX_HEADER_BYTES)
    except Exception as error:  # a broken header can raise almost anything
        raise RequestError(400, "not an array in NumPy's .npy format", "body") from error
    data = memoryview(body)[file.tell() :]
    n_items = 1
    for length in shape:
        valid = type(length) is int and length > 0  # NumPy lets True pass as a length
        n_items = n_items * length if valid else 0
    if len(shape) != n_dimensions or n_items == 0:
        raise RequestError(422, f"array of shape {shape!r:.60}; send rows and columns", "body")
    if dtype.kind not in "fiu" or dtype.itemsize > 8:
        raise RequestError(422, "send an array of integers or floats", "body")
    if n_items * dtype.itemsize != len(data):
        raise RequestError(400, "its length does not match the header of the array", "body")
    array = np.frombuffer(data, dtype).reshape(shape, order="F" if fortran else "C")
    return array if dtype.isnative else array.astype(dtype.newbyteorder("="))


def _as_rows(rows: list[list[float]]) -> NDArray[np.float64]:
    width = len(rows[0])
    for i, row in enumerate(rows):
        if len(row) != width:
            problem = f"{len(row)} numbers, but the first row has {width}; send rows of one length"
            raise RequestError(422, problem, f"features[{i}]")
    return np.array(rows, dtype=np.float64)


def _as_bytes(codes: list[str]) -> NDArray[np.uint8]:
    digits = len(codes[0])
    for i, code in enumerate(codes):
        if len(code) != digits:
            problem = f"{len(code)} hex digits, but the first code has {digits}"
            raise RequestError(422, problem, f"codes[{i}]")
    return np.frombuffer(bytes.fromhex("".join(codes)), np.uint8).reshape(-1, digits // 2)


def _as_ids(ids: list[Any]) -> NDArray[np.int64] | list[str]:
    kinds = {type(each) for each in ids}
    if len(kinds) > 1:
        raise RequestError(422, "numbers and texts; send ids of one kind", "ids")
    return ids if str in kinds else np.array(ids, dtype=np.int64)
