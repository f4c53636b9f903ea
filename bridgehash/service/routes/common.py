"""What routes share: the desk, documented refusals, bodies in the OpenAPI document, pictures."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import Path, Query, Request
from starlette.responses import Response

from ..bodies import JSON, NPY, as_npy
from ..catalogue import Catalogue, Side
from ..errors import Problem
from ..schemas import Domain, Form
from ..settings import MOST_ID
from ..workers import Desk

PREFIX = "/v1/catalogues/{catalogue}"

Name = Annotated[str, Path(description="A catalogue, as listed.", max_length=64)]
ItemId = Annotated[int, Path(alias="id", ge=0, le=MOST_ID)]
InDomain = Annotated[Domain | None, Query(description="Left out: that of the index.")]

_MEANINGS = {
    400: "A body that cannot be read.",
    401: "The key is missing or wrong.",
    403: "The service is read-only.",
    404: "There is no such thing.",
    405: "Another method is needed.",
    408: "The body did not arrive in time.",
    413: "The body is too large.",
    415: "A body of another type is needed.",
    421: "The Host header is not that of the service.",
    422: "A value is not allowed; `field` names it.",
    503: "Too busy, or stopping.",
}


def desk_of(request: Request) -> Desk:
    """The desk of the application."""
    desk: Desk = request.app.state.desk
    return desk


def refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The documentation of what may be refused, and why."""
    return {
        status: {"model": Problem, "description": _MEANINGS[status]}
        for status in (401, 405, 421, 503, *statuses)
    }


BODY_REFUSALS = refusals(400, 404, 408, 413, 415, 422)


def body_of(form: type[Form] | None, *others: str) -> dict[str, Any]:
    """The documentation of a body that a route reads itself."""
    content: dict[str, Any] = {kind: {"schema": _BYTES} for kind in others}
    if form is not None:
        reference = {"$ref": f"#/components/schemas/{form.__name__}"}
        content = {JSON: {"schema": reference}, **content}
    return {"requestBody": {"required": True, "content": content}}


_BYTES = {"type": "string", "format": "binary"}
NPY_ANSWER: dict[str, Any] = {"content": {NPY: {"schema": _BYTES}}}


def json_answer(record: Any) -> Response:
    """A record as it is: it was made here and needs no second check."""
    return Response(json.dumps(record, separators=(",", ":")), media_type=JSON)


def npy_answer(array: Any) -> Response:
    """An array."""
    return Response(as_npy(array), media_type=NPY)


def image_address(catalogue: Catalogue, domain: str, side: Side, item: int) -> str | None:
    """Where the picture of an item is, if it has one."""
    if item not in side.pictures:
        return None
    return f"/v1/catalogues/{catalogue.name}/items/{item}/image?domain={domain}"
