"""Routes for items: list, show, add, replace and remove."""

from __future__ import annotations

import hashlib
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response

from ...index import HammingIndex
from ...index.changes import Add, Remove, Upsert
from ...index.ids import parse_ids
from .. import schemas
from ..catalogue import Catalogue
from ..errors import RequestError
from ..images import MEDIA_TYPES
from ..middleware import check_write_access
from ..workers import Workers
from . import common


async def _check_key(request: Request, workers: common.AppWorkers) -> None:
    await check_write_access(request.scope, workers)


router = APIRouter(prefix=common.PREFIX, tags=["items"])
writing = APIRouter(
    prefix=common.PREFIX,
    tags=["items"],
    dependencies=[Depends(_check_key)],  # before the parameters and the body are read
    responses=common.errors(403, 404, 422),
)

_NEEDS_KEY: dict[str, Any] = {"security": [{"key": []}]}
_IMAGES: dict[str, Any] = {"content": dict.fromkeys(MEDIA_TYPES.values(), common.BYTES)}


@router.get("/items", response_model=schemas.ItemList, responses=common.errors(404, 422))
async def list_items(
    workers: common.AppWorkers,
    catalogue: common.NamedCatalogue,
    domain: common.ItemDomain = None,
    offset: Annotated[int, Query(ge=0, le=2**53)] = 0,
    limit: Annotated[int, Query(ge=1)] = 50,
    tags: common.QueryTags = None,
    match: common.QueryMatch = "any",
    in_domain: common.InDomain = None,
) -> Response:
    """List items of a domain, ordered by id."""
    common.check_count(limit, workers.settings.limits.page, "limit")

    def work() -> Response:
        name, index = catalogue.items(domain)
        wanted = common.make_filter(tags, match, in_domain)
        ids, total = index.page(offset, limit, **(wanted._asdict() if wanted else {}))
        info = {"catalogue": catalogue.name, "domain": name, "total": total, "offset": offset}
        return common.json_response({**info, "items": _describe(catalogue, name, index, ids)})

    return await workers.run_in_thread(work)


@router.get(
    "/items/{id:path}/image",
    response_class=Response,
    responses={200: _IMAGES, 304: {"description": "Not modified."}, **common.errors(404, 422)},
)
async def show_image(
    request: Request,
    workers: common.AppWorkers,
    catalogue: common.NamedCatalogue,
    item: common.ItemId,
    domain: common.ItemDomain = None,
) -> Response:
    """Return the image of an item; 304 if the client has it already."""
    chosen = catalogue.domain(domain, catalogue.index_domain)[1]
    kind = None if chosen.store is None else chosen.store.index.id_kind
    path = chosen.images.get(common.item_ids(item, kind).tolist()[0])
    if path is None:
        raise RequestError(404, "this item has no image", "id")
    try:
        common.held_memory(request).reserve(path.stat().st_size)
        data = await workers.run_in_thread(path.read_bytes)
    except OSError as error:
        raise RequestError(404, "the image of this item cannot be read", "id") from error
    tag = f'"{hashlib.sha256(data).hexdigest()[:32]}"'
    headers = {"Cache-Control": "private, no-cache", "ETag": tag}  # a restart may change images
    if tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(data, media_type=MEDIA_TYPES[path.suffix.lower()], headers=headers)


@router.get("/items/{id:path}", response_model=schemas.Item, responses=common.errors(404, 422))
async def show_item(
    catalogue: common.NamedCatalogue, item: common.ItemId, domain: common.ItemDomain = None
) -> Response:
    """Show one item."""
    name, index = catalogue.items(domain)
    ids = common.item_ids(item, index.id_kind)
    return common.json_response(_describe(catalogue, name, index, ids)[0])


@writing.post(
    "/items",
    response_model=schemas.ChangeResponse,
    responses={**common.BODY_ERRORS, **common.errors(409)},
    openapi_extra={**common.body_of(schemas.AddRequest, common.NPY), **_NEEDS_KEY},
)
async def add_items(
    request: Request,
    workers: common.AppWorkers,
    catalogue: common.NamedCatalogue,
    content: common.ContentType = "features",
) -> Response:
    """Add items to the index. If an id exists, the response is 409 and nothing is changed.

    The items are on disk when the response is sent. The rows of a NumPy array get the next free
    ids.
    """
    return await _insert(request, workers, catalogue, schemas.AddRequest, Add, content)


@writing.put(
    "/items",
    response_model=schemas.ChangeResponse,
    responses=common.BODY_ERRORS,
    openapi_extra={**common.body_of(schemas.UpsertRequest), **_NEEDS_KEY},
)
async def upsert_items(
    request: Request, workers: common.AppWorkers, catalogue: common.NamedCatalogue
) -> Response:
    """Insert items, or replace those with the same ids.

    The items are on disk when the response is sent.
    """
    return await _insert(request, workers, catalogue, schemas.UpsertRequest, Upsert)


@writing.delete(
    "/items",
    response_model=schemas.RemoveResponse,
    responses=common.BODY_ERRORS,
    openapi_extra={**common.body_of(schemas.RemoveRequest), **_NEEDS_KEY},
)
async def remove_items(
    request: Request, workers: common.AppWorkers, catalogue: common.NamedCatalogue
) -> Response:
    """Remove items by id; unknown ids are ignored."""
    _, body = await common.read_body(request, common.JSON)
    form = await common.parse_form(request, common.JSON, body, schemas.RemoveRequest)
    common.check_count(len(form.ids), workers.settings.limits.rows, "ids")
    result = await workers.change(catalogue, Remove(parse_ids(form.ids)))
    return common.json_response({"removed": result.n_removed, "total": len(catalogue.store.index)})


@writing.delete("/items/{id:path}", response_model=schemas.RemoveResponse, openapi_extra=_NEEDS_KEY)
async def remove_item(
    workers: common.AppWorkers, catalogue: common.NamedCatalogue, item: common.ItemId
) -> Response:
    """Remove one item."""
    ids = common.item_ids(item, catalogue.store.index.id_kind)
    result = await workers.change(catalogue, Remove(ids))
    if result.n_removed == 0:
        raise RequestError(404, f"no item {item}", "id")
    return common.json_response({"removed": 1, "total": len(catalogue.store.index)})


async def _insert(
    request: Request,
    workers: Workers,
    catalogue: Catalogue,
    schema: type[schemas.AddRequest],
    change: type[Add] | type[Upsert],
    content: str | None = None,
) -> Response:
    """Add or upsert items. With `content`, the body may also be a NumPy array."""
    kinds = (common.JSON, common.NPY) if content else (common.JSON,)
    kind, body = await common.read_body(request, *kinds)

    form = await common.parse_form(request, kind, body, schema, content or "")

    def check() -> Add | Upsert:
        return change(*_parse_items(workers.settings.limits.rows, catalogue, form, kind))

    result = await workers.change(catalogue, await workers.run_in_thread(check))
    counts = {"added": result.n_added, "replaced": result.n_replaced}
    total = len(catalogue.store.index)
    return common.json_response({"ids": result.ids.tolist(), **counts, "total": total})


def _parse_items(max_rows: int, catalogue: Catalogue, form: schemas.AddRequest, kind: str) -> Any:
    """Return codes, ids, tags, domain and corrections of a form, if they match each other."""
    name, rows = common.pick_rows(form, "features", "codes")
    common.check_count(len(rows), max_rows, name)
    domain, _ = catalogue.domain(form.domain, catalogue.index_domain)
    corrections = None
    if name == "codes":
        codes = common.as_codes(rows, catalogue.n_bits, kind)
    else:
        width = catalogue.domains[domain].encoder.n_features_in_
        X = common.as_features(rows, width, kind)
        codes, corrections = common.encode_items(catalogue, X, domain)
    for field, values in (("ids", form.ids), ("tags", form.tags)):
        if values is not None and len(values) != len(codes):
            problem = f"{len(values)} for {len(codes)} items; send one per item"
            raise RequestError(422, problem, field)
    if form.ids is not None and len(set(parse_ids(form.ids).tolist())) < len(form.ids):
        raise RequestError(422, "an id appears twice", "ids")
    return codes, form.ids, form.tags, catalogue.name_of(domain), corrections


def _describe(
    catalogue: Catalogue, domain: str, index: HammingIndex, ids: Any
) -> list[dict[str, Any]]:
    try:
        found = index.get(ids)
    except KeyError as error:
        raise RequestError(404, f"no item {error.args[0]}", "id") from error
    return [
        {
            "id": item,
            "tags": tags,
            "domain": own,
            "code": code.tobytes().hex(),
            "image": common.image_url(catalogue, domain, item),
        }
        for item, code, tags, own in zip(ids.tolist(), *found, strict=True)
    ]
