"""Shared by all routes: parameters, request bodies, responses, and their OpenAPI documentation.

A body is JSON of a known schema, one NumPy array, or an image. Its length is counted while it
arrives. Work that could delay other requests runs in threads, or in a child process.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable
from typing import Annotated, Any, TypeVar
from urllib.parse import quote

import numpy as np
from fastapi import Depends, Path, Query, Request
from numpy.typing import NDArray
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from ...codes import n_bytes
from ...index.attributes import ItemFilter, Match, parse_filter
from ...index.batch import packed_codes
from ...index.ids import MAX_CHARACTERS, IdKind, Ids, parse_ids
from ..bodies import S, is_quick, parse_json, parse_npy
from ..catalogue import Catalogue
from ..errors import PROBLEM_JSON, RequestError, invalid
from ..memory import HeldMemory
from ..middleware import HELD
from ..schemas import MAX_TAG, MAX_TAGS, ArrayContent, DomainName, RequestSchema
from ..workers import Workers

PREFIX = "/v1/catalogues/{catalogue}"
JSON, NPY = "application/json", "application/x-npy"
_THREAD_BYTES = 1 << 16  # larger bodies are worked on in a thread
_BLOCK_ROWS = 1_000  # that are encoded at a time, to bound the working memory

T = TypeVar("T")

ItemId = Annotated[str, Path(alias="id", min_length=1, max_length=MAX_CHARACTERS)]
QueryTags = Annotated[
    list[Annotated[str, Query(max_length=MAX_TAG)]] | None,
    Query(max_length=MAX_TAGS, description="Only items of this tag; repeatable."),
]
QueryMatch = Annotated[Match, Query(description="Items must have any of the tags, or all.")]
InDomain = Annotated[
    str | None, Query(max_length=MAX_TAG, description="Only items of this domain.")
]
ItemDomain = Annotated[DomainName | None, Query(description="Default: the domain of the index.")]
ContentType = Annotated[ArrayContent, Query(description="What the rows of a NumPy array are.")]

_ERRORS = {
    400: "The body cannot be read.",
    401: "The API key is missing or wrong.",
    403: "The service is read-only, or a page of another site sent the request.",
    404: "Not found.",
    405: "Method not allowed.",
    408: "The body did not arrive in time.",
    409: "An id exists already; nothing was changed.",
    413: "The body is too large.",
    415: "Unsupported media type.",
    421: "The Host header does not name this service.",
    422: "A value is not allowed; see `field`.",
    429: "Too many wrong keys.",
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
        for status in (401, 403, 405, 421, 429, 503, *statuses)
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


def json_list_response(record: dict[str, Any], name: str, values: Iterable[str]) -> Response:
    """Send a record with a long list at its end, whose elements are JSON already.

    One call of `json.dumps` for the whole list would hold the GIL, and so delay other requests.
    """
    head = json.dumps({**record, name: []}, separators=(",", ":"))[:-2]
    return Response(f"{head}{','.join(values)}]}}".encode(), media_type=JSON)


def image_url(catalogue: Catalogue, domain: str, item: int | str) -> str | None:
    """Return the address of the image of an item, if it has one; it needs no escapes in JSON."""
    if item not in catalogue.domains[domain].images:
        return None
    name, of = quote(str(item), safe=""), quote(domain, safe="")
    return f"/v1/catalogues/{catalogue.name}/items/{name}/image?domain={of}"


def item_ids(item: str, kind: IdKind | None) -> Ids:
    """Return the id in a path, for an index with ids of this kind."""
    if kind != "text" and item.isascii() and item.isdigit() and len(item) <= 16:
        return np.array([int(item)])
    if kind == "numbers":
        raise RequestError(422, "ids of this catalogue are whole numbers", "id")
    try:
        return parse_ids([item])
    except ValueError as error:
        raise invalid(error, "id") from error


def make_filter(tags: list[str] | None, match: Match, domain: str | None) -> ItemFilter | None:
    """Return the filter of a request."""
    try:
        return parse_filter(tags, match, domain)
    except ValueError as error:
        raise invalid(error, getattr(error, "argument", "tags")) from error


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
                raise RequestError(
                    413, f"more than {max_bytes} bytes", "body", {"Connection": "close"}
                )
            parts.append(part)
    except ClientDisconnect as error:
        raise RequestError(400, "the connection was closed too early", "body") from error
    return given, b"".join(parts)


def held_memory(request: Request) -> HeldMemory:
    """Return the account of the memory that a request holds."""
    held: HeldMemory = request.scope[HELD]
    return held


async def parse_form(
    request: Request,
    kind: str,
    body: bytes,
    schema: type[S],
    content: str = "",
    **parameters: Any,
) -> S:
    """Parse a JSON body, or a NumPy array whose other fields come from query parameters."""
    if kind == NPY:
        array = parse_npy(body)
        if array.dtype not in (np.float32, np.float64):
            held_memory(request).reserve(8 * array.size)  # for a copy as floats
        return schema.model_construct(**{content: array, **parameters})
    if is_quick(body):
        return parse_json(body, schema)
    workers: Workers = request.app.state.workers
    return await workers.sandbox.parse(body, schema, held_memory(request).reserve)


async def run(workers: Workers, body: bytes, work: Callable[[], T]) -> T:
    """Work on a body: a small one here, a large one in a thread."""
    return work() if len(body) < _THREAD_BYTES else await workers.run_in_thread(work)


def pick_rows(form: RequestSchema, *names: str) -> tuple[str, Any]:
    """Return the one field of a form that has rows, by name."""
    given = [name for name in names if getattr(form, name) is not None]
    if len(given) != 1:
        raise RequestError(422, f"send exactly one of {', '.join(names)}", "body")
    return given[0], getattr(form, given[0])


def as_features(rows: NDArray[Any], width: int, kind: str) -> NDArray[Any]:
    """Return rows of features as floats, if they have the right width."""
    if rows.shape[1] != width:
        field = "features[0]" if kind == JSON else "body"
        raise RequestError(422, f"{rows.shape[1]} numbers; {width} are needed", field)
    return rows if rows.dtype in (np.float32, np.float64) else rows.astype(np.float64)


def as_codes(codes: NDArray[Any], n_bits: int, kind: str) -> NDArray[np.uint8]:
    """Return packed codes, if they have the right length."""
    width = n_bytes(n_bits)
    if kind == JSON and codes.shape[1] != width:
        raise RequestError(422, f"{2 * width} hex digits are needed", "codes[0]")
    try:
        return np.ascontiguousarray(packed_codes(codes, n_bits))
    except ValueError as error:
        raise invalid(error, "codes" if kind == JSON else "body") from error


def encode(catalogue: Catalogue, X: NDArray[Any], domain: str) -> NDArray[np.uint8]:
    """Return the packed codes of features, block by block."""
    return np.concatenate([catalogue.encode(rows, domain) for rows in _blocks(X)])


def encode_items(
    catalogue: Catalogue, X: NDArray[Any], domain: str
) -> tuple[NDArray[np.uint8], NDArray[np.float16] | None]:
    """Return codes and corrections of items to be added, block by block."""
    parts = [catalogue.encode_items(rows, domain) for rows in _blocks(X)]
    codes = np.concatenate([codes for codes, _ in parts])
    corrections = [numbers for _, numbers in parts if numbers is not None]
    return codes, np.concatenate(corrections) if corrections else None


def _blocks(X: NDArray[Any]) -> list[NDArray[Any]]:
    return [X[start : start + _BLOCK_ROWS] for start in range(0, len(X), _BLOCK_ROWS)]


def check_count(n: int, most: int, field: str) -> None:
    """Raise 422 if a request has more than `most` of something."""
    if n > most:
        raise RequestError(422, f"{n} are too many; send at most {most} per request", field)
