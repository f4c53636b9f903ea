"""Shared by all routes: parameters, request bodies, responses, and their OpenAPI documentation.

A body is JSON of a known schema, one NumPy array, or an image. Bodies are not trusted. Their length
is counted while they arrive, the header of an array is compared with the bytes after it, and arrays
of objects, which would need pickle, are rejected.
"""

from __future__ import annotations

import io
import json
from typing import Annotated, Any, TypeVar

import numpy as np
from fastapi import Depends, Path, Query, Request
from numpy.lib import format as npy
from numpy.typing import NDArray
from pydantic import ValidationError
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from ...codes import n_bytes
from ...index.batch import MAX_ID, packed_codes
from ..catalogue import Catalogue
from ..errors import PROBLEM_JSON, RequestError, invalid, validation_error
from ..schemas import ArrayContent, DomainName, RequestSchema
from ..workers import Workers

PREFIX = "/v1/catalogues/{catalogue}"
JSON, NPY = "application/json", "application/x-npy"
_MAX_HEADER_BYTES = 1024  # of an .npy file

S = TypeVar("S", bound=RequestSchema)

ItemId = Annotated[int, Path(alias="id", ge=0, le=MAX_ID)]
ItemDomain = Annotated[DomainName | None, Query(description="Default: the domain of the index.")]
ContentType = Annotated[ArrayContent, Query(description="What the rows of a NumPy array are.")]

_ERRORS = {
    400: "The body cannot be read.",
    401: "The API key is missing or wrong.",
    403: "The service is read-only.",
    404: "Not found.",
    405: "Method not allowed.",
    408: "The body did not arrive in time.",
    409: "An id exists already; nothing was changed.",
    413: "The body is too large.",
    415: "Unsupported media type.",
    421: "The Host header does not name this service.",
    422: "A value is not allowed; see `field`.",
    503: "Overloaded or stopping: safe to retry.",
}
BYTES = {"schema": {"type": "string", "format": "binary"}}
NPY_RESPONSE: dict[str, Any] = {"content": {NPY: BYTES}}


async def _workers(request: Request) -> Workers:
    workers: Workers = request.app.state.workers
    return workers


AppWorkers = Annotated[Workers, Depends(_workers)]


async def _catalogue(
    workers: AppWorkers,
    catalogue: Annotated[str, Path(description="Name of a catalogue.", max_length=64)],
) -> Catalogue:
    if catalogue not in workers.catalogues:
        raise RequestError(404, "no such catalogue", "catalogue")
    return workers.catalogues[catalogue]


NamedCatalogue = Annotated[Catalogue, Depends(_catalogue)]


def errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Document the error responses of a route."""
    content = {PROBLEM_JSON: {"schema": {"$ref": "#/components/schemas/ProblemDetails"}}}
    return {
        status: {"description": _ERRORS[status], "content": content}
        for status in (401, 405, 421, 503, *statuses)
    }


BODY_ERRORS = errors(400, 404, 408, 413, 415, 422)


def body_of(schema: type[RequestSchema] | None, *media_types: str) -> dict[str, Any]:
    """Document the body of a route that reads it itself."""
    content: dict[str, Any] = dict.fromkeys(media_types, BYTES)
    if schema is not None:
        reference = {"$ref": f"#/components/schemas/{schema.__name__}"}
        content = {JSON: {"schema": reference}, **content}
    return {"requestBody": {"required": True, "content": content}}


def json_response(record: Any) -> Response:
    """Send a record as JSON without validating it again."""
    return Response(json.dumps(record, separators=(",", ":")), media_type=JSON)


def npy_response(array: NDArray[Any]) -> Response:
    """Send an array in the .npy format."""
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return Response(file.getvalue(), media_type=NPY)


def image_url(catalogue: Catalogue, domain: str, item: int) -> str | None:
    """Return the address of the image of an item, if it has one."""
    if item not in catalogue.domains[domain].images:
        return None
    return f"/v1/catalogues/{catalogue.name}/items/{item}/image?domain={domain}"


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
