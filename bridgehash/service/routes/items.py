"""Routes for items: list, show, add, replace and remove."""

from __future__ import annotations

import hashlib
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from ...codes import n_bytes
from ...index import HammingIndex
from ..bodies import (
    JSON,
    NPY,
    as_codes,
    as_features,
    check_count,
    parse_json,
    parse_rows,
    pick_rows,
    read_body,
)
from ..catalogue import Catalogue
from ..errors import RequestError
from ..images import MEDIA_TYPES
from ..middleware import check_write_access
from ..schemas import (
    AddRequest,
    ChangeResponse,
    Item,
    ItemList,
    RemoveRequest,
    RemoveResponse,
    Tag,
    UpsertRequest,
)
from ..store import Add, ChangeResult, Remove, Upsert
from ..workers import Workers
from .common import (
    BODY_ERRORS,
    PREFIX,
    CatalogueName,
    ContentType,
    ItemDomain,
    ItemId,
    body_of,
    errors,
    image_url,
    json_response,
    workers_of,
)

router = APIRouter(tags=["items"])

_NEEDS_KEY: dict[str, Any] = {"security": [{"key": []}]}
_IMAGES: dict[str, Any] = {
    "content": {
        kind: {"schema": {"type": "string", "format": "binary"}} for kind in MEDIA_TYPES.values()
    }
}


@router.get(PREFIX + "/items", response_model=ItemList, responses=errors(404, 422))
async def list_items(
    request: Request,
    catalogue: CatalogueName,
    domain: ItemDomain = None,
    offset: Annotated[int, Query(ge=0, le=2**53)] = 0,
    limit: Annotated[int, Query(ge=1)] = 50,
    tag: Annotated[Tag | None, Query(description="List only items of this tag.")] = None,
) -> Response:
    """List items of a domain, ordered by id."""
    workers = workers_of(request)
    chosen = workers.catalogue(catalogue)
    check_count(limit, workers.settings.limits.page, "limit")

    def work() -> Response:
        name, _, index = chosen.items(domain)
        ids, total = index.page(offset, limit, tag=tag)
        info = {"catalogue": chosen.name, "domain": name, "total": total, "offset": offset}
        return json_response({**info, "items": _describe(chosen, name, index, ids)})

    return await workers.run_in_thread(work)


@router.get(PREFIX + "/items/{id}", response_model=Item, responses=errors(404, 422))
async def show_item(
    request: Request, catalogue: CatalogueName, item: ItemId, domain: ItemDomain = None
) -> Response:
    """Show one item."""
    chosen = workers_of(request).catalogue(catalogue)
    name, _, index = chosen.items(domain)
    return json_response(_describe(chosen, name, index, np.array([item]))[0])


@router.get(
    PREFIX + "/items/{id}/image",
    response_class=Response,
    responses={200: _IMAGES, 304: {"description": "Not modified."}, **errors(404, 422)},
)
async def show_image(
    request: Request, catalogue: CatalogueName, item: ItemId, domain: ItemDomain = None
) -> Response:
    """Return the image of an item; 304 if the client has it already."""
    workers = workers_of(request)
    chosen = workers.catalogue(catalogue)
    path = chosen.domain(domain, chosen.index_domain)[1].images.get(item)
    if path is None:
        raise RequestError(404, "this item has no image", "id")
    try:
        data = await workers.run_in_thread(path.read_bytes)
    except OSError as error:
        raise RequestError(404, "the image of this item cannot be read", "id") from error
    tag = f'"{hashlib.sha256(data).hexdigest()[:32]}"'
    headers = {"Cache-Control": "private, no-cache", "ETag": tag}  # a restart may change images
    if tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(data, media_type=MEDIA_TYPES[path.suffix.lower()], headers=headers)


@router.post(
    PREFIX + "/items",
    response_model=ChangeResponse,
    responses={**BODY_ERRORS, **errors(403, 409)},
    openapi_extra={**body_of(AddRequest, NPY), **_NEEDS_KEY},
)
async def add_items(
    request: Request, catalogue: CatalogueName, content: ContentType = "features"
) -> Response:
    """Add items to the index. If an id exists, the response is 409 and nothing is changed.

    The items are on disk when the response is sent. The rows of a NumPy array get the next free
    ids.
    """
    workers, chosen = _writable(request, catalogue)
    kind, body = await read_body(request, JSON, NPY)
    parsed = await workers.run_in_thread(
        lambda: Add(*_parse_items(workers, chosen, parse_rows(kind, body, AddRequest, content)))
    )
    return _changed(chosen, await workers.change(chosen, parsed))


@router.put(
    PREFIX + "/items",
    response_model=ChangeResponse,
    responses={**BODY_ERRORS, **errors(403)},
    openapi_extra={**body_of(UpsertRequest), **_NEEDS_KEY},
)
async def upsert_items(request: Request, catalogue: CatalogueName) -> Response:
    """Insert items, or replace those with the same ids.

    The items are on disk when the response is sent.
    """
    workers, chosen = _writable(request, catalogue)
    _, body = await read_body(request, JSON)
    parsed = await workers.run_in_thread(
        lambda: Upsert(*_parse_items(workers, chosen, parse_json(body, UpsertRequest)))
    )
    return _changed(chosen, await workers.change(chosen, parsed))


@router.delete(
    PREFIX + "/items",
    response_model=RemoveResponse,
    responses={**BODY_ERRORS, **errors(403)},
    openapi_extra={**body_of(RemoveRequest), **_NEEDS_KEY},
)
async def remove_items(request: Request, catalogue: CatalogueName) -> Response:
    """Remove items by id; unknown ids are ignored."""
    workers, chosen = _writable(request, catalogue)
    _, body = await read_body(request, JSON)
    form = await workers.run_in_thread(parse_json, body, RemoveRequest)
    check_count(len(form.ids), workers.settings.limits.rows, "ids")
    ids = np.unique(np.array(form.ids, dtype=np.int64))
    result = await workers.change(chosen, Remove(ids))
    return json_response({"removed": result.n_removed, "total": len(chosen.store.index)})


@router.delete(
    PREFIX + "/items/{id}",
    response_model=RemoveResponse,
    responses=errors(403, 404, 422),
    openapi_extra=_NEEDS_KEY,
)
async def remove_item(request: Request, catalogue: CatalogueName, item: ItemId) -> Response:
    """Remove one item."""
    workers, chosen = _writable(request, catalogue)
    result = await workers.change(chosen, Remove(np.array([item])))
    if result.n_removed == 0:
        raise RequestError(404, f"no item {item}", "id")
    return json_response({"removed": 1, "total": len(chosen.store.index)})


def _writable(request: Request, catalogue: str) -> tuple[Workers, Catalogue]:
    """Return the workers and a catalogue, if the client may change it."""
    workers = workers_of(request)
    check_write_access(request.headers, workers.settings)
    return workers, workers.catalogue(catalogue)


def _parse_items(workers: Workers, catalogue: Catalogue, form: AddRequest) -> tuple[Any, Any, Any]:
    """Return codes, ids and tags of a form, if they match each other."""
    name, rows = pick_rows(form, "features", "codes")
    check_count(len(rows), workers.settings.limits.rows, name)
    if name == "codes":
        codes = catalogue.check_codes(as_codes(rows, n_bytes(catalogue.n_bits)))
    else:
        domain = catalogue.index_domain
        width = catalogue.domains[domain].encoder.n_features_in_
        codes = catalogue.encode(as_features(rows, width), domain)
    for field, values in (("ids", form.ids), ("tags", form.tags)):
        if values is not None and len(values) != len(codes):
            problem = f"{len(values)} for {len(codes)} items; send one per item"
            raise RequestError(422, problem, field)
    if form.ids is None:
        return codes, None, form.tags
    if len(set(form.ids)) < len(form.ids):
        raise RequestError(422, "an id appears twice", "ids")
    return codes, np.array(form.ids, dtype=np.int64), form.tags


def _changed(catalogue: Catalogue, result: ChangeResult) -> Response:
    counts = {"added": result.n_added, "replaced": result.n_replaced}
    total = len(catalogue.store.index)
    return json_response({"ids": result.ids.tolist(), **counts, "total": total})


def _describe(
    catalogue: Catalogue, domain: str, index: HammingIndex, ids: Any
) -> list[dict[str, Any]]:
    try:
        codes, tags = index.get(ids)
    except KeyError as error:
        raise RequestError(404, f"no item {error.args[0]}", "id") from error
    return [
        {
            "id": item,
            "tag": tag,
            "code": code.tobytes().hex(),
            "image": image_url(catalogue, domain, item),
        }
        for item, code, tag in zip(ids.tolist(), codes, tags, strict=True)
    ]
