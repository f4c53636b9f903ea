"""Bodies of requests: bytes within a limit, then JSON of a known form or one NumPy array.

Nothing is trusted: the length is counted while it comes in, an array's header is compared with
the bytes behind it, and an array of objects, which would need pickle, is refused.
"""

from __future__ import annotations

import io
from typing import Any, TypeVar

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray
from pydantic import ValidationError
from starlette.requests import ClientDisconnect, Request

from .errors import Refused, from_validation, invalid
from .schemas import Form

JSON, NPY = "application/json", "application/x-npy"
_LONGEST_HEADER = 1024  # bytes of an .npy file's header

F = TypeVar("F", bound=Form)


async def read_body(request: Request, most: int) -> bytes:
    """The body, if it is not longer than `most` bytes."""
    parts, n = [], 0
    try:
        async for part in request.stream():
            n += len(part)
            if n > most:
                raise Refused(413, f"body: more than {most} bytes", "body")
            parts.append(part)
    except ClientDisconnect as error:
        raise Refused(400, "body: the connection was closed too early", "body") from error
    return b"".join(parts)


def content_type(request: Request, known: tuple[str, ...]) -> str:
    """What the body says it is, if that is one of those known."""
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise Refused(415, "Content-Encoding: send the body as it is", "Content-Encoding")
    if given not in known:
        raise Refused(415, f"Content-Type: send {' or '.join(known)}", "Content-Type")
    return given


def wants_npy(request: Request) -> bool:
    """Does the client ask for an array?"""
    return NPY in request.headers.get("accept", "").lower()


def parse_json(body: bytes, form: type[F]) -> F:
    """A form, or a refusal that names the field."""
    try:
        return form.model_validate_json(body)
    except ValidationError as error:
        raise from_validation(error) from error


def parse_npy(body: bytes) -> NDArray[Any]:
    """The two-dimensional array of numbers in a body."""
    file = io.BytesIO(body)
    try:
        version = npy.read_magic(file)
        readers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
        shape, fortran, dtype = readers[version](file, max_header_size=_LONGEST_HEADER)
    except Exception as error:  # whatever a header that is none leads to
        raise Refused(400, "body: is not an array in NumPy's .npy format", "body") from error
    data = memoryview(body)[file.tell() :]
    if len(shape) != 2 or min(shape) < 1:
        raise invalid(f"body: an array of shape {shape!r:.60}; give rows and columns", "body")
    if dtype.kind not in "fiu" or dtype.itemsize > 8:
        raise invalid("body: an array of whole or floating-point numbers is needed", "body")
    if shape[0] * shape[1] * dtype.itemsize != len(data):
        raise Refused(400, "body: its length is not that of the array in its header", "body")
    array = np.frombuffer(data, dtype).reshape(shape, order="F" if fortran else "C")
    return array if dtype.isnative else array.astype(dtype.newbyteorder("="))


def as_npy(array: NDArray[Any]) -> bytes:
    """An array as the body of an answer."""
    file = io.BytesIO()
    npy.write_array(file, array, allow_pickle=False)
    return file.getvalue()


def as_features(rows: list[list[float]] | NDArray[Any], width: int, most: int) -> NDArray[Any]:
    """Rows of features, if not too many and of the right width; the encoder looks at the rest."""
    check_number(len(rows), most, "features")
    for i, row in enumerate(rows if isinstance(rows, list) else rows[:1]):
        if len(row) != width:
            where = f"features[{i}]" if isinstance(rows, list) else "body"
            raise invalid(f"{where}: has {len(row)} numbers; {width} are needed", where)
    if isinstance(rows, list):
        return np.array(rows, dtype=np.float64)
    return rows if rows.dtype in (np.float32, np.float64) else rows.astype(np.float64)


def as_codes(codes: list[str] | NDArray[Any], n_bytes: int, most: int) -> NDArray[np.uint8]:
    """Packed codes, if there are not too many, of the right length."""
    check_number(len(codes), most, "codes")
    if not isinstance(codes, list):
        if codes.dtype != np.uint8 or codes.shape[1] != n_bytes:
            raise invalid(f"body: codes are uint8, {n_bytes} a row", "body")
        return np.ascontiguousarray(codes)
    for i, code in enumerate(codes):
        if len(code) != 2 * n_bytes:
            where = f"codes[{i}]"
            raise invalid(f"{where}: {2 * n_bytes} hex digits are needed", where)
    return np.frombuffer(bytes.fromhex("".join(codes)), np.uint8).reshape(-1, n_bytes)


def check_number(n: int, most: int, field: str) -> None:
    """Refuse more than a request may bring."""
    if n > most:
        raise invalid(f"{field}: {n} are more than the {most} of one request", field)
