"""Open the socket, run uvicorn, and stop gracefully.

Connections are limited in number, and so is the time that each waits for its client: to send a
request, or to read an answer. If there are too many, the one that has waited longest is closed.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import socket
import sys
from collections import Counter
from collections.abc import Callable
from http import HTTPStatus
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI
from threadpoolctl import threadpool_limits
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from .._core.errors import InputError
from .clients import address_group
from .errors import PROBLEM_JSON, RequestError
from .settings import is_loopback

_RESERVED_FILES = 256  # for indexes, images, pipes and the like
_BACKLOG = 4_096  # connections that the system holds until they are accepted
_MAX_ACCEPTED = 2  # connections per turn of the event loop
_KEEP_ALIVE_SECONDS = 30
_MAX_HEAD_BYTES = 32 << 10
_HEAD_SECONDS = 10.0
_WRITE_SECONDS = 10.0  # in which a client must read something of its answer
_LINGER_SECONDS = 2.0  # in which a client can read an answer that closes the connection
_MAX_UNSENT = 32 << 10  # bytes; beyond, an answer waits for its client
_SLICE = 512  # bytes that are parsed before other connections have their turn
_BODY_SLICE = 64 << 10  # the same inside a body, where there is little to parse
_MAX_AT_ONCE = 8 << 10  # bytes of a few requests that are parsed at once
_FEW = 16
_WAKE_BYTES = 16 << 10  # of a body, that are handed to the application together
_ANSWER, _CONTINUE = b"HTTP/1.1 ", b"HTTP/1.1 100 "
_MAX_TRAILERS = 64
_MIN_CHUNK = 32  # bytes per chunk of a body, on average
_FREE_CHUNKS = 1_000
_COLLECT_AFTER = (2_000, 5, 200)  # a full collection visits every connection, so it is rare
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


def serve(
    app: FastAPI, listener: socket.socket, on_listening: Callable[[], object] | None = None
) -> None:
    """Serve until SIGINT or SIGTERM, then finish the running requests.

    `on_listening` is called once, when requests are answered.
    """
    limits = app.state.workers.settings.limits
    connections = _Connections(min(limits.connections, _max_files() - _RESERVED_FILES))
    config = uvicorn.Config(
        app,
        http=type(
            "Protocol",
            (_Protocol,),
            {"all_connections": connections, "body_seconds": limits.seconds},
        ),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=_BACKLOG,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=int(limits.seconds) + 1,
    )
    for name in ("uvicorn.error", "uvicorn.access"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # what clients do is not logged
    sys.setswitchinterval(_SWITCH_SECONDS)
    gc.collect()
    gc.freeze()  # else each full collection scans all modules while requests wait
    gc.set_threshold(*_COLLECT_AFTER)
    # The event loop accepts one connection per turn and socket; in a flood that is too slow.
    copies = [listener.dup() for _ in range(_MAX_ACCEPTED - 1)]
    with threadpool_limits(1):  # spinning BLAS threads would delay requests
        _Server(config, on_listening).run([listener, *copies])


class _Server(uvicorn.Server):
    def __init__(
        self, config: uvicorn.Config, on_listening: Callable[[], object] | None = None
    ) -> None:
        super().__init__(config)
        self._on_listening = on_listening

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started and self._on_listening is not None:
            self._on_listening()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop after the running requests; do not raise the signal again."""
        self.should_exit = True


def _max_files() -> int:
    """Raise the limit of open files as far as allowed, and return it."""
    if os.name != "posix":
        return 2_048
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != soft and hard != resource.RLIM_INFINITY:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    return 1 << 20 if soft == resource.RLIM_INFINITY else soft


class _Connections:
    """All connections, and which of them wait for their client, longest first.

    Connections that never completed a request are closed before others. One address may have half
    of all connections; loopback, which may be a proxy, may have all.
    """

    def __init__(self, most: int) -> None:
        self.most = max(1, most)
        self._waiting: tuple[dict[_Protocol, None], dict[_Protocol, None]] = ({}, {})
        self._per_address: Counter[str] = Counter()
        self._n = 0

    def add(self, connection: _Protocol) -> bool:
        """Count a connection; return whether there is room for it."""
        address = connection.address
        shared = is_loopback(address)
        if not shared and self._per_address[address] >= max(1, self.most // 2):
            room = self._close_one(address)
        else:
            room = self._n < self.most or self._close_one(None)
        self._n += 1
        self._per_address[address] += 1
        return room

    def remove(self, connection: _Protocol) -> None:
        """Forget a connection."""
        self.set_waiting(connection, False)
        self._n -= 1
        self._per_address[connection.address] -= 1
        if not self._per_address[connection.address]:
            del self._per_address[connection.address]

    def set_waiting(self, connection: _Protocol, waiting: bool) -> None:
        """Note whether a connection waits for its client."""
        fresh, used = self._waiting
        fresh.pop(connection, None)
        used.pop(connection, None)
        if waiting:
            (used if connection.answered else fresh)[connection] = None

    def _close_one(self, address: str | None) -> bool:
        """Close the connection, of an address if given, that has waited longest."""
        for waiting in self._waiting:
            for connection in waiting:
                if address is None or connection.address == address:
                    del waiting[connection]
                    connection.give_up()
                    return True
        return False


class _Transport:
    """A transport that tells the protocol when uvicorn wants to close it or to read on.

    The head of an answer waits for the body: each write is a system call and a packet.
    """

    def __init__(self, transport: asyncio.Transport, protocol: _Protocol) -> None:
        self._transport = transport
        self._protocol: _Protocol | None = protocol
        self._head = b""
        self.get_extra_info = transport.get_extra_info
        self.pause_reading = transport.pause_reading

    def write(self, data: bytes) -> None:
        if not self._head and data.startswith(_ANSWER) and not data.startswith(_CONTINUE):
            self._head = data
            return
        data, self._head = self._head + data, b""
        if not self._transport.is_closing():  # a pipelined request may not know
            self._transport.write(data)

    def flush(self) -> None:
        """Send a head that no body follows."""
        if self._head:
            self.write(b"")

    def drop_head(self) -> None:
        """Forget a head that was not sent."""
        self._head = b""

    def close(self) -> None:
        if self._protocol is not None:
            self._protocol.linger()

    def is_closing(self) -> bool:
        return self._protocol is None or self._protocol.lingering or self._transport.is_closing()

    def resume_reading(self) -> None:
        if self._protocol is not None:
            self._protocol.read_on()

    def detach(self) -> None:
        """Forget the protocol of a closed connection, so that both are freed without the GC."""
        self._protocol = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class _Protocol(HttpToolsProtocol):
    """Limit the size of a request head, and the time that clients may take; uvicorn does not."""

    all_connections: _Connections  # set by `serve`
    body_seconds: float
    address = ""
    answered = False  # at least one request
    lingering = False
    _raw: asyncio.Transport
    _wrapper: _Transport
    _head_bytes = 0
    _in_head = True
    _n_trailers = 0
    _n_chunks = 0
    _body_bytes = 0
    _held = memoryview(b"")  # data that waits to be parsed
    _body_left = 0  # bytes, if the request says how many
    _deferred: tuple[Any, Any] | None = None  # a request that waits for its body
    _timer: asyncio.TimerHandle | None = None
    _write_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        self._raw = transport
        transport.set_write_buffer_limits(high=_MAX_UNSENT)
        self._wrapper = _Transport(transport, self)
        super().connection_made(self._wrapper)  # type: ignore[arg-type]
        self.address = address_group(self.client[0] if self.client else "")
        if self.all_connections.add(self):
            self.all_connections.set_waiting(self, True)
            self._begin_head()
        else:
            self._refuse(RequestError(503, "too many connections; retry later"))

    def connection_lost(self, exc: Exception | None) -> None:
        self.lingering, self._held = True, memoryview(b"")
        never_started = self._deferred is not None
        self._end_head()
        self._end_write_timer()
        self.all_connections.remove(self)
        super().connection_lost(exc)
        self._wrapper.detach()
        if never_started:
            self.cycle = None  # type: ignore[assignment]  # it refers to this connection

    def data_received(self, data: bytes) -> None:
        if self.lingering:
            return
        few = len(data) <= _MAX_AT_ONCE and data.count(b" HTTP/1.") <= _FEW
        if few and not self._held:
            self._parse(data)
            return
        if not self._held:
            self.loop.call_soon(self._parse_slice)
        self._held = memoryview(bytes(self._held) + data if self._held else data)
        self._raw.pause_reading()

    def _parse_slice(self) -> None:
        """Parse some of the data that was held back, unless earlier requests wait."""
        if self.lingering or self.flow.read_paused or self.pipeline:
            return
        n = max(_SLICE, min(self._body_left, _BODY_SLICE))
        part, self._held = self._held[:n], self._held[n:]
        self._parse(part)
        self.read_on()

    def read_on(self) -> None:
        """Continue with the data that was held back, else with that of the client."""
        if self.pipeline:
            return
        if self._held:
            self.loop.call_soon(self._parse_slice)
        elif not self.lingering and not self.flow.read_paused:
            self._raw.resume_reading()

    def _parse(self, data: bytes | memoryview) -> None:
        super().data_received(data)  # type: ignore[arg-type]  # the parser takes both
        if self._in_head and not self.lingering:
            self._head_bytes += len(data)
            if self._head_bytes > _MAX_HEAD_BYTES:
                problem = f"the request head has more than {_MAX_HEAD_BYTES} bytes; send less"
                self._refuse(RequestError(431, problem))

    def on_message_begin(self) -> None:
        self._stop_if_lingering()
        super().on_message_begin()
        self._n_trailers, self._n_chunks, self._body_bytes = 0, 0, 0
        if not self._in_head:
            self._begin_head()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:
            super().on_header(name, value)
            return
        self._n_trailers += 1  # they are read and ignored
        if self._n_trailers > _MAX_TRAILERS:
            self._refuse(RequestError(431, f"more than {_MAX_TRAILERS} trailers; send none"))
        self._stop_if_lingering()

    def on_headers_complete(self) -> None:
        self._end_head()
        lengths = [value for name, value in self.headers if name == b"content-length"]
        self._body_left = int(lengths[0]) if lengths else 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._n_chunks += 1
        self._body_bytes += len(body)
        self._body_left -= len(body)
        if self._n_chunks > _FREE_CHUNKS + self._body_bytes // _MIN_CHUNK:
            self._refuse(RequestError(400, "the body is sent in too small chunks", "body"))
        self._stop_if_lingering()
        if self.cycle.response_complete:
            return
        self.cycle.body += body
        if len(self.cycle.body) > _WAKE_BYTES:  # a few bytes are not worth the time
            self._start_deferred()
            self.cycle.message_event.set()
        if len(self.cycle.body) > HIGH_WATER_LIMIT:
            self.flow.pause_reading()

    def on_message_complete(self) -> None:
        self.all_connections.set_waiting(self, False)
        super().on_message_complete()
        self._start_deferred()

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        """Start a request when its body is here, or much of it: waiting ones cost little then."""
        if cycle.more_body and not cycle.waiting_for_100_continue:
            self._deferred = cycle, app
            late = RequestError(408, "did not arrive in time", "body")
            self._timer = self.loop.call_later(self.body_seconds, self._refuse, late)
        else:
            super()._start_asgi_task(cycle, app)

    def _start_deferred(self) -> None:
        if self._deferred is not None:
            cycle, app = self._deferred
            self._end_head()
            super()._start_asgi_task(cycle, app)

    def shutdown(self) -> None:
        super().shutdown()
        if self._deferred is not None and self._timer is not None:  # a moment for its body
            self._timer.cancel()
            stopping = RequestError(503, "the service is stopping")
            self._timer = self.loop.call_later(_LINGER_SECONDS, self._refuse, stopping)

    def on_response_complete(self) -> None:
        self._wrapper.flush()
        self.answered = True
        if not self.pipeline and self.cycle.more_body:  # the rest of a body that nobody wants
            self.linger()
        super().on_response_complete()
        if not self.lingering:
            self.read_on()
            if self.cycle.response_complete:
                self.all_connections.set_waiting(self, True)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._write_timer = self.loop.call_later(_WRITE_SECONDS, self._raw.abort)
        self.all_connections.set_waiting(self, True)

    def resume_writing(self) -> None:
        self._end_write_timer()
        if self.cycle is not None and not self.cycle.response_complete:
            self.all_connections.set_waiting(self, False)
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        self._refuse(RequestError(400, msg))

    def give_up(self) -> None:
        """Close a connection to make room for another."""
        if self._raw.get_write_buffer_size():
            self._raw.abort()
        else:
            self._raw.close()

    def linger(self) -> None:
        """Close the connection, but not before the client could read the answer.

        A socket that is closed with unread data is reset, and the answer may be lost. So what the
        client still sends is read and thrown away for a moment.
        """
        if self.lingering:
            return
        self._wrapper.flush()
        unread = self._in_head or self._held or self.flow.read_paused
        was_quiet = not unread and self.cycle is not None and not self.cycle.more_body
        self.lingering, self._held = True, memoryview(b"")
        self._end_head()
        if was_quiet or self._raw.is_closing():
            self._raw.close()
            seconds = _WRITE_SECONDS
        else:
            self._raw.resume_reading()
            self._raw.write_eof()
            seconds = _LINGER_SECONDS
        if not was_quiet or self._raw.get_write_buffer_size():
            self.loop.call_later(seconds, self._raw.abort)

    def _refuse(self, error: RequestError) -> None:
        """Send an error that no application sees, and close the connection."""
        if self.lingering:
            return
        body = bytes(error.response().body)
        status = HTTPStatus(error.status)
        head = f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-type: {PROBLEM_JSON}\r\n"
        head += f"content-length: {len(body)}\r\nconnection: close\r\n"
        head += "retry-after: 1\r\n\r\n" if error.status == 503 else "\r\n"
        self._wrapper.drop_head()
        self._raw.write(head.encode("ascii") + body)
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True  # its answer would follow this one
            self.cycle.message_event.set()
            self.cycle.more_body = True
        self.linger()

    def _stop_if_lingering(self) -> None:
        if self.lingering:
            raise ConnectionAbortedError  # ends the parser, which has no other way

    def _begin_head(self) -> None:
        self._in_head, self._head_bytes = True, 0
        self._timer = self.loop.call_later(_HEAD_SECONDS, self._raw.abort)

    def _end_head(self) -> None:
        self._in_head, self._deferred = False, None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _end_write_timer(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None
