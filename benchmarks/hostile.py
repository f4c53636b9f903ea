"""The service with one hostile client beside 50 good ones: who is served, how fast, in what memory.

    python benchmarks/hostile.py [--kinds none,strings,...] [--seconds 10] [--clients 50]
        [--thousand 100] [--memory-limit SIZE] [--record FILE]

A server with random codes runs on loopback. Each good client sends one search about every 100 ms
over its own connection. One more client asks /health all the time. The hostile client runs in a
process of its own, without pause, at a low priority. Printed per kind: answers and failures of the
good clients, their response times, the longest answer of /health, the longest time that the event
loop of the server could not run, the peak of its resident memory with all child processes, and what
the hostile client got. All of it shares the cores of one machine; `others` is the share of the CPU
time that other programs used.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import itertools
import json
import os
import random
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image

from bridgehash import LinearEncoder, load, save
from bridgehash.features.gist import DIMENSION
from bridgehash.index import HammingIndex
from bridgehash.models.provenance import origin

KEY = "benchmark-key-benchmark"
WIDTH = 64  # features of the searched catalogue
SEARCH = "/v1/catalogues/items/search"
JSON, NPY = "application/json", "application/x-npy"
MEGABYTE = 1 << 20
_MIN_SENT = 3  # by each good client, however slow the machine is

# Run by the server process: writes the longest pause of the event loop, ten times per second.
WATCHED = """
import asyncio, sys, time
from bridgehash.service import server
async def watch(path):
    loop, longest, last = asyncio.get_running_loop(), 0.0, time.perf_counter()
    with open(path, "a", buffering=1) as file:
        written = last
        while True:
            await asyncio.sleep(0.001)
            now = time.perf_counter()
            longest, last = max(longest, now - last - 0.001), now
            if now - written > 0.1:
                file.write(f"{longest}\\n")
                longest, written = 0.0, now
real = server._Server.startup
async def startup(self, sockets=None):
    await real(self, sockets)
    self.watch = asyncio.create_task(watch("pauses"))
server._Server.startup = startup
from bridgehash.cli.main import main
sys.exit(main())
"""


def request(path: str, body: bytes = b"", kind: str = JSON, method: str = "POST") -> bytes:
    """Return a request as bytes."""
    return head(path, f"Content-Type: {kind}\r\nContent-Length: {len(body)}\r\n", method) + body


def head(path: str, headers: str = "", method: str = "POST") -> bytes:
    """Return the head of a request as bytes."""
    return f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{headers}\r\n".encode()


async def answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """Read one response: its status and body."""
    text = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", text, re.I)
    body = await reader.readexactly(int(length[1])) if length else b""
    return int(text[9:12]), body


class Attack:
    """What a hostile client does, and what it gets for it; `scale` below 1 does less of it."""

    def __init__(self, port: int, seconds: float, scale: float = 1.0) -> None:
        self.port, self.scale, self.got = port, scale, Counter[str]()
        self._deadline = time.monotonic() + seconds

    @property
    def goes_on(self) -> bool:
        return time.monotonic() < self._deadline

    async def rest(self) -> None:
        """Wait until the end."""
        await asyncio.sleep(max(0.0, self._deadline - time.monotonic()))

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 26)

    async def exchange(self, data: bytes) -> None:
        """Send something on a new connection, and count the answer."""
        try:
            reader, writer = await self.connect()
        except OSError as error:
            self.got[type(error).__name__] += 1
            return
        try:
            sent = asyncio.create_task(self._send(writer, data))
            async with asyncio.timeout(60):
                status, _ = await answer(reader)
            self.got[str(status)] += 1
            sent.cancel()
        except (OSError, asyncio.IncompleteReadError, TimeoutError) as error:
            self.got[type(error).__name__] += 1
        writer.transport.abort()

    async def _send(self, writer: asyncio.StreamWriter, data: bytes) -> None:
        with suppress(OSError):
            for start in range(0, len(data), 1 << 16):
                writer.write(data[start : start + (1 << 16)])
                await writer.drain()

    async def repeat(self, data: list[bytes], connections: int) -> None:
        """Send requests in turn, over several connections at a time, until the end."""

        async def work() -> None:
            while True:
                await self.exchange(random.choice(data))
                if not self.goes_on:
                    return

        await asyncio.gather(*(work() for _ in range(connections)))

    async def hold(self, n: int, first: bytes, more: bytes = b"", every: float = 1.0) -> None:
        """Keep n connections open; send something first, and then a little from time to time."""
        opened: list[_Held] = []
        n = max(1, int(n * self.scale))

        async def count_closed() -> None:
            lost = [each for each in opened if each.closed]
            self.got["closed"] += len(lost)
            for each in lost:
                opened.remove(each)
                each.transport.abort()

        loop = asyncio.get_running_loop()
        while self.goes_on:
            await count_closed()
            while len(opened) < n and self.goes_on:
                try:
                    _, held = await loop.create_connection(_Held, "127.0.0.1", self.port)
                except OSError as error:
                    self.got[type(error).__name__] += 1
                    break
                opened.append(held)
                held.transport.write(first)
            for held in opened:
                held.transport.write(more)
            await asyncio.sleep(min(every, max(0.05, self._deadline - time.monotonic())))
        await count_closed()
        self.got["held at the end"] += len(opened)
        for held in opened:
            held.transport.abort()


class _Held(asyncio.Protocol):
    """A connection that reads nothing of its answers."""

    transport: asyncio.Transport
    closed = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)

    def data_received(self, data: bytes) -> None:
        self.transport.pause_reading()

    def eof_received(self) -> None:
        self.closed = True

    def connection_lost(self, error: Exception | None) -> None:
        self.closed = True


def nested(before: bytes, unit: bytes, after: bytes, size: int) -> bytes:
    """Return JSON of about `size` bytes that repeats a unit."""
    return before + b",".join([unit] * (size // (len(unit) + 1))) + after


def large_json(kind: str, scale: float) -> bytes:
    """Return a JSON body that is expensive to parse; almost the longest allowed if scale is 1."""
    size = int(scale * 15 * MEGABYTE)
    if kind == "strings":
        return nested(b'{"codes":[', b'""', b"]}", size)
    if kind == "lists":
        return nested(b'{"features":[', b"[]", b"]}", size)
    if kind == "numbers":
        return nested(b'{"features":[[', b"1", b"]]}", size)
    if kind == "keys":
        return b"{" + b",".join(b'"%07d":1' % i for i in range(size // 12)) + b"}"
    raise ValueError(kind)


def odd_json() -> list[bytes]:
    """Return small bodies that are expensive or odd."""
    return [
        b"[" * 60_000,
        b'{"k":' + b"9" * 60_000 + b"}",
        b'{"features":[[1e400]]}',
        b'{"k":1000000000,"ids":[1]}',
        *(large_json(kind, 0.0038) for kind in ("strings", "lists", "numbers", "keys")),
    ]


def many_scans(n: int, side: int = 4_000) -> bytes:
    """Return a progressive JPEG whose last scan is repeated n times."""
    file = io.BytesIO()
    Image.new("L", (side, side), 128).save(file, "JPEG", progressive=True)
    data = file.getvalue()
    last = data.rindex(b"\xff\xda")
    return data[:last] + data[last:-2] * n + b"\xff\xd9"


def large_images() -> list[bytes]:
    """Return images that are small as files and large as pixels, or have very many frames."""
    found = [many_scans(4_000), many_scans(90)]
    for kind, side in (("PNG", 3_900), ("PNG", 12_000), ("GIF", 3_900), ("WEBP", 3_900)):
        file = io.BytesIO()
        Image.new("L", (side, side)).save(file, kind, **({"method": 0} if kind == "WEBP" else {}))
        found.append(file.getvalue())
    frames = [Image.new("L", (8, 8), i % 256) for i in range(500)]
    for kind in ("PNG", "WEBP", "GIF"):
        file = io.BytesIO()
        frames[0].save(file, kind, save_all=True, append_images=frames[1:])
        found.append(file.getvalue())
    return found


def largest_search(scale: float) -> bytes:
    """Return a search; the largest allowed if scale is 1."""
    file, n = io.BytesIO(), max(1, int(1_000 * scale))
    np.save(file, np.random.default_rng(3).normal(size=(n, WIDTH)).astype(np.float32))
    return request(f"{SEARCH}?k=50", file.getvalue(), NPY)


async def no_attack(attack: Attack) -> None:
    await attack.rest()


async def strings(attack: Attack) -> None:
    await attack.repeat([request(SEARCH, large_json("strings", attack.scale))], 4)


async def lists(attack: Attack) -> None:
    await attack.repeat([request(SEARCH, large_json("lists", attack.scale))], 4)


async def numbers(attack: Attack) -> None:
    await attack.repeat([request(SEARCH, large_json("numbers", attack.scale))], 4)


async def keys(attack: Attack) -> None:
    await attack.repeat([request(SEARCH, large_json("keys", attack.scale))], 4)


async def odd(attack: Attack) -> None:
    await attack.repeat([request(SEARCH, body) for body in odd_json()], 4)


async def images(attack: Attack) -> None:
    path = "/v1/catalogues/images/search/image"
    await attack.repeat([request(path, data, "image/png") for data in large_images()], 4)


async def searches(attack: Attack) -> None:
    await attack.repeat([largest_search(attack.scale)], 4)


async def unread(attack: Attack) -> None:
    await attack.hold(50, largest_search(attack.scale) * 3)


async def idle(attack: Attack) -> None:
    await attack.hold(3_000, b"")


async def slow_heads(attack: Attack) -> None:
    await attack.hold(3_000, b"GET / HTTP/1.1\r\nX: ", b"x")


async def slow_bodies(attack: Attack) -> None:
    first = head(SEARCH, f"Content-Type: {JSON}\r\nContent-Length: 100000\r\n")
    await attack.hold(3_000, first, b" ")


async def reconnects(attack: Attack) -> None:
    """Open connections as fast as possible, and leave them open."""
    await attack.hold(8_000, b"GET", every=0.05)


async def pipelines(attack: Attack) -> None:
    await attack.hold(20, b"GET / HTTP/1.1\r\n\r\n" * 50_000, b"GET / HTTP/1.1\r\n\r\n" * 1_000)


async def small_chunks(attack: Attack) -> None:
    start = head(SEARCH, f"Content-Type: {JSON}\r\nTransfer-Encoding: chunked\r\n")
    await attack.repeat([start + b"1\r\n \r\n" * 1_000_000], 4)


async def endless(attack: Attack) -> None:
    start = head(SEARCH, f"Content-Type: {JSON}\r\nTransfer-Encoding: chunked\r\n")
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    await attack.repeat([start + chunk * 500], 4)


async def long_heads(attack: Attack) -> None:
    await attack.repeat([b"GET / HTTP/1.1\r\nX: " + b"x" * 200_000], 8)


async def wrong_keys(attack: Attack) -> None:
    wrong = head("/v1/catalogues/items/items/1", "X-API-Key: not-the-right-key\r\n", "DELETE")
    await attack.repeat([wrong], 100)


ATTACKS: dict[str, Callable[[Attack], Awaitable[None]]] = {
    "none": no_attack,
    "strings": strings,
    "lists": lists,
    "numbers": numbers,
    "keys": keys,
    "odd": odd,
    "images": images,
    "searches": searches,
    "unread": unread,
    "idle": idle,
    "slow-heads": slow_heads,
    "slow-bodies": slow_bodies,
    "reconnects": reconnects,
    "pipelines": pipelines,
    "small-chunks": small_chunks,
    "endless": endless,
    "long-heads": long_heads,
    "wrong-keys": wrong_keys,
}


class Server(NamedTuple):
    """The server process, its port and the folder it runs in."""

    process: subprocess.Popen[str]
    port: int
    folder: Path

    def memory(self) -> int:
        """Return the resident bytes of the process and its children."""
        pid = self.process.pid
        total = 0
        for process in (str(pid), *_children(pid)):
            with suppress(OSError):
                pages = Path(f"/proc/{process}/statm").read_text().split()[1]
                total += int(pages) * os.sysconf("SC_PAGE_SIZE")
        return total

    def pauses(self) -> list[float]:
        """Return the longest pauses of the event loop so far, in seconds."""
        return [float(line) for line in (self.folder / "pauses").read_text().split()]


def _children(pid: int) -> list[str]:
    found: list[str] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):
            found += (task / "children").read_text().split()
    return found


@contextmanager
def served(n: int, *options: str) -> Iterator[Server]:
    """Start a server with n random codes, and a small catalogue that takes images."""
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        line = [sys.executable, "-c", WATCHED, "serve", "--port", "0", *options]
        for catalogue, width, rows in (("items", WIDTH, n), ("images", DIMENSION, 1_000)):
            model, index = folder / f"{catalogue}.bh", folder / f"{catalogue}.bhi"
            save(LinearEncoder(rng.normal(size=(width, 64)), np.zeros(width)), model)
            codes = HammingIndex(64).add(rng.integers(0, 256, (rows, 8), dtype=np.uint8))
            codes.about = origin(load(model), None)
            codes.save(index)
            line += ["--model", str(model), "--index", str(index)]
        line += ["--backbone", "-", "--backbone", "gist"]
        env = {**os.environ, "BRIDGEHASH_API_KEY": KEY}
        with (folder / "log").open("w") as log:
            process = subprocess.Popen(line, env=env, stderr=log, cwd=folder, text=True)
        try:
            while not (found := re.search(r"127\.0\.0\.1:(\d+)", (folder / "log").read_text())):
                if process.poll() is not None:
                    raise RuntimeError((folder / "log").read_text())
                time.sleep(0.05)
            while not (folder / "pauses").exists():
                time.sleep(0.05)
            yield Server(process, int(found[1]), folder)
        finally:
            process.terminate()
            process.wait()


class Outcome(NamedTuple):
    """What the good clients saw."""

    milliseconds: list[float]
    failures: Counter[str]
    health: list[float]
    peak: int


async def good_clients(server: Server, n: int, seconds: float) -> Outcome:
    """Send searches and ask for health, and watch the memory."""
    X = np.random.default_rng(1).normal(size=(200, WIDTH)).round(4)
    data = [request(SEARCH, json.dumps({"features": [x.tolist()], "k": 10}).encode()) for x in X]
    outcome = Outcome([], Counter(), [], 0)
    peak = 0
    deadline = time.monotonic() + seconds

    async def client(i: int) -> None:
        await asyncio.sleep(0.1 * i / n)
        connection = None
        for sent in itertools.count():
            started = time.monotonic()
            if sent >= _MIN_SENT and started >= deadline:
                break
            try:
                connection = connection or await asyncio.open_connection("127.0.0.1", server.port)
                connection[1].write(random.choice(data))
                async with asyncio.timeout(30):
                    status, _ = await answer(connection[0])
                if status != 200:
                    outcome.failures[str(status)] += 1
            except (OSError, asyncio.IncompleteReadError, TimeoutError) as error:
                outcome.failures[type(error).__name__] += 1
                connection = None
            taken = time.monotonic() - started
            outcome.milliseconds.append(1e3 * taken)
            await asyncio.sleep(max(0.0, random.uniform(0.08, 0.12) - taken))
        if connection:
            connection[1].close()

    async def health() -> None:
        while (started := time.monotonic()) < deadline or not outcome.health:
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
                writer.write(head("/health", method="GET"))
                status, _ = await answer(reader)
                writer.close()
                if status != 200:
                    outcome.failures[f"health {status}"] += 1
            except (OSError, asyncio.IncompleteReadError) as error:
                outcome.failures[f"health {type(error).__name__}"] += 1
            outcome.health.append(1e3 * (time.monotonic() - started))
            await asyncio.sleep(0.05)

    async def watch() -> None:
        nonlocal peak
        while time.monotonic() < deadline:
            peak = max(peak, server.memory())
            await asyncio.sleep(0.05)

    await asyncio.gather(health(), watch(), *(client(i) for i in range(n)))
    return outcome._replace(peak=peak)


class _Clock:
    """CPU time used by programs other than this benchmark."""

    def __init__(self, *pids: int) -> None:
        self._pids = pids
        self._before = self._now()

    def _now(self) -> np.ndarray:
        """Return the ticks of all cores, and the busy ones that are not ours."""
        ticks = [int(n) for n in Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
        own = 0
        for pid in ("self", *map(str, self._pids), *_children(self._pids[0])):
            with suppress(OSError):
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                own += sum(map(int, fields[11:15]))  # with children that ended
        return np.array([sum(ticks), sum(ticks) - ticks[3] - ticks[4] - own])

    def others(self) -> float:
        total, busy = self._now() - self._before
        return max(0.0, busy / total)


def measure(server: Server, kind: str, options: argparse.Namespace) -> str:
    """Run one hostile client beside the good ones, and return a line of the table."""
    line = [sys.executable, __file__, "--attack", kind, "--port", str(server.port)]
    line += ["--seconds", str(options.seconds + 1)]
    attack = subprocess.Popen(line, stdout=subprocess.PIPE, text=True)
    assert attack.stdout is not None
    attack.stdout.readline()  # it is ready
    before, clock = len(server.pauses()), _Clock(server.process.pid, attack.pid)
    outcome = asyncio.run(good_clients(server, options.clients, options.seconds))
    others = clock.others()
    longest = max(server.pauses()[before:], default=float("nan"))
    got, _ = attack.communicate()
    p50, p99 = np.percentile(outcome.milliseconds, [50, 99])
    n_failed = sum(outcome.failures.values())
    failed = f"{n_failed} {dict(outcome.failures)}" if n_failed else "0"
    return (
        f"| {kind} | {len(outcome.milliseconds):,} | {failed} | {p50:.0f} ms | {p99:.0f} ms | "
        f"{max(outcome.health):.0f} ms | {1e3 * longest:.0f} ms | {outcome.peak >> 20} MiB | "
        f"{others:.0%} | {got.strip()} |"
    )


def run_attack(kind: str, port: int, seconds: float, scale: float = 1.0) -> Counter[str]:
    """Be the hostile client."""
    attack = Attack(port, seconds, scale)
    asyncio.run(ATTACKS[kind](attack))  # type: ignore[arg-type]
    return attack.got


def main() -> None:
    from recorded import Recorder, add_option, record_cells  # the tests import this file

    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kinds", default=",".join(ATTACKS))
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--thousand", type=float, default=100.0)
    parser.add_argument("--memory-limit", default="2GB")
    parser.add_argument("--attack", choices=ATTACKS, help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    add_option(parser)
    options = parser.parse_args()
    if options.attack:
        os.nice(10)  # in earnest it would run on another machine
        print("ready", flush=True)
        got = run_attack(options.attack, options.port, options.seconds)
        print(", ".join(f"{n} x {what}" for what, n in sorted(got.items())) or "-")
        return
    print(f"limit: {options.memory_limit}; {options.clients} good clients")
    print("| kind | answers | failed | p50 | p99 | /health | loop | memory | others | it got |")
    print("|---|---|---|---|---|---|---|---|---|---|", flush=True)
    limit = ("--memory-limit", options.memory_limit)
    recorder = Recorder(options.record)
    for kind in options.kinds.split(","):
        with served(int(1e3 * options.thousand), *limit) as server:
            line = measure(server, kind, options)
            print(line, flush=True)
            cells = [cell.strip() for cell in line.split("|")[4:9]]
            record_cells(recorder, [kind], ("p50", "p99", "/health", "pause", "memory"), cells)
    recorder.write()


if __name__ == "__main__":
    main()
