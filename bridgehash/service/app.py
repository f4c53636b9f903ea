"""The FastAPI application: routes, error responses and the OpenAPI document."""

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
from .errors import ProblemDetails, RequestError, validation_error
from .middleware import Middleware
from .routes import info, items, search, site
from .schemas import AddRequest, EncodeRequest, RemoveRequest, SearchRequest, UpsertRequest
from .settings import ServiceSettings
from .workers import Workers

# Schemas of bodies that routes read and write themselves.
_REQUESTS = (EncodeRequest, SearchRequest, AddRequest, UpsertRequest, RemoveRequest)


def create_app(catalogues: Mapping[str, Catalogue], settings: ServiceSettings) -> FastAPI:
    """Build the application. Its catalogues stay open when it stops."""
    workers = Workers(catalogues, settings)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        workers.sandbox.start()
        yield
        await workers.stop()

    app = FastAPI(
        title="bridgehash",
        version=__version__,
        docs_url=None,  # both pages of FastAPI load scripts from other sites
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
    )
    app.state.workers = workers
    for router in (search.router, items.router, items.writing, info.router, site.router):
        app.include_router(router)
    app.add_middleware(Middleware, workers=workers)
    for kind in (RequestError, HTTPException, RequestValidationError):
        app.add_exception_handler(kind, _respond)
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign]
    return app


async def _respond(request: Request, error: Exception) -> Response:
    if isinstance(error, RequestValidationError):
        error = validation_error(error.errors())
    elif isinstance(error, HTTPException):
        known = {404: "no such address; see /docs"}
        problem = known.get(error.status_code, str(error.detail))
        error = RequestError(error.status_code, problem, headers=dict(error.headers or {}))
    assert isinstance(error, RequestError)
    return error.response()


def _openapi(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document, with the schemas that FastAPI does not see."""
    if app.openapi_schema is None:
        document = get_openapi(title=app.title, version=app.version, routes=app.routes)
        _, schemas = models_json_schema(
            [(schema, "validation") for schema in (*_REQUESTS, ProblemDetails)],
            ref_template="#/components/schemas/{model}",
        )
        components = document["components"]
        components["schemas"].update(schemas["$defs"])
        components["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        app.openapi_schema = document
    return app.openapi_schema
