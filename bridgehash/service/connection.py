"""One connection: a request's head must be short and come soon.

uvicorn bounds neither with this parser, so an endless or a very slow header would hold memory and a
place for ever.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_MOST_BYTES = 32 << 10
_SECONDS = 10.0


class Connection(HttpToolsProtocol):
    """uvicorn's protocol with a limit on heads."""

    _head_bytes = 0
    _in_head = True
    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._begin()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > _MOST_BYTES and not self.transport.is_closing():
                self.send_400_response("The head of the request is too long.")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if not self._in_head:
            self._begin()

    def on_headers_complete(self) -> None:
        self._end()
        super().on_headers_complete()

    def _begin(self) -> None:
        self._in_head, self._head_bytes = True, 0
        self._late = self.loop.call_later(_SECONDS, self.transport.close)

    def _end(self) -> None:
        self._in_head = False
        if self._late is not None:
            self._late.cancel()
            self._late = None
