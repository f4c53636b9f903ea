"""A few child processes for work that a hostile body could make endless.

Parsing JSON and decoding images hold the GIL, and broken or hostile input can take minutes and
gigabytes. A child process has limits of time and memory and can be killed at any moment; the next
job gets a new one. Results are JSON and .npy arrays, never pickles.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Lock, Timer
from typing import Any, NamedTuple

from numpy.typing import NDArray

from .bodies import S, parse_npy
from .decoder import CPU_SECONDS, JOB, RESULT
from .errors import RequestError, overloaded
from .memory import DECODER_BYTES
from .settings import KEY_VARIABLE, Limits

_MAX_WAITING = 64
_MAX_GROWTH = 8  # a body of `1,1,1,...` becomes numbers of 8 bytes
_MAX_EXTRA = 8 << 20  # a small image becomes the pixels that a network sees

Reserve = Callable[[int], None]


class Decoded(NamedTuple):
    """The result of one job."""

    head: dict[str, Any]
    arrays: list[NDArray[Any]]


class Sandbox:
    """Child processes, each for one job at a time. One that is lost is replaced when needed."""

    def __init__(self, limits: Limits) -> None:
        self._seconds, self._pixels, self._n = limits.seconds, limits.pixels, limits.decoders
        self._pool = ThreadPoolExecutor(limits.decoders, "sandbox")
        self._images = asyncio.Semaphore(max(1, limits.decoders - 1))  # one remains for JSON
        self._idle: list[subprocess.Popen[bytes]] = []
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock = Lock()
        self._stopped = False
        self._n_waiting = 0

    def start(self) -> None:
        """Start all child processes now, so that no request waits for that."""
        with self._lock:
            self._idle += [_start() for _ in range(self._n - len(self._idle))]

    async def parse(self, body: bytes, schema: type[S], reserve: Reserve) -> S:
        """Parse a JSON body as `bodies.parse_json` does."""
        head, arrays = await self._run({"kind": "json", "schema": schema.__name__}, body, reserve)
        rows = dict(zip(head["names"], arrays, strict=True))
        return schema.model_construct(**{**head["form"], **rows})

    async def decode(self, image: bytes, backbone: str, reserve: Reserve) -> NDArray[Any]:
        """Return the pixels of an image as a backbone needs them."""
        job = {"kind": "image", "backbone": backbone, "pixels": self._pixels}
        async with self._images:
            return (await self._run(job, image, reserve)).arrays[0]

    async def _run(self, job: dict[str, Any], data: bytes, reserve: Reserve) -> Decoded:
        if self._n_waiting >= _MAX_WAITING:
            raise overloaded("overloaded; retry later")
        self._n_waiting += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._pool, self._call, job, data, reserve)
        finally:
            self._n_waiting -= 1

    def stop(self) -> None:
        """Kill all child processes. Their jobs fail with 503."""
        with self._lock:
            self._stopped = True
            children = [*self._idle, *self._running]
        for child in children:
            child.kill()
        self._pool.shutdown()
        for child in children:
            _close(child)

    def _call(self, job: dict[str, Any], data: bytes, reserve: Reserve) -> Decoded:
        """Run one job in a child process; the child is lost if the job fails there."""
        child = self._take()
        timer = Timer(self._seconds, child.kill)
        timer.start()
        try:
            decoded = _exchange(child, job, data, reserve)
        except _Lost:
            raise self._why(child, "image" if job["kind"] == "image" else "body") from None
        except BaseException:
            self._drop(child)
            raise
        finally:
            timer.cancel()
        with self._lock:
            self._running.discard(child)
            self._idle.append(child)
        if "error" in decoded.head:
            raise RequestError(*decoded.head["error"])
        return decoded

    def _take(self) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._stopped:
                raise overloaded("the service is stopping")
            while self._idle and self._idle[-1].poll() is not None:
                _close(self._idle.pop())
            child = self._idle.pop() if self._idle else _start()
            self._running.add(child)
        return child

    def _drop(self, child: subprocess.Popen[bytes]) -> None:
        child.kill()
        with self._lock:
            self._running.discard(child)
        _close(child)

    def _why(self, child: subprocess.Popen[bytes], field: str) -> RequestError:
        """Return the error of a job whose child process died."""
        try:
            status = child.wait(1)
        except subprocess.TimeoutExpired:
            status = 0
        self._drop(child)
        if self._stopped:
            return overloaded("the service is stopping")
        if status > 0:  # it could not start
            return overloaded("the decoder cannot be started; see the log")
        if os.name == "posix" and status in (-signal.SIGXCPU, -signal.SIGKILL):
            return RequestError(422, f"takes longer than {CPU_SECONDS} s to read", field)
        return RequestError(
            422, f"cannot be read within {DECODER_BYTES >> 20} MiB; send less", field
        )


class _Lost(Exception):
    """The child process ended, or wrote something else than a result."""


def _start() -> subprocess.Popen[bytes]:
    root = str(Path(__file__).parents[2])
    path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    environment = {name: value for name, value in os.environ.items() if name != KEY_VARIABLE}
    environment |= {"PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "bridgehash.service.decoder"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # decoders print about broken images
        env=environment,
    )


def _close(child: subprocess.Popen[bytes]) -> None:
    child.wait()
    for pipe in (child.stdin, child.stdout):
        assert pipe is not None
        with suppress(OSError):  # about what was not written yet
            pipe.close()


def _exchange(
    child: subprocess.Popen[bytes], job: dict[str, Any], data: bytes, reserve: Reserve
) -> Decoded:
    assert child.stdin is not None
    text = json.dumps(job).encode()
    try:
        child.stdin.write(JOB.pack(len(text), len(data)) + text)
        child.stdin.write(data)
        child.stdin.flush()
    except OSError as error:
        raise _Lost from error
    most = _MAX_GROWTH * len(data) + _MAX_EXTRA
    (n,) = RESULT.unpack(_read(child, RESULT.size, most))
    reserve(n)
    try:
        head = json.loads(_read(child, n, most).decode("utf-8", "surrogatepass"))
        lengths = [int(n) for n in head["lengths"]]
    except (ValueError, KeyError, TypeError) as error:
        raise _Lost from error
    if sum(lengths) > most or min(lengths, default=0) < 0:
        raise _Lost
    reserve(sum(lengths))
    arrays: list[NDArray[Any]] = []
    for n in lengths:
        body = _read(child, n, most)
        arrays.append(parse_npy(body, _n_dimensions(head, len(arrays))))
    return Decoded(head, arrays)


def _n_dimensions(head: dict[str, Any], i: int) -> int:
    """Return the expected dimensions of the i-th array: pixels, ids, or rows."""
    if "names" not in head:
        return 3
    return 1 if head["names"][i] == "ids" else 2


def _read(child: subprocess.Popen[bytes], n: int, most: int) -> bytes:
    assert child.stdout is not None
    if n > most:
        raise _Lost
    data = child.stdout.read(n)
    if len(data) < n:
        raise _Lost
    return data
