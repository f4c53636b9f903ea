"""The application: routes, refusals and the document that describes them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema
from starlette.exceptions import HTTPException
from starlette.responses import Response

from .._version import __version__
from .catalogue import Catalogue
from .errors import Refused, first_problem, problem
from .middleware import Guard
from .routes import info as facts
from .routes import items
from .routes import search as searching
from .routes.site import page_files, site_router
from .schemas import AddForm, EncodeForm, RemoveForm, SearchForm
from .settings import Settings
from .workers import Desk

_FORMS = (EncodeForm, SearchForm, AddForm, RemoveForm)
_SENTENCES = {404: "there is no such address; /docs lists them"}


def create_app(catalogues: Mapping[str, Catalogue], settings: Settings) -> FastAPI:
    """The service for these catalogues, which stay open when it ends."""
    desk = Desk(catalogues, settings)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        await desk.stop()

    app = FastAPI(
        title="bridgehash",
        version=__version__,
        docs_url=None,  # both of FastAPI's pages load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
    )
    app.state.desk = desk
    for router in (searching.router, items.router, facts.router, site_router(page_files())):
        app.include_router(router)
    app.add_middleware(Guard, desk=desk)
    app.add_exception_handler(Refused, _refused)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.openapi = lambda: _document(app)  # type: ignore[method-assign]
    return app


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    return error.response()


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    sentence = _SENTENCES.get(error.status_code, str(error.detail))
    return problem(error.status_code, sentence, headers=dict(error.headers or {}))


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return problem(422, *first_problem(error.errors()))


def _document(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document, with the forms of bodies that routes read themselves."""
    if app.openapi_schema is None:
        document = get_openapi(title=app.title, version=app.version, routes=app.routes)
        template = "#/components/schemas/{model}"
        _, forms = models_json_schema([(f, "validation") for f in _FORMS], ref_template=template)
        parts = document["components"]
        parts["schemas"].update(forms["$defs"])
        parts["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        app.openapi_schema = document
    return app.openapi_schema
