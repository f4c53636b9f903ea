"""The FastAPI application: routes, error responses and the OpenAPI document."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic.json_schema import models_json_schema
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

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

    app = _Application(
        workers,
        title="bridgehash",
        version=__version__,
        docs_url=None,  # both pages of FastAPI load scripts from other sites
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
    )
    for router in (search.router, items.router, items.writing, info.router, site.router):
        app.include_router(router)
    app.add_middleware(Middleware, workers=workers)
    for kind in (RequestError, HTTPException, RequestValidationError):
        app.add_exception_handler(kind, _respond)
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign]
    return app


class _Application(FastAPI):
    """FastAPI, except that functions of `search.router` are called directly where possible.

    FastAPI takes longer to find such a function than the function takes. All of them are called by
    POST and take the request, the workers and the catalogue; all else are query parameters with
    defaults, so a request without any needs nothing more of FastAPI.
    """

    def __init__(self, workers: Workers, **settings: Any) -> None:
        super().__init__(**settings)
        self.state.workers = workers
        self._quick = Middleware(self._call, workers)
        self._found = {
            route.path.format(catalogue=name): (route, catalogue)
            for route in search.router.routes
            if isinstance(route, APIRoute)
            for name, catalogue in workers.catalogues.items()
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        known = scope.get("path") in self._found
        if known and scope.get("method") == "POST" and not scope["query_string"]:
            await self._quick(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)

    async def _call(self, scope: Scope, receive: Receive, send: Send) -> None:
        route, catalogue = self._found[scope["path"]]
        scope["app"], scope["route"] = self, route
        response = await route.endpoint(Request(scope, receive), self.state.workers, catalogue)
        await response(scope, receive, send)


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
