"""Encode and search."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from ...codes import n_bytes
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
    wants_npy,
)
from ..catalogue import Catalogue, Found, Question
from ..errors import Refused, invalid
from ..images import FORMATS
from ..schemas import Content, Domain, Encoded, EncodeForm, SearchAnswer, SearchForm, Tag
from ..workers import Desk
from .common import (
    BODY_REFUSALS,
    NPY_ANSWER,
    PREFIX,
    Name,
    body_of,
    desk_of,
    image_address,
    json_answer,
    npy_answer,
)

router = APIRouter(tags=["search"])

_LARGE = 1 << 16  # bytes of a body, or hits, that are worked on in a thread
_HIT = np.dtype([("id", "<i8"), ("distance", "<i4")])
_IMAGES = tuple(f"image/{kind.lower()}" for kind in FORMATS)

K = Annotated[int, Query(ge=1, description="For a body that is not JSON.")]
InQueryDomain = Annotated[Domain | None, Query(description="For a body that is not JSON.")]
Holds = Annotated[Content, Query(description="What the rows of a NumPy array are.")]
WithTag = Annotated[Tag | None, Query(description="For a body that is not JSON.")]


@router.post(
    PREFIX + "/encode",
    response_model=Encoded,
    responses={200: NPY_ANSWER, **BODY_REFUSALS},
    openapi_extra=body_of(EncodeForm, NPY),
)
async def encode(request: Request, catalogue: Name, domain: InQueryDomain = None) -> Response:
    """Turn features into codes. `Accept: application/x-npy` asks for an array of bytes."""
    desk = desk_of(request)
    chosen = desk.catalogue(catalogue)
    kind = content_type(request, (JSON, NPY))
    body = await read_body(request, desk.settings.limits.body_bytes)

    def work() -> Response:
        most = desk.settings.limits.rows
        rows: Any
        if kind == JSON:
            form = parse_json(body, EncodeForm)
            rows, wanted = form.features, form.domain
        else:
            rows, wanted = parse_npy(body), domain
        name, side = chosen.side(wanted, chosen.query_domain)
        X = as_features(rows, side.encoder.n_features_in_, most)
        codes = chosen.encode(X, name)
        if wants_npy(request):
            return npy_answer(codes)
        shown = [code.tobytes().hex() for code in codes]
        facts = {"catalogue": chosen.name, "domain": name, "n_bits": chosen.n_bits}
        return json_answer({**facts, "codes": shown})

    return await desk.aside(work)


@router.post(
    PREFIX + "/search",
    response_model=SearchAnswer,
    responses={200: NPY_ANSWER, **BODY_REFUSALS},
    openapi_extra=body_of(SearchForm, NPY),
)
async def search(
    request: Request,
    catalogue: Name,
    k: K = 10,
    domain: InQueryDomain = None,
    tag: WithTag = None,
    holds: Holds = "features",
) -> Response:
    """Find the nearest items of features, codes or items, in the order of (distance, id).

    `Accept: application/x-npy` asks for an array of (id, distance), a row a query; where fewer
    than k items are there, the rest has id -1.
    """
    desk = desk_of(request)
    chosen = desk.catalogue(catalogue)
    kind = content_type(request, (JSON, NPY))
    body = await read_body(request, desk.settings.limits.body_bytes)

    def understood() -> Question:
        if kind == JSON:
            return _question(desk, chosen, parse_json(body, SearchForm))
        given: dict[str, Any] = {holds: parse_npy(body), "k": k, "domain": domain, "tag": tag}
        form = SearchForm.model_construct(**given)
        return _question(desk, chosen, form)

    question = understood() if len(body) < _LARGE else await desk.aside(understood)
    return await _answer(request, desk, chosen, question)


@router.post(
    PREFIX + "/search/image",
    response_model=SearchAnswer,
    responses={200: NPY_ANSWER, **BODY_REFUSALS},
    openapi_extra=body_of(None, *_IMAGES),
)
async def search_image(
    request: Request, catalogue: Name, k: K = 10, tag: WithTag = None
) -> Response:
    """Find the nearest items of an image, sent as it is; there must be a backbone."""
    desk = desk_of(request)
    chosen = desk.catalogue(catalogue)
    reader = chosen.sides[chosen.query_domain].reader
    if reader is None:
        raise Refused(404, "image: this catalogue has no backbone; start with --backbone", "image")
    _check_k(desk, 1, k)
    content_type(request, _IMAGES)
    body = await read_body(request, desk.settings.limits.body_bytes)
    X = await desk.with_image(reader.features, body)
    question = Question(chosen.query_domain, k, features=X, tag=tag)
    return await _answer(request, desk, chosen, question)


def _question(desk: Desk, catalogue: Catalogue, form: SearchForm) -> Question:
    """A form as a question, if it asks one thing and not too much."""
    limits = desk.settings.limits
    given = [n for n in ("features", "codes", "ids") if getattr(form, n, None) is not None]
    if len(given) != 1:
        raise invalid("features: give one of features, codes and ids", given[0] if given else None)
    rows = getattr(form, given[0])
    check_number(len(rows), limits.queries, given[0])
    _check_k(desk, len(rows), form.k)
    default = catalogue.index_domain if given[0] == "ids" else catalogue.query_domain
    domain, side = catalogue.side(form.domain, default)
    question = Question(domain, form.k, tag=form.tag)
    if given[0] == "ids":
        return question._replace(ids=np.array(rows, dtype=np.int64))
    if given[0] == "codes":
        width = n_bytes(catalogue.n_bits)
        return question._replace(codes=catalogue.checked(as_codes(rows, width, limits.queries)))
    X = as_features(rows, side.encoder.n_features_in_, limits.queries)
    return question._replace(features=X)


def _check_k(desk: Desk, n_queries: int, k: int) -> None:
    limits = desk.settings.limits
    if k > limits.k:
        raise invalid(f"k: {k} is more than {limits.k}", "k")
    if n_queries * k > limits.hits:
        raise invalid(f"k: {n_queries} queries times {k} are more than {limits.hits} items", "k")


async def _answer(
    request: Request, desk: Desk, catalogue: Catalogue, question: Question
) -> Response:
    found = await desk.search(catalogue, question)
    if wants_npy(request):
        array = np.empty(found.ids.shape, _HIT)
        array["id"], array["distance"] = found.ids, found.distances
        return npy_answer(array)
    if found.ids.size < _LARGE >> 8:
        return json_answer(_shown(catalogue, question, found))
    return await desk.aside(lambda: json_answer(_shown(catalogue, question, found)))


def _shown(catalogue: Catalogue, question: Question, found: Found) -> dict[str, Any]:
    domain = catalogue.index_domain
    side, width = catalogue.sides[domain], found.queries.shape[1]
    codes, queries = found.codes.tobytes().hex(), found.queries.tobytes().hex()
    results, at = [], 0
    for q, (ids, distances) in enumerate(
        zip(found.ids.tolist(), found.distances.tolist(), strict=True)
    ):
        hits = []
        for item, distance, tag in zip(ids, distances, found.tags[q], strict=True):
            code = codes[at : at + 2 * width]
            at += 2 * width
            if item >= 0:
                image = image_address(catalogue, domain, side, item)
                hit = {"id": item, "distance": distance, "tag": tag, "code": code, "image": image}
                hits.append(hit)
        results.append({"code": queries[2 * q * width : 2 * (q + 1) * width], "hits": hits})
    return {
        "catalogue": catalogue.name,
        "domain": question.domain,
        "n_bits": catalogue.n_bits,
        "results": results,
    }
