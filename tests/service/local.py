"""A client of the application in this process, without a socket."""

from __future__ import annotations

import asyncio
from functools import partialmethod
from typing import Any

import httpx
from fastapi import FastAPI


class LocalClient:
    """Send requests one after another. The event loop runs only during a request."""

    def __init__(self, app: FastAPI) -> None:
        self.app, self.workers = app, app.state.workers
        self._runner = asyncio.Runner()
        self.http = httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url="http://127.0.0.1"
        )

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        return self.run(self.http.request(method, path, **options))

    get = partialmethod(request, "GET")
    post = partialmethod(request, "POST")
    put = partialmethod(request, "PUT")
    delete = partialmethod(request, "DELETE")

    def run(self, work: Any) -> Any:
        """Return the result of a coroutine on the same loop."""
        return self._runner.run(work)

    def close(self) -> None:
        self.run(self.http.aclose())
        self.run(self.workers.stop())
        self._runner.close()
