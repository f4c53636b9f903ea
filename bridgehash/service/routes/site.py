"""The page, from memory: files are read at start, so no path of a request meets the disk."""

from __future__ import annotations

import html
from importlib.resources import files
from typing import Any, NamedTuple

from fastapi import APIRouter, Request
from starlette.responses import Response

from ..errors import Refused

_TYPES = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "png": "image/png",
    "svg": "image/svg+xml",
}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


class PageFile(NamedTuple):
    """A file of the page."""

    data: bytes
    media_type: str


def page_files() -> dict[str, PageFile]:
    """All files of the page by name."""
    found = {}
    for entry in files("bridgehash.service").joinpath("page").iterdir():
        suffix = entry.name.rpartition(".")[2]
        if suffix in _TYPES:
            found[entry.name] = PageFile(entry.read_bytes(), _TYPES[suffix])
    return found


def site_router(table: dict[str, PageFile]) -> APIRouter:
    """Routes of the page and of the list of addresses; no part of the documented interface."""
    router = APIRouter(include_in_schema=False)

    @router.get("/")
    async def index() -> Response:
        return _sent(table, "index.html")

    @router.get("/page/{name}")
    async def file(name: str) -> Response:
        return _sent(table, name)

    @router.get("/docs")
    async def docs(request: Request) -> Response:
        return Response(_listing(request.app.openapi()), 200, _HEADERS, _TYPES["html"])

    return router


def _sent(table: dict[str, PageFile], name: str) -> Response:
    if name not in table:
        raise Refused(404, "there is no such page")
    return Response(table[name].data, 200, _HEADERS, table[name].media_type)


def _listing(document: dict[str, Any]) -> str:
    """All addresses of the OpenAPI document in a plain table."""
    rows = []
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            cells = (method.upper(), path, operation.get("description", ""))
            rows.append("".join(f"<td>{html.escape(cell)}</td>" for cell in cells))
    body = "".join(f"<tr>{row}</tr>\n" for row in rows)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>bridgehash: '
        'addresses</title><link rel="stylesheet" href="/page/plain.css"></head><body>\n'
        "<h1>Addresses</h1>\n<p>In full: <a href='/openapi.json'>/openapi.json</a></p>\n"
        f"<table>\n{body}</table>\n</body></html>\n"
    )
