"""What stands before every request: host, key, length, time; and behind it: counters, no secrets.

Written as plain ASGI, since it is passed by every request.
"""

from __future__ import annotations

import asyncio
import logging
import traceback
from time import perf_counter
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .errors import Refused, busy
from .workers import Desk

log = logging.getLogger("bridgehash.service")

_OPEN = ("/", "/health", "/ready", "/docs", "/openapi.json")  # nothing of the data is in them
_OPEN_FOLDER = "/page/"
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE")


class Guard:
    """Middleware around the whole application."""

    def __init__(self, app: ASGIApp, desk: Desk) -> None:
        self._app, self._desk = app, desk

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = _Exchange(receive, send, self._desk)
        started = perf_counter()
        try:
            self._check(scope)
            async with asyncio.timeout(self._desk.settings.limits.seconds):
                await self._app(scope, exchange.receive, exchange.send)
        except Refused as refused:
            await exchange.refuse(refused, scope)
        except TimeoutError:
            await exchange.refuse(exchange.too_late(), scope)
        except Exception as error:
            log.error("%s %s", _route(scope), _where(error))
            await exchange.refuse(Refused(500, "a fault of the service; its log tells more"), scope)
        finally:
            self._desk.held_bytes -= exchange.n_bytes
        seconds = perf_counter() - started
        method = scope["method"] if scope["method"] in _METHODS else "other"
        self._desk.metrics.answered(method, _route(scope), exchange.status, seconds)

    def _check(self, scope: Scope) -> None:
        """Refuse before anything is read."""
        headers, settings = Headers(scope=scope), self._desk.settings
        if settings.loopback and _host(headers) not in settings.hosts:  # a page that rebinds DNS
            raise Refused(421, "Host: this service answers to its own address only", "Host")
        path = scope["path"]
        if not (settings.loopback or path in _OPEN or path.startswith(_OPEN_FOLDER)):
            check_key(headers, self._desk)
        length, most = headers.get("content-length", "0"), settings.limits.body_bytes
        if not (length.isascii() and length.isdigit()):
            raise Refused(400, "Content-Length: not a number", "Content-Length")
        if len(length) > 15 or int(length) > most:
            close = {"Connection": "close"}
            raise Refused(413, f"body: more than {most} bytes", "body", close)


def check_key(headers: Headers, desk: Desk) -> None:
    """Refuse who does not have the key."""
    scheme, _, given = headers.get("authorization", "").partition(" ")
    key = given.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "")
    if not desk.settings.knows(key):
        sentence = "Authorization: give the key, as `Bearer KEY`"
        raise Refused(401, sentence, "Authorization", {"WWW-Authenticate": "Bearer"})


def check_writer(headers: Headers, desk: Desk) -> None:
    """Changes need the key wherever they come from."""
    if not desk.settings.writable:
        raise Refused(403, "this service was started without a key and is read-only")
    check_key(headers, desk)


class _Exchange:
    """One request: how much of it has come, and how much of the answer has gone."""

    def __init__(self, receive: Receive, send: Send, desk: Desk) -> None:
        self._receive, self._send, self._desk = receive, send, desk
        self.status = 0
        self.n_bytes = 0
        self._arrived = False

    async def receive(self) -> Message:
        message = await self._receive()
        self._arrived = not message.get("more_body", False)
        n = len(message.get("body", b""))
        self.n_bytes += n
        self._desk.held_bytes += n
        if self._desk.held_bytes > self._desk.settings.limits.held_bytes:
            raise busy("the bodies of other requests take all memory; try again in a moment")
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            MutableHeaders(scope=message)["X-Content-Type-Options"] = "nosniff"
        await self._send(message)

    def too_late(self) -> Refused:
        if not self._arrived:
            return Refused(408, "body: it did not arrive in time", "body", {"Connection": "close"})
        return busy("the service did not manage this in time; try again with less")

    async def refuse(self, refused: Refused, scope: Scope) -> None:
        if self.status == 0:
            await refused.response()(scope, self.receive, self.send)


def _host(headers: Headers) -> str:
    """The name in the Host header, without the port."""
    host = headers.get("host", "").lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _route(scope: Scope) -> str:
    """The route as it was declared: a path from outside is never a label or a log line."""
    route: Any = scope.get("route")
    return str(getattr(route, "path", "other"))


def _where(error: Exception) -> str:
    """Kind and place of a fault; its message may hold what a client has sent."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "nowhere"
    return f"failed with {type(error).__name__} at {place}"
