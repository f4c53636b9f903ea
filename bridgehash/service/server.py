"""Listen, serve, and stop in good order."""

from __future__ import annotations

import gc
import logging
import socket
import sys
from types import FrameType

import uvicorn
from fastapi import FastAPI
from threadpoolctl import threadpool_limits

from .connection import Connection

_CONNECTIONS = 1_000
_IDLE_SECONDS = 30
_SWITCH = 0.001  # seconds until a thread that computes lets the one that answers go on


class _Server(uvicorn.Server):
    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop after what is running; the signal is not raised again afterwards."""
        self.should_exit = True


def listen(host: str, port: int) -> socket.socket:
    """A socket at an address; port 0 takes a free one."""
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
        raise ValueError(f"--host {host} --port {port}: cannot be used ({reason})") from error
    return listener


def address_of(listener: socket.socket) -> str:
    """What a browser would be given."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def serve(app: FastAPI, listener: socket.socket) -> None:
    """Answer requests until SIGINT or SIGTERM; those that are running are finished first."""
    seconds = app.state.desk.settings.limits.seconds
    config = uvicorn.Config(
        app,
        http=Connection,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=_CONNECTIONS,
        timeout_keep_alive=_IDLE_SECONDS,
        timeout_graceful_shutdown=int(seconds) + 1,
    )
    for name in ("uvicorn.error", "uvicorn.access"):
        logging.getLogger(name).setLevel(logging.ERROR)
    sys.setswitchinterval(_SWITCH)
    gc.collect()
    gc.freeze()  # else the collector goes through all modules again and again while requests wait
    with threadpool_limits(1):  # threads of linear algebra that spin would keep requests waiting
        _Server(config).run([listener])
