"""The web page. Its files are read at start, so no path of a request reaches the disk."""

from __future__ import annotations

import html
from importlib.resources import files
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from ..errors import RequestError

router = APIRouter(include_in_schema=False)

_TYPES = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
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
PAGE_FILES = {
    entry.name: entry.read_bytes()
    for entry in files("bridgehash.service").joinpath("page").iterdir()
    if entry.name.rpartition(".")[2] in _TYPES
}


@router.get("/")
async def index() -> Response:
    return await page_file("index.html")


@router.get("/page/{name}")
async def page_file(name: str) -> Response:
    if name not in PAGE_FILES:
        raise RequestError(404, "no such page")
    return Response(PAGE_FILES[name], 200, _HEADERS, _TYPES[name.rpartition(".")[2]])


@router.get("/docs")
async def docs(request: Request) -> Response:
    return Response(_address_table(request.app.openapi()), 200, _HEADERS, _TYPES["html"])


def _address_table(document: dict[str, Any]) -> str:
    """Return all addresses of the OpenAPI document as an HTML table."""
    rows = []
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            cells = (method.upper(), path, operation.get("description", ""))
            rows.append("".join(f"<td>{html.escape(cell)}</td>" for cell in cells))
    body = "".join(f"<tr>{row}</tr>\n" for row in rows)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>bridgehash: HTTP '
        'API</title><link rel="stylesheet" href="/page/plain.css"></head><body>\n'
        "<h1>HTTP API</h1>\n<p>OpenAPI document: <a href='/openapi.json'>/openapi.json</a></p>\n"
        f"<table>\n{body}</table>\n</body></html>\n"
    )
