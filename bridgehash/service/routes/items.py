"""Items: listed, shown, added, removed."""

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
    check_number,
    content_type,
    parse_json,
    parse_npy,
    read_body,
)
from ..catalogue import Catalogue, Side
from ..errors import Refused, invalid
from ..images import SHOWN
from ..middleware import check_writer
from ..schemas import Added, AddForm, Content, Item, Listing, Removed, RemoveForm, Tag
from ..store import Put, Take
from ..workers import Desk
from .common import (
    BODY_REFUSALS,
    PREFIX,
    InDomain,
    ItemId,
    Name,
    body_of,
    desk_of,
    image_address,
    json_answer,
    refusals,
)

router = APIRouter(tags=["items"])

_WRITES: dict[str, Any] = {"security": [{"key": []}]}
_PICTURES: dict[str, Any] = {
    "content": {kind: {"schema": {"type": "string", "format": "binary"}} for kind in SHOWN.values()}
}


@router.get(PREFIX + "/items", response_model=Listing, responses=refusals(404, 422))
async def list_items(
    request: Request,
    catalogue: Name,
    domain: InDomain = None,
    offset: Annotated[int, Query(ge=0, le=2**53)] = 0,
    limit: Annotated[int, Query(ge=1)] = 50,
    tag: Annotated[Tag | None, Query(description="Items of this tag only.")] = None,
) -> Response:
    """Items of a domain in the order of their ids."""
    desk = desk_of(request)
    chosen = desk.catalogue(catalogue)
    if limit > desk.settings.limits.page:
        raise invalid(f"limit: {limit} is more than {desk.settings.limits.page}", "limit")

    def work() -> Response:
        name, side, index = chosen.items_of(domain)
        ids, total = index.page(offset, limit, tag=tag)
        items = _shown(chosen, name, side, index, ids)
        facts = {"catalogue": chosen.name, "domain": name, "total": total, "offset": offset}
        return json_answer({**facts, "items": items})

    return await desk.aside(work)


@router.get(PREFIX + "/items/{id}", response_model=Item, responses=refusals(404, 422))
async def show_item(
    request: Request, catalogue: Name, item: ItemId, domain: InDomain = None
) -> Response:
    """One item."""
    chosen = desk_of(request).catalogue(catalogue)
    name, side, index = chosen.items_of(domain)
    return json_answer(_shown(chosen, name, side, index, np.array([item]))[0])


@router.get(
    PREFIX + "/items/{id}/image",
    response_class=Response,
    responses={200: _PICTURES, 304: {"description": "Not changed."}, **refusals(404, 422)},
)
async def show_image(
    request: Request, catalogue: Name, item: ItemId, domain: InDomain = None
) -> Response:
    """The picture of an item, as it lies in the folder; 304 to who has it already."""
    desk = desk_of(request)
    chosen = desk.catalogue(catalogue)
    path = chosen.side(domain, chosen.index_domain)[1].pictures.get(item)
    if path is None:
        raise Refused(404, "id: this item has no picture", "id")
    try:
        data = await desk.aside(path.read_bytes)
    except OSError as error:
        raise Refused(404, "id: the picture of this item cannot be read", "id") from error
    mark = f'"{hashlib.sha256(data).hexdigest()[:32]}"'
    keep = {"Cache-Control": "private, no-cache", "ETag": mark}  # another run has other pictures
    if mark in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=keep)
    return Response(data, media_type=SHOWN[path.suffix.lower()], headers=keep)


@router.post(
    PREFIX + "/items",
    response_model=Added,
    responses={**BODY_REFUSALS, **refusals(403)},
    openapi_extra={**body_of(AddForm, NPY), **_WRITES},
)
async def add_items(
    request: Request,
    catalogue: Name,
    holds: Annotated[Content, Query(description="What a NumPy array holds.")] = "features",
) -> Response:
    """Add items of the index's domain; an item that has the id is replaced.

    They are on disk before the answer comes. A NumPy array gets the next free ids.
    """
    desk = desk_of(request)
    check_writer(request.headers, desk)
    chosen = desk.catalogue(catalogue)
    kind = content_type(request, (JSON, NPY))
    body = await read_body(request, desk.settings.limits.body_bytes)

    def understood() -> Put:
        if kind == JSON:
            return _put(desk, chosen, parse_json(body, AddForm))
        given: dict[str, Any] = {holds: parse_npy(body)}
        return _put(desk, chosen, AddForm.model_construct(**given))

    done = await desk.change(chosen, await desk.aside(understood))
    counts = {"added": done.n_new, "replaced": done.n_replaced}
    return json_answer({"ids": done.ids.tolist(), **counts, "items": len(chosen.store.index)})


@router.post(
    PREFIX + "/remove",
    response_model=Removed,
    responses={**BODY_REFUSALS, **refusals(403)},
    openapi_extra={**body_of(RemoveForm), **_WRITES},
)
async def remove_items(request: Request, catalogue: Name) -> Response:
    """Remove items by id; that is on disk before the answer comes."""
    desk = desk_of(request)
    check_writer(request.headers, desk)
    chosen = desk.catalogue(catalogue)
    content_type(request, (JSON,))
    body = await read_body(request, desk.settings.limits.body_bytes)
    form = await desk.aside(parse_json, body, RemoveForm)
    check_number(len(form.ids), desk.settings.limits.rows, "ids")
    done = await desk.change(chosen, Take(np.unique(np.array(form.ids, dtype=np.int64))))
    return json_answer({"removed": done.n_removed, "items": len(chosen.store.index)})


def _put(desk: Desk, catalogue: Catalogue, form: AddForm) -> Put:
    """A form as a change, if all of it fits together."""
    most = desk.settings.limits.rows
    given = [n for n in ("features", "codes") if getattr(form, n, None) is not None]
    if len(given) != 1:
        raise invalid("features: give either features or codes", "features")
    rows = getattr(form, given[0])
    if given[0] == "codes":
        codes = catalogue.checked(as_codes(rows, n_bytes(catalogue.n_bits), most))
    else:
        domain = catalogue.index_domain
        X = as_features(rows, catalogue.sides[domain].encoder.n_features_in_, most)
        codes = catalogue.encode(X, domain)
    for name, values in (("ids", form.ids), ("tags", form.tags)):
        if values is not None and len(values) != len(codes):
            raise invalid(f"{name}: {len(values)} for {len(codes)} items; give one each", name)
    if form.ids is not None and len(set(form.ids)) < len(form.ids):
        raise invalid("ids: an id is given twice", "ids")
    ids = None if form.ids is None else np.array(form.ids, dtype=np.int64)
    return Put(codes, ids, form.tags)


def _shown(
    catalogue: Catalogue, domain: str, side: Side, index: HammingIndex, ids: Any
) -> list[dict[str, Any]]:
    try:
        codes, tags = index.get(ids)
    except KeyError as error:
        raise Refused(404, f"id: there is no item {error.args[0]}", "id") from error
    return [
        {
            "id": item,
            "tag": tag,
            "code": code.tobytes().hex(),
            "image": image_address(catalogue, domain, side, item),
        }
        for item, code, tag in zip(ids.tolist(), codes, tags, strict=True)
    ]
