"""Request bodies: JSON of a known schema, one NumPy array, or an image.

Bodies are not trusted. Their length is counted while they arrive, the header of an array is
compared with the bytes after it, and arrays of objects, which would need pickle, are rejected.
"""

from __future__ import annotations

import io
from typing import Any, TypeVar

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray
from pydantic import ValidationError
from starlette.requests import ClientDisconnect, Request

from ..codes import n_bytes
from ..index.batch import packed_codes
from .errors import RequestError, invalid, validation_error
from .schemas import RequestSchema

JSON, NPY = "application/json", "application/x-npy"
_MAX_HEADER_BYTES = 1024  # of an .npy file

S = TypeVar("S", bound=RequestSchema)


async def read_body(request: Request, *media_types: str) -> tuple[str, bytes]:
    """Return the media type and the bytes of a body, if both are allowed."""
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise RequestError(415, "send the body uncompressed", "Content-Encoding")
    if given not in media_types:
        raise RequestError(415, f"send {' or '.join(media_types)}", "Content-Type")
    max_bytes = request.app.state.workers.settings.limits.body_bytes
    parts, n = [], 0
    try:
        async for part in request.stream():
            n += len(part)
            if n > max_bytes:
                raise RequestError(413, f"more than {max_bytes} bytes", "body")
            parts.append(part)
    except ClientDisconnect as error:
        raise RequestError(400, "the connection was closed too early", "body") from error
    return given, b"".join(parts)


def parse_json(body: bytes, schema: type[S]) -> S:
    """Parse a JSON body; an error names the field."""
    try:
        return schema.model_validate_json(body)
    except ValidationError as error:
        errors = error.errors(include_url=False, include_context=False, include_input=False)
        raise validation_error(errors) from error


def parse_rows(kind: str, body: bytes, schema: type[S], content: str, **parameters: Any) -> S:
    """Parse a JSON body, or a NumPy array whose other fields come from query parameters."""
    if kind == JSON:
        return parse_json(body, schema)
    return schema.model_construct(**{content: parse_npy(body), **parameters})


def parse_npy(body: bytes) -> NDArray[Any]:
    """Return the two-dimensional array of numbers in a body."""
    file = io.BytesIO(body)
    try:
        version = npy.read_magic(file)
        readers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
        shape, fortran, dtype = readers[version](file, max_header_size=_MAX_HEADER_BYTES)
    except Exception as error:  # a broken header can raise almost anything
        raise RequestError(400, "not an array in NumPy's .npy format", "body") from error
    data = memoryview(body)[file.tell() :]
    if len(shape) != 2 or min(shape) < 1:
        raise RequestError(422, f"array of shape {shape!r:.60}; send rows and columns", "body")
    if dtype.kind not in "fiu" or dtype.itemsize > 8:
        raise RequestError(422, "send an array of integers or floats", "body")
    if shape[0] * shape[1] * dtype.itemsize != len(data):
        raise RequestError(400, "its length does not match the header of the array", "body")
    array = np.frombuffer(data, dtype).reshape(shape, order="F" if fortran else "C")
    return array if dtype.isnative else array.astype(dtype.newbyteorder("="))


def pick_rows(form: RequestSchema, *names: str) -> tuple[str, Any]:
    """Return the one field of a form that has rows, by name."""
    given = [name for name in names if getattr(form, name) is not None]
    if len(given) != 1:
        raise RequestError(422, f"send exactly one of {', '.join(names)}", "body")
    return given[0], getattr(form, given[0])


def as_features(rows: list[list[float]] | NDArray[Any], width: int) -> NDArray[Any]:
    """Return rows of features as an array, if they have the right width."""
    for i, row in enumerate(rows if isinstance(rows, list) else rows[:1]):
        if len(row) != width:
            where = f"features[{i}]" if isinstance(rows, list) else "body"
            raise RequestError(422, f"{len(row)} numbers; {width} are needed", where)
    if isinstance(rows, list):
        return np.array(rows, dtype=np.float64)
    return rows if rows.dtype in (np.float32, np.float64) else rows.astype(np.float64)


def as_codes(codes: list[str] | NDArray[Any], n_bits: int) -> NDArray[np.uint8]:
    """Return packed codes as an array, if they have the right length."""
    field, width = "body", n_bytes(n_bits)
    if isinstance(codes, list):
        for i, code in enumerate(codes):
            if len(code) != 2 * width:
                raise RequestError(422, f"{2 * width} hex digits are needed", f"codes[{i}]")
        codes = np.frombuffer(bytes.fromhex("".join(codes)), np.uint8).reshape(-1, width)
        field = "codes"
    try:
        return np.ascontiguousarray(packed_codes(codes, n_bits))
    except ValueError as error:
        raise invalid(error, field) from error


def check_count(n: int, most: int, field: str) -> None:
    """Raise 422 if a request has more than `most` of something."""
    if n > most:
        raise RequestError(422, f"{n} are too many; send at most {most} per request", field)
