"""Open the socket, run uvicorn, and stop gracefully."""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
import sys
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI
from threadpoolctl import threadpool_limits
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from .._core.errors import InputError

_MAX_CONNECTIONS = 1_000
_KEEP_ALIVE_SECONDS = 30
_MAX_HEAD_BYTES = 32 << 10
_HEAD_SECONDS = 10.0
_SWITCH_SECONDS = 0.001  # how long a computing thread may delay the event loop


def listen(host: str, port: int) -> socket.socket:
    """Return a socket bound to an address; port 0 chooses a free port."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
        except BaseException:
            listener.close()
            raise
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(
            f"cannot listen there ({reason}); choose another", f"--host {host} --port {port}"
        ) from error
    return listener


def address_of(listener: socket.socket) -> str:
    """Return the URL of a listening socket."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def serve(app: FastAPI, listener: socket.socket) -> None:
    """Serve until SIGINT or SIGTERM, then finish the running requests."""
    config = uvicorn.Config(
        app,
        http=_Protocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=_MAX_CONNECTIONS,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=int(app.state.workers.settings.limits.seconds) + 1,
    )
    for name in ("uvicorn.error", "uvicorn.access"):
        logging.getLogger(name).setLevel(logging.ERROR)
    sys.setswitchinterval(_SWITCH_SECONDS)
    gc.collect()
    gc.freeze()  # else each full collection scans all modules while requests wait
    with threadpool_limits(1):  # spinning BLAS threads would delay requests
        _Server(config).run([listener])


class _Server(uvicorn.Server):
    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop after the running requests; do not raise the signal again."""
        self.should_exit = True


class _Protocol(HttpToolsProtocol):
    """Limit the size of a request head and the time it may take; uvicorn limits neither."""

    _head_bytes = 0
    _in_head = True
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._begin_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_head()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > _MAX_HEAD_BYTES and not self.transport.is_closing():
                self.send_400_response("Request head too long.")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if not self._in_head:
            self._begin_head()

    def on_headers_complete(self) -> None:
        self._end_head()
        super().on_headers_complete()

    def _begin_head(self) -> None:
        self._in_head, self._head_bytes = True, 0
        self._timer = self.loop.call_later(_HEAD_SECONDS, self.transport.close)

    def _end_head(self) -> None:
        self._in_head = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
