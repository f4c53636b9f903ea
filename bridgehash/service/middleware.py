"""Checks before every request (host, API key, length, time limit), and counters after it.

Written as plain ASGI for speed. Neither the log nor the counters contain text from a client.
"""

from __future__ import annotations

import asyncio
import logging
import traceback
from time import perf_counter

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .errors import RequestError, overloaded
from .settings import ServiceSettings
from .workers import Workers

log = logging.getLogger("bridgehash.service")

_PUBLIC = ("/", "/health", "/ready", "/docs", "/openapi.json")  # they contain no data
_PUBLIC_FOLDER = "/page/"
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE")


class Middleware:
    """ASGI middleware around the whole application."""

    def __init__(self, app: ASGIApp, workers: Workers) -> None:
        self._app, self._workers = app, workers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange, started = _Exchange(receive, send, self._workers), perf_counter()
        failure: RequestError | None = None
        try:
            _check_request(scope, self._workers.settings)
            async with asyncio.timeout(self._workers.settings.limits.seconds):
                await self._app(scope, exchange.receive, exchange.send)
        except RequestError as error:
            failure = error
        except TimeoutError:
            failure = exchange.timeout_error()
        except Exception as error:
            log.error("%s %s", _route(scope), _describe(error))
            failure = RequestError(500, "internal error; see the log")
        finally:
            self._workers.body_bytes -= exchange.n_bytes
        if failure is not None and exchange.status == 0:
            await failure.response()(scope, exchange.receive, exchange.send)
        method = scope["method"] if scope["method"] in _METHODS else "other"
        route, seconds = _route(scope), perf_counter() - started
        self._workers.metrics.observe_request(method, route, exchange.status, seconds)


def _check_request(scope: Scope, settings: ServiceSettings) -> None:
    """Reject a request before its body is read."""
    headers, path = Headers(scope=scope), scope["path"]
    if settings.loopback and _host(headers) not in settings.hosts:  # prevents DNS rebinding
        raise RequestError(421, "not a name of this service; use its own address", "Host")
    if not (settings.loopback or path in _PUBLIC or path.startswith(_PUBLIC_FOLDER)):
        check_key(headers, settings)
    length, most = headers.get("content-length", "0"), settings.limits.body_bytes
    if not (length.isascii() and length.isdigit()):
        raise RequestError(400, "not a number", "Content-Length")
    if len(length) > 15 or int(length) > most:
        raise RequestError(413, f"more than {most} bytes", "body", {"Connection": "close"})


def check_key(headers: Headers, settings: ServiceSettings) -> None:
    """Return 401 unless the API key is sent."""
    scheme, _, given = headers.get("authorization", "").partition(" ")
    key = given.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "")
    if not settings.accepts(key):
        challenge = {"WWW-Authenticate": "Bearer"}
        raise RequestError(401, "send the API key as `Bearer KEY`", "Authorization", challenge)


def check_write_access(headers: Headers, settings: ServiceSettings) -> None:
    """Return 401 unless the API key is sent, and 403 if the service has no key."""
    if not settings.writable:
        raise RequestError(403, "read-only: the service was started without an API key")
    check_key(headers, settings)


class _Exchange:
    """One request and its response: counts the body, and remembers the status."""

    def __init__(self, receive: Receive, send: Send, workers: Workers) -> None:
        self._receive, self._send, self._workers = receive, send, workers
        self.status = 0  # until the response starts
        self.n_bytes = 0
        self._complete = False

    async def receive(self) -> Message:
        message = await self._receive()
        self._complete = not message.get("more_body", False)
        n = len(message.get("body", b""))
        self.n_bytes += n
        self._workers.body_bytes += n
        if self._workers.body_bytes > self._workers.settings.limits.total_body_bytes:
            raise overloaded("overloaded; retry later")
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            MutableHeaders(scope=message)["X-Content-Type-Options"] = "nosniff"
        await self._send(message)

    def timeout_error(self) -> RequestError:
        if not self._complete:
            close = {"Connection": "close"}
            return RequestError(408, "did not arrive in time", "body", close)
        return overloaded("the request took too long; retry with fewer rows")


def _host(headers: Headers) -> str:
    """Return the Host header without the port."""
    host = headers.get("host", "").lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _route(scope: Scope) -> str:
    """Return the path as it is declared, never the path of a request."""
    return str(getattr(scope.get("route"), "path", "other"))


def _describe(error: Exception) -> str:
    """Return the type and place of an error, without its message, which may contain user data."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "unknown"
    return f"failed with {type(error).__name__} at {place}"
