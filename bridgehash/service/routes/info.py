"""What is served, how well it retrieves, and whether all is well."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from ..catalogue import Catalogue
from ..errors import Refused
from ..metrics import CONTENT_TYPE
from ..schemas import Facts, FactsList, Figures, State
from ..workers import Desk
from .common import PREFIX, Name, desk_of, json_answer, refusals

router = APIRouter(tags=["facts"])

_TAGS = 100  # names listed


@router.get("/v1/catalogues", response_model=FactsList, responses=refusals())
async def list_catalogues(request: Request) -> Response:
    """All catalogues, and the limits of a request."""
    desk = desk_of(request)
    facts = [await desk.aside(_facts, desk, each) for each in desk.catalogues.values()]
    return json_answer({"catalogues": facts, "limits": asdict(desk.settings.limits)})


@router.get(PREFIX, response_model=Facts, responses=refusals(404, 422))
async def show_catalogue(request: Request, catalogue: Name) -> Response:
    """One catalogue."""
    desk = desk_of(request)
    return json_answer(await desk.aside(_facts, desk, desk.catalogue(catalogue)))


@router.get(PREFIX + "/figures", response_model=Figures, responses=refusals(404, 422))
async def show_figures(request: Request, catalogue: Name) -> Response:
    """Precision and recall by Hamming radius, and scores, with tags as classes.

    Queries are those of the other domain if they are loaded, else the items themselves; at most
    1,000.
    """
    desk = desk_of(request)
    return json_answer(await desk.figures(desk.catalogue(catalogue)))


@router.get("/health", response_model=State, responses=refusals())
async def health() -> Response:
    """The process answers."""
    return json_answer({"status": "alive"})


@router.get("/ready", response_model=State, responses=refusals())
async def ready(request: Request) -> Response:
    """Everything is open, and what is added can be kept."""
    desk = desk_of(request)
    if desk.stopping:
        raise Refused(503, "the service is stopping")
    for catalogue in desk.catalogues.values():
        if catalogue.store.problem:
            raise Refused(503, catalogue.store.problem)
    return json_answer({"status": "ready"})


@router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}, **refusals()},
)
async def metrics(request: Request) -> Response:
    """Counters for Prometheus."""
    desk = desk_of(request)
    text = await desk.aside(desk.metrics.text)
    return Response(text, headers={"Content-Type": CONTENT_TYPE})


def _facts(desk: Desk, catalogue: Catalogue) -> dict[str, Any]:
    return {
        "name": catalogue.name,
        "method": catalogue.method,
        "n_bits": catalogue.n_bits,
        "index_domain": catalogue.index_domain,
        "query_domain": catalogue.query_domain,
        "domains": {
            domain: {
                "features": side.encoder.n_features_in_,
                "items": None if side.store is None else len(side.store.index),
                "pictures": len(side.pictures),
                "tags": [] if side.store is None else sorted(side.store.index.tags)[:_TAGS],
                "searched": domain == catalogue.index_domain,
                "backbone": None if side.reader is None else side.reader.name,
            }
            for domain, side in catalogue.sides.items()
        },
        "writable": desk.settings.writable,
    }
