"""Calls to Milvus that survive a dropped connection."""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import RLock
from typing import Any, TypeVar
from urllib.parse import urlsplit

from .base import Address, Dropped, EngineError, connect_first, parsed, retried

T = TypeVar("T")
_PORT = 19530
_TIMEOUT = 10  # seconds for a connection
_AWAY = 2  # codes of the server: not there, or not up yet
_BUSY = 8  # asked too fast


class Session:
    """One client, made again when its connection drops; threads take turns."""

    def __init__(self, url: str) -> None:
        address = parsed(url)
        self.place = address.shown
        self._settings = _settings(address)
        self._driver = _driver()
        self._failures = _failures()
        self._lock = RLock()
        self._client: Any = None
        connect_first(self._connected, self.place)

    def call(self, work: Callable[[Any], T]) -> T:
        """The outcome of `work(client)`, which may be done more than once."""

        def attempt() -> T:
            client = self._connected()
            try:
                return work(client)
            except self._failures as error:
                code = getattr(error, "code", None)
                code = code if isinstance(code, int) else None  # gRPC has codes of its own
                if code is None or code == _AWAY:
                    self.close()
                elif code != _BUSY and "not ready" not in _reason(error):
                    raise EngineError(f"{self.place}: {_reason(error)}") from error
                raise Dropped(_reason(error)) from error

        with self._lock:
            return retried(attempt, self.place)

    def close(self) -> None:
        """End the connection."""
        with self._lock:
            if self._client is not None:
                self._client.close()
                self._client = None

    def _connected(self) -> Any:
        if self._client is None:
            try:
                self._client = self._driver.MilvusClient(
                    **self._settings, timeout=_TIMEOUT, dedicated=True
                )
            except self._failures as error:
                raise Dropped(_reason(error)) from error
        return self._client


def _driver() -> Any:
    try:
        import pymilvus
    except ImportError as error:
        raise EngineError("Milvus needs pymilvus; pip install 'bridgehash[milvus]'") from error
    for name in ("pymilvus", "pymilvus.milvus_client"):  # what it logs is raised as well
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return pymilvus


def _failures() -> tuple[type[Exception], ...]:
    """What the driver raises, or lets through."""
    import grpc
    import pymilvus

    return pymilvus.MilvusException, grpc.RpcError


def _settings(address: Address) -> dict[str, str]:
    """What the client is made with."""
    try:
        parts = urlsplit(f"//{address.host}")
        host, port = parts.hostname or "localhost", parts.port or _PORT
    except ValueError as error:
        raise EngineError(f"{address.shown}: the port is no number") from error
    secure = address.options.get("secure", "").lower() in ("1", "true", "yes")
    return {
        "uri": f"{'https' if secure else 'http'}://{host}:{port}",
        "user": address.user,
        "password": address.password,
        "db_name": address.database,
    }


def _reason(error: Any) -> str:
    """The first line of what the server or the driver says."""
    text = getattr(error, "message", "") or getattr(error, "details", str)() or ""
    return (str(text).strip() or type(error).__name__).splitlines()[0]
