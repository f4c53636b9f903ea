"""The service as a separate process, on loopback, at a free port."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

KEY = "a-key-for-tests-only-0123"
LIMIT = 300  # seconds; a busy machine is not a failure


class Served(NamedTuple):
    """A running service."""

    process: subprocess.Popen[str]
    port: int
    log: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


def wait_until(happened: Callable[[], object]) -> None:
    """Wait for an event."""
    deadline = time.monotonic() + LIMIT
    while not happened():
        assert time.monotonic() < deadline, f"nothing happened within {LIMIT} s"
        time.sleep(0.02)


def listens(port: int) -> bool:
    """Whether a port accepts connections."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=LIMIT).close()
    except OSError:
        return False
    return True


def start(folder: Path, *more: str, key: str | None = KEY, **environment: str) -> Served:
    """Start the service on the files of the folder and wait until it listens."""
    line = [sys.executable, "-m", "bridgehash", "serve", "--port", "0", *more]
    if "--model" not in more:
        line += ["--model", "model.bh", "--index", "photos.bhi"]
    environment |= {} if key is None else {"BRIDGEHASH_API_KEY": key}
    return launch(line, folder, folder.parent, **environment)


def launch(line: list[str], cwd: Path, logs: Path, **environment: str) -> Served:
    """Start a command that prints its address, and wait until it listens there."""
    env = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
    log = logs / f"log-{os.urandom(4).hex()}"
    with open(log, "w") as written:
        process = subprocess.Popen(line, cwd=cwd, env=env, stderr=written, text=True)

    def port() -> int:
        assert process.poll() is None, log.read_text()
        address = re.search(r"at http://127\.0\.0\.1:(\d+)", log.read_text())
        return int(address[1]) if address and listens(int(address[1])) else 0

    try:
        wait_until(port)
        return Served(process, port(), log)
    except BaseException:
        process.kill()
        process.wait()
        raise


@contextmanager
def running(
    folder: Path, *more: str, key: str | None = KEY, **environment: str
) -> Iterator[Served]:
    """`start`, and stop at the end."""
    with stopped(start(folder, *more, key=key, **environment)) as served:
        yield served


@contextmanager
def stopped(served: Served) -> Iterator[Served]:
    """Stop a process at the end, by its own process id."""
    try:
        yield served
    finally:
        served.process.terminate()
        try:
            served.process.wait(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            served.process.kill()
            served.process.wait()
