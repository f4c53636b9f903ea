"""A client of the application in this process, without a socket."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
from fastapi import FastAPI


class LocalClient:
    """Requests one after the other, on an event loop that stands still in between."""

    def __init__(self, app: FastAPI) -> None:
        self.app = app
        self._runner = asyncio.Runner()
        self._client = httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url="http://127.0.0.1"
        )

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        return self._runner.run(self._client.request(method, path, **options))

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.request("GET", path, **options)

    def post(self, path: str, **options: Any) -> httpx.Response:
        return self.request("POST", path, **options)

    def run(self, work: Any) -> Any:
        """The outcome of a coroutine on the same loop."""
        return self._runner.run(work)

    def close(self) -> None:
        self.run(self._client.aclose())
        self.run(self.app.state.desk.stop())
        self._runner.close()
