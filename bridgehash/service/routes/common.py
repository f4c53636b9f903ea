"""Shared by all routes: parameters, responses, and their OpenAPI documentation."""

from __future__ import annotations

import io
import json
from typing import Annotated, Any

import numpy as np
from fastapi import Depends, Path, Query, Request
from numpy.typing import NDArray
from starlette.responses import Response

from ..bodies import JSON, NPY
from ..catalogue import Catalogue
from ..errors import PROBLEM_JSON, RequestError
from ..schemas import ArrayContent, DomainName, RequestSchema
from ..settings import MAX_ID
from ..workers import Workers

PREFIX = "/v1/catalogues/{catalogue}"

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
_BYTES = {"schema": {"type": "string", "format": "binary"}}
NPY_RESPONSE: dict[str, Any] = {"content": {NPY: _BYTES}}


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
    content: dict[str, Any] = dict.fromkeys(media_types, _BYTES)
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
