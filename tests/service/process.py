"""The service as a process of its own, on loopback, at a free port."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

KEY = "a-key-for-tests-only-0123"


class Served(NamedTuple):
    """A running service."""

    process: subprocess.Popen[str]
    port: int
    log: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


def start(folder: Path, *more: str, key: str | None = KEY, **environment: str) -> Served:
    """Start the service on the files of the folder and wait until it listens."""
    line = [sys.executable, "-m", "bridgehash", "serve", "--port", "0", *more]
    if "--model" not in more:
        line += ["--model", "model.bh", "--index", "photos.bhi"]
    environment |= {} if key is None else {"BRIDGEHASH_API_KEY": key}
    return launch(line, folder, folder.parent, **environment)


def launch(line: list[str], cwd: Path, logs: Path, **environment: str) -> Served:
    """Start a command that tells its address, and wait until it listens there."""
    env = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
    log = logs / f"log-{os.urandom(4).hex()}"
    with open(log, "w") as written:
        process = subprocess.Popen(line, cwd=cwd, env=env, stderr=written, text=True)
    while process.poll() is None:
        found = re.search(r"at http://127\.0\.0\.1:(\d+)", log.read_text())
        if found and _answers(int(found[1])):
            return Served(process, int(found[1]), log)
        time.sleep(0.02)
    raise AssertionError(log.read_text())


@contextmanager
def running(
    folder: Path, *more: str, key: str | None = KEY, **environment: str
) -> Iterator[Served]:
    """The same, stopped at the end by its own process id."""
    with _stopped(start(folder, *more, key=key, **environment)) as served:
        yield served


@contextmanager
def launched(line: list[str], cwd: Path, logs: Path) -> Iterator[Served]:
    """Any command that tells its address, stopped at the end."""
    with _stopped(launch(line, cwd, logs)) as served:
        yield served


@contextmanager
def _stopped(served: Served) -> Iterator[Served]:
    try:
        yield served
    finally:
        served.process.terminate()
        try:
            served.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            served.process.kill()
            served.process.wait()


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        time.sleep(0.05)
        return False
    return True
