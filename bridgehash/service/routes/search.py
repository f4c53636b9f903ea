"""Routes for encode and search."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from time import sleep
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Query, Request
from numpy.typing import NDArray
from starlette.responses import Response

from ...index.attributes import Attributes, ItemFilter
from ...index.ids import is_id, kind_of
from .. import schemas
from ..catalogue import Catalogue, SearchQuery, SearchResult
from ..errors import RequestError
from ..images import FORMATS
from ..settings import Limits
from ..workers import Workers
from . import common

# `app.py` calls these functions directly if a request has no query parameters.
router = APIRouter(prefix=common.PREFIX, tags=["search"], responses=common.BODY_ERRORS)

_QUERIES_PER_PAUSE = 2  # of a long search
_PAUSE_SECONDS = 0.0005
_THREAD_HITS = 256  # more hits are written as JSON in a thread
_HIT_BYTES = 256  # working memory per hit
_IMAGES = tuple(f"image/{kind.lower()}" for kind in FORMATS)

_NOT_JSON = Query(description="For a body that is not JSON.")
K = Annotated[int, Query(ge=1, description="For a body that is not JSON.")]
QueryDomain = Annotated[schemas.DomainName | None, _NOT_JSON]
QueryRank = Annotated[schemas.Rank, Query(description="For a body that is not JSON.")]
ImageRank = Annotated[schemas.Rank, Query(description=schemas.RANK_TEXT)]
QueryReject = Annotated[bool, Query(description="For a body that is not JSON.")]
ImageReject = Annotated[bool, Query(description=schemas.REJECT_TEXT)]


@router.post(
    "/encode",
    response_model=schemas.EncodeResponse,
    responses={200: common.NPY_RESPONSE},
    openapi_extra=common.body_of(schemas.EncodeRequest, common.NPY),
)
async def encode(
    request: Request,
    workers: common.AppWorkers,
    catalogue: common.NamedCatalogue,
    domain: QueryDomain = None,
) -> Response:
    """Encode features. With `Accept: application/x-npy` the response is an array of bytes."""
    kind, body = await common.read_body(request, common.JSON, common.NPY)
    schema = schemas.EncodeRequest
    form = await common.parse_form(request, kind, body, schema, "features", domain=domain)

    def work() -> Response:
        rows: Any = form.features
        common.check_count(len(rows), workers.settings.limits.rows, "features")
        name, given = catalogue.domain(form.domain, catalogue.query_domain)
        X = common.as_features(rows, given.encoder.n_features_in_, kind)
        codes = common.encode(catalogue, X, name)
        if _accepts_npy(request):
            return common.npy_response(codes)
        info = {"catalogue": catalogue.name, "domain": name, "n_bits": catalogue.n_bits}
        texts = (f'"{code.tobytes().hex()}"' for code in codes)
        return common.json_list_response(info, "codes", texts)

    return await workers.run_in_thread(work)


@router.post(
    "/search",
    response_model=schemas.SearchResponse,
    responses={200: common.NPY_RESPONSE},
    openapi_extra=common.body_of(schemas.SearchRequest, common.NPY),
)
async def search(
    request: Request,
    workers: common.AppWorkers,
    catalogue: common.NamedCatalogue,
    k: K = 10,
    domain: QueryDomain = None,
    tags: common.QueryTags = None,
    match: common.QueryMatch = "any",
    in_domain: common.InDomain = None,
    content: common.ContentType = "features",
    rank: QueryRank = "auto",
    reject: QueryReject = False,
) -> Response:
    """Find the items nearest to features, codes or other items.

    With features, items are ranked by (score, id), and `score` is part of each hit. With codes or
    ids, or with `rank` set to `hamming`, they are ranked by (distance, id).

    `rejected` says whether a query seems to have no counterpart in the index, if the model can
    tell; with features it is more often right. With `reject` set to true, rejected queries have no
    hits.

    With `Accept: application/x-npy` the response is an array of (id, distance), or of (id,
    distance, score), one row per query. If there are fewer than k items, the remaining ids are -1,
    or empty if ids are text.
    """
    kind, body = await common.read_body(request, common.JSON, common.NPY)

    filters = {"tags": tags, "match": match, "in_domain": in_domain}
    parameters = {"k": k, "domain": domain, "rank": rank, "reject": reject, **filters}
    schema = schemas.SearchRequest
    form = await common.parse_form(request, kind, body, schema, content, **parameters)
    check = partial(_parse_query, workers.settings.limits, catalogue, form, kind)
    query = await common.run(workers, body, check)
    return await _respond(request, workers, catalogue, query)


@router.post(
    "/search/image",
    response_model=schemas.SearchResponse,
    responses={200: common.NPY_RESPONSE},
    openapi_extra=common.body_of(None, *_IMAGES),
)
async def search_image(
    request: Request,
    workers: common.AppWorkers,
    catalogue: common.NamedCatalogue,
    k: K = 10,
    tags: common.QueryTags = None,
    match: common.QueryMatch = "any",
    in_domain: common.InDomain = None,
    rank: ImageRank = "auto",
    reject: ImageReject = False,
) -> Response:
    """Find the items nearest to an image. The service must be started with a backbone."""
    domain = catalogue.query_domain
    reader = catalogue.domains[domain].reader
    if reader is None:
        raise RequestError(404, "no backbone: start the service with --backbone", "image")
    _check_k(workers.settings.limits, 1, k)
    wanted = common.make_filter(tags, match, in_domain)
    if reject:
        _check_rejects(catalogue, "features", domain, wanted)
    _, body = await common.read_body(request, *_IMAGES)
    reserve = common.held_memory(request).reserve
    pixels = await workers.sandbox.decode(body, reader.name, reserve)
    X = await workers.run_in_thread(reader.features, pixels)
    weighted = _is_weighted(catalogue, domain, rank)
    query = SearchQuery("features", X, domain, k, wanted, weighted, reject)
    return await _respond(request, workers, catalogue, query)


def _parse_query(
    limits: Limits, catalogue: Catalogue, form: schemas.SearchRequest, kind: str
) -> SearchQuery:
    content, rows = common.pick_rows(form, "features", "codes", "ids")
    if form.rank == "weights" and content != "features":
        problem = f"weights need features, not {content}; send features, or rank by hamming"
        raise RequestError(422, problem, "rank")
    common.check_count(len(rows), limits.queries, content)
    _check_k(limits, len(rows), form.k)
    default = catalogue.index_domain if content == "ids" else catalogue.query_domain
    name, domain = catalogue.domain(form.domain, default)
    if content == "codes":
        rows = common.as_codes(rows, catalogue.n_bits, kind)
    elif content == "features":
        rows = common.as_features(rows, domain.encoder.n_features_in_, kind)
    wanted = common.make_filter(form.tags, form.match, form.in_domain)
    weighted = content == "features" and _is_weighted(catalogue, name, form.rank)
    if form.reject:
        _check_rejects(catalogue, content, name, wanted)
    return SearchQuery(content, rows, name, form.k, wanted, weighted, form.reject)


def _is_weighted(catalogue: Catalogue, domain: str, rank: schemas.Rank) -> bool:
    """Return whether features are ranked by weights."""
    if rank == "hamming" or catalogue.can_weigh(domain):
        return rank != "hamming"
    if rank == "auto":
        return False
    problem = "the model was fitted by an earlier version and cannot use the corrections of this "
    raise RequestError(422, f"{problem}index; fit it again, or rank by hamming", "rank")


def _check_rejects(
    catalogue: Catalogue, content: str, domain: str, wanted: ItemFilter | None
) -> None:
    """Refuse to reject queries if the model cannot tell which ones have no counterpart."""
    if catalogue.can_reject(content, domain, wanted):
        return
    chosen = catalogue.domains[domain]
    if chosen.rejector_of(content) is not None:
        problem = f"items of {domain!r} itself are searched; search those of another domain"
    elif chosen.rejector is not None:
        problem = f"this model needs features, not {content}: its codes have changed since the fit"
    else:
        problem = (
            f"this model cannot tell which queries of {domain!r} have no counterpart; fit "
            "ATH.propagated with labels of the other domain, in one feature space"
        )
    raise RequestError(422, problem, "reject")


def _check_k(limits: Limits, n_queries: int, k: int) -> None:
    common.check_count(k, limits.k, "k")
    if n_queries * k > limits.hits:
        raise RequestError(422, f"{n_queries} queries x {k} exceed {limits.hits} items", "k")


def _accepts_npy(request: Request) -> bool:
    return common.NPY in request.headers.get("accept", "").lower()


async def _respond(
    request: Request, workers: Workers, catalogue: Catalogue, query: SearchQuery
) -> Response:
    n_hits = len(query.rows) * query.k
    if n_hits >= _THREAD_HITS:
        common.held_memory(request).reserve(n_hits * _HIT_BYTES)
    result = await workers.search(catalogue, query)
    if _accepts_npy(request):
        return common.npy_response(_as_array(result))
    if n_hits < _THREAD_HITS:
        return _describe(catalogue, query, result)
    write = partial(_describe, catalogue, query, result, pauses=True)
    return await workers.run_in_thread(write, long=True)


def _as_array(result: SearchResult) -> NDArray[Any]:
    """Return ids, distances and scores as one array; text has the width of the longest id."""
    ids = result.ids
    if kind_of(ids) == "text":
        ids = np.where(is_id(ids), ids, "").astype(str)
    scored = [] if result.scores is None else [("score", "<f4")]
    array = np.empty(ids.shape, [("id", ids.dtype), ("distance", "<i4"), *scored])
    array["id"], array["distance"] = ids, result.distances
    if result.scores is not None:
        array["score"] = result.scores
    return array


def _describe(
    catalogue: Catalogue, query: SearchQuery, result: SearchResult, *, pauses: bool = False
) -> Response:
    info = {"catalogue": catalogue.name, "domain": query.domain, "n_bits": catalogue.n_bits}
    info["rank"] = "weights" if query.weighted else "hamming"
    known: dict[Attributes, str] = {}  # many hits share their attributes
    results = (_describe_query(catalogue, result, i, known) for i in range(len(result.ids)))
    return common.json_list_response(info, "results", _with_pauses(results) if pauses else results)


def _with_pauses(results: Iterator[str]) -> Iterator[str]:
    """Yield the results of a long search with pauses, in which other threads get the GIL."""
    for i, result in enumerate(results, 1):
        if i % _QUERIES_PER_PAUSE == 0:
            sleep(_PAUSE_SECONDS)
        yield result


def _describe_query(
    catalogue: Catalogue, result: SearchResult, i: int, known: dict[Attributes, str]
) -> str:
    """Return the JSON of one query and its hits.

    Written by hand: a dictionary per hit takes five times as long, and delays other requests.
    """
    domain, codes = catalogue.index_domain, result.codes[i].tobytes().hex()
    digits, hits = 2 * result.queries.shape[1], []
    columns = (each[i].tolist() for each in (result.ids, result.distances, result.attributes))
    scores = None if result.scores is None else result.scores[i].tolist()
    for j, (item, distance, attributes) in enumerate(zip(*columns, strict=True)):
        if attributes is None:
            break  # fewer than k items
        if attributes not in known:
            tags, own = json.dumps(attributes.tags), json.dumps(attributes.domain)
            known[attributes] = f'"tags":{tags},"domain":{own}'
        url = common.image_url(catalogue, domain, item)
        image = "null" if url is None else f'"{url}"'
        code = codes[j * digits : (j + 1) * digits]
        name = item if isinstance(item, int) else json.dumps(item)
        score = "" if scores is None else f'"score":{scores[j]:.9g},'
        hits.append(
            f'{{"id":{name},"distance":{distance},{score}{known[attributes]},"code":"{code}",'
            f'"image":{image}}}'
        )
    rejected = "null" if result.rejected is None else json.dumps(bool(result.rejected[i]))
    code = result.queries[i].tobytes().hex()
    return f'{{"code":"{code}","rejected":{rejected},"hits":[{",".join(hits)}]}}'
