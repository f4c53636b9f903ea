"""Transactions with PostgreSQL that survive a dropped connection.

A commit whose answer is lost leaves it open whether it took place. So every transaction that
writes asks for its own number first, and after a new connection the server tells what became of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Any, TypeVar

from .base import Dropped, EngineError, connect_first, parsed, retried

try:
    import psycopg
    from psycopg import errors as errors
    from psycopg import sql as sql
    from psycopg.conninfo import conninfo_to_dict
except ImportError as error:
    raise ImportError("PostgreSQL needs psycopg; pip install 'bridgehash[postgres]'") from error

T = TypeVar("T")
Connection = psycopg.Connection[tuple[Any, ...]]
_TIMEOUT = 10  # seconds for a connection, unless the URL says otherwise
_SHUT_DOWN = ("57P01", "57P02", "57P03", "08")  # how the codes of a connection's end begin


class Session:
    """One connection, made again when it drops; operations of several threads take turns."""

    def __init__(self, url: str) -> None:
        self.place = parsed(url).shown
        self._options = _options(url, self.place)
        self._lock = RLock()
        self._connection: Connection | None = None
        connect_first(self._connected, self.place)

    def read(self, work: Callable[[Connection], T]) -> T:
        """The outcome of `work`, which sees the database as it is when it begins."""

        def attempt() -> T:
            with self._connected().transaction():
                assert self._connection is not None
                self._connection.execute(
                    "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"
                )
                return work(self._connection)

        return self._done(attempt)

    def write(self, work: Callable[[Connection], T]) -> T:
        """The outcome of `work`, all or nothing, and never twice."""
        in_doubt: tuple[str, T] | None = None  # a transaction whose commit was sent

        def attempt() -> T:
            nonlocal in_doubt
            connection = self._connected()
            if in_doubt is not None:
                if _took_place(connection, in_doubt[0]):
                    return in_doubt[1]
                in_doubt = None
            with connection.transaction():
                row = connection.execute("SELECT pg_current_xact_id()::text").fetchone()
                assert row is not None
                outcome = work(connection)
                in_doubt = row[0], outcome
            return outcome

        return self._done(attempt)

    @contextmanager
    def closed_on_failure(self) -> Iterator[None]:
        """End the connection if what follows fails."""
        try:
            yield
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the connection."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _done(self, attempt: Callable[[], T]) -> T:
        def translated() -> T:
            try:
                return attempt()
            except psycopg.Error as error:
                if self._is_lost(error):
                    raise Dropped(_reason(error)) from error
                raise EngineError(f"{self.place}: {_reason(error)}") from error

        with self._lock:
            return retried(translated, self.place)

    def _is_lost(self, error: psycopg.Error) -> bool:
        broken = self._connection is None or self._connection.closed
        return broken or (error.sqlstate or "").startswith(_SHUT_DOWN)

    def _connected(self) -> Connection:
        if self._connection is None or self._connection.closed:
            try:
                self._connection = psycopg.connect(**self._options, autocommit=True)
            except psycopg.Error as error:
                raise Dropped(_reason(error)) from error
        return self._connection


def _options(url: str, place: str) -> dict[str, Any]:
    try:
        given = conninfo_to_dict(url)
    except psycopg.Error as error:
        raise EngineError(f"{place}: the URL cannot be read; check its port and options") from error
    return {"connect_timeout": _TIMEOUT, "application_name": "bridgehash"} | given


def _took_place(connection: Connection, number: str) -> bool:
    row = connection.execute("SELECT pg_xact_status(%s::xid8)", [number]).fetchone()
    if row == ("in progress",):  # the server has not yet noticed that its client is gone
        raise Dropped("the transaction is still open on the server")
    return row == ("committed",)


def _reason(error: psycopg.Error) -> str:
    """The first sentence of what the server or the driver says."""
    text = error.diag.message_primary or str(error)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
