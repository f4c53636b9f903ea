"""Routes for catalogues, scores, health and metrics."""

from __future__ import annotations

from dataclasses import asdict
from heapq import nsmallest
from typing import Any

from fastapi import APIRouter
from prometheus_client import generate_latest
from starlette.responses import Response

from ..catalogue import Catalogue
from ..errors import RequestError
from ..schemas import CatalogueInfo, CatalogueList, CatalogueScores, Health, Readiness
from .common import PREFIX, AppWorkers, NamedCatalogue, errors, json_response

router = APIRouter(tags=["info"])

_MAX_TAGS = 100


@router.get("/v1/catalogues", response_model=CatalogueList, responses=errors())
async def list_catalogues(workers: AppWorkers) -> Response:
    """List all catalogues and the limits of a request."""
    writable = workers.settings.writable
    catalogues = [
        await workers.run_in_thread(_describe, each, writable)
        for each in workers.catalogues.values()
    ]
    return json_response({"catalogues": catalogues, "limits": asdict(workers.settings.limits)})


@router.get(PREFIX, response_model=CatalogueInfo, responses=errors(404, 422))
async def show_catalogue(workers: AppWorkers, catalogue: NamedCatalogue) -> Response:
    """Describe one catalogue."""
    writable = workers.settings.writable
    return json_response(await workers.run_in_thread(_describe, catalogue, writable))


@router.get(PREFIX + "/scores", response_model=CatalogueScores, responses=errors(404, 422))
async def show_scores(workers: AppWorkers, catalogue: NamedCatalogue) -> Response:
    """Measure precision and recall by Hamming radius; items with equal tags are of one class.

    The queries are at most 1,000 items of the query domain, or of the index if no queries are
    loaded.
    """
    return json_response(await workers.scores(catalogue))


@router.get("/health", response_model=Health, responses=errors())
async def health() -> Response:
    """Report that the process is running."""
    return json_response({"status": "alive"})


@router.get("/ready", response_model=Readiness, responses=errors())
async def ready(workers: AppWorkers) -> Response:
    """Report that all catalogues are open and changes can be written.

    `warnings` lists acknowledged changes that a damaged journal has lost.
    """
    if workers.stopping:
        raise RequestError(503, "the service is stopping")
    stores = [catalogue.store for catalogue in workers.catalogues.values()]
    for store in stores:
        if problem := await workers.run_in_thread(store.problem):
            raise RequestError(503, problem)
    warnings = [store.warning for store in stores if store.warning]
    return json_response({"status": "ready", "warnings": warnings})


@router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}, **errors()},
)
async def metrics(workers: AppWorkers) -> Response:
    """Return counters for Prometheus."""
    text = await workers.run_in_thread(generate_latest, workers.metrics.registry)
    return Response(text, headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})


def _describe(catalogue: Catalogue, writable: bool) -> dict[str, Any]:
    return {
        "name": catalogue.name,
        "method": catalogue.method,
        "n_bits": catalogue.n_bits,
        "index_domain": catalogue.index_domain,
        "query_domain": catalogue.query_domain,
        "domains": {
            name: {
                "n_features": domain.encoder.n_features_in_,
                "n_items": None if domain.store is None else len(domain.store.index),
                "n_images": len(domain.images),
                "tags": []
                if domain.store is None
                else nsmallest(_MAX_TAGS, domain.store.index.tags),
                "backbone": None if domain.reader is None else domain.reader.name,
            }
            for name, domain in catalogue.domains.items()
        },
        "ids": catalogue.store.index.id_kind,
        "items_per_domain": catalogue.store.index.domains,
        "writable": writable,
    }
