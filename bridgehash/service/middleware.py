"""Checks before every request (host, site, API key, length, time limit), and counters after it.

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
from .workers import Workers

log = logging.getLogger("bridgehash.service")

HELD = "bridgehash.held"  # where the scope keeps the memory that a request holds
_PUBLIC = ("/", "/health", "/ready", "/docs", "/openapi.json")  # they contain no data
_PUBLIC_FOLDER = "/page/"
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE")
_PART = 32 << 10  # bytes of an answer that are handed to the connection at a time
_MIN_RATE = 64 << 10  # bytes per second at which a client must read a large answer


class Middleware:
    """ASGI middleware around the whole application."""

    def __init__(self, app: ASGIApp, workers: Workers) -> None:
        self._app, self._workers = app, workers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange, started = _Exchange(receive, send, self._workers), perf_counter()
        scope[HELD] = exchange.held
        failure: RequestError | None = None
        try:
            async with exchange.time_limit:
                await _check_request(scope, self._workers)
                await self._app(scope, exchange.receive, exchange.send)
        except RequestError as error:
            failure = error
        except _NoRoom:
            failure = overloaded("the memory for answers is in use; retry later")
        except TimeoutError:
            failure = exchange.timeout_error()
        except Exception as error:
            log.error("%s %s", _route(scope), _describe(error))
            failure = RequestError(500, "internal error; see the log")
        finally:
            exchange.held.release()
        if failure is not None and exchange.status == 0:
            await failure.response()(scope, exchange.receive, exchange.send)
        method = scope["method"] if scope["method"] in _METHODS else "other"
        route, seconds = _route(scope), perf_counter() - started
        self._workers.metrics.observe_request(method, route, exchange.status, seconds)


async def _check_request(scope: Scope, workers: Workers) -> None:
    """Reject a request before its body is read."""
    headers, path, settings = Headers(scope=scope), scope["path"], workers.settings
    if settings.loopback and _host(headers) not in settings.hosts:  # prevents DNS rebinding
        raise RequestError(421, "not a name of this service; use its own address", "Host")
    if not (path in _PUBLIC or path.startswith(_PUBLIC_FOLDER)):
        if not settings.loopback:
            await check_key(scope, workers)
        elif (field := _foreign_header(headers)) and not settings.accepts(_key(headers)):
            raise RequestError(403, "a page of another site needs the API key", field)
    length, most = headers.get("content-length", "0"), settings.limits.body_bytes
    if not (length.isascii() and length.isdigit()):
        raise RequestError(400, "not a number", "Content-Length")
    if len(length) > 15 or int(length) > most:
        raise RequestError(413, f"more than {most} bytes", "body", {"Connection": "close"})


def _foreign_header(headers: Headers) -> str:
    """Return the header by which a browser says that another site sent the request, if any."""
    if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
        return "Sec-Fetch-Site"
    origin = headers.get("origin")
    if origin is not None and origin.lower() != f"http://{headers.get('host', '')}".lower():
        return "Origin"
    return ""


async def check_key(scope: Scope, workers: Workers) -> None:
    """Return 401 unless the API key is sent; slow down clients that guess it."""
    key = _key(Headers(scope=scope))
    if workers.settings.accepts(key):
        return
    if key:
        host, _ = scope.get("client") or ("", 0)
        await workers.guesses.slow_down(host)
    challenge = {"WWW-Authenticate": "Bearer"}
    raise RequestError(401, "send the API key as `Bearer KEY`", "Authorization", challenge)


async def check_write_access(scope: Scope, workers: Workers) -> None:
    """Return 401 unless the API key is sent, and 403 if the service has no key."""
    if not workers.settings.writable:
        raise RequestError(403, "read-only: the service was started without an API key")
    await check_key(scope, workers)


def _key(headers: Headers) -> str:
    scheme, _, given = headers.get("authorization", "").partition(" ")
    return given.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "")


class _NoRoom(Exception):
    """No memory for an answer. Not a `RequestError`: the application must not handle it."""


class _Exchange:
    """One request and its response: counts their bytes, and remembers the status."""

    def __init__(self, receive: Receive, send: Send, workers: Workers) -> None:
        self._receive, self._send = receive, send
        self._seconds = workers.settings.limits.seconds
        self.held = workers.memory.hold()
        self.time_limit = asyncio.timeout(self._seconds)
        self.status = 0  # until the response starts
        self._complete = False

    async def receive(self) -> Message:
        message = await self._receive()
        self._complete = not message.get("more_body", False)
        self.held.reserve(len(message.get("body", b"")))
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            self._begin_answer(int(headers.get("content-length", "0")))
            self.status = message["status"]
            headers["X-Content-Type-Options"] = "nosniff"
        elif len(body := message.get("body", b"")) > _PART:
            # The connection takes the next part when the client has read most of the last one.
            for start in range(0, len(body), _PART):
                part = {**message, "body": body[start : start + _PART], "more_body": True}
                await self._send(part)
            message = {**message, "body": b""}
        await self._send(message)

    def _begin_answer(self, n_bytes: int) -> None:
        """Reserve the memory of a large answer, and limit the time in which it must be read."""
        if n_bytes <= _PART:
            return
        try:
            self.held.reserve(n_bytes)
        except RequestError as error:
            raise _NoRoom from error
        now = asyncio.get_running_loop().time()
        self.time_limit.reschedule(now + self._seconds + n_bytes / _MIN_RATE)

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
