"""Load test of the service: latency at a given rate, highest sustained rate, adds, memory.

    python benchmarks/service.py [--million 1] [--bits 64] [--connections 50] [--rate 200]
        [--seconds 20] [--requests 100000] [--part latency,highest,where,adds,memory]
        [--rank hamming|weights|mixed] [--record FILE]

A server with random codes runs on loopback; this process sends the load from the same machine.
Each search is for the ten nearest codes of one vector of 64 features, which the server encodes:
by Hamming distance, by weights and corrections, or in turns ("mixed"; then their times are given
one after the other).
Searches arrive at random times (a Poisson process). Response times are measured from the moment a
request was due, so a server that falls behind cannot hide it. The highest rate is the last one of
a rising series whose 99th percentile is below 50 ms, at the first or second try. For memory,
requests are sent without pause. `others` is the share of all cores that other programs used.
`where` divides the CPU time of a search between the event loop, which reads requests and writes
answers, and the threads that search, at rising rates and without pause; --record keeps its figures.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
from recorded import Recorder, add_option

from bridgehash import LinearEncoder, load, save
from bridgehash.index import HammingIndex
from bridgehash.models.decoder import with_decoders
from bridgehash.models.provenance import origin

KEY = "benchmark-key-benchmark"
MAX_MS = 50.0  # limit of the 99th percentile
WIDTH = 64  # features


class Server(NamedTuple):
    """The server process and its port."""

    process: subprocess.Popen[str]
    port: int

    def memory(self) -> float:
        """Return the resident memory in MB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024


@contextmanager
def served(n: int, bits: int) -> Iterator[Server]:
    """Start a server with n random codes."""
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        model, index = Path(folder, "model.bh"), Path(folder, "items.bhi")
        encoder = LinearEncoder(rng.normal(size=(WIDTH, bits)), np.zeros(WIDTH))
        (encoder,) = with_decoders([encoder], [rng.normal(size=(1000, WIDTH))])
        save(encoder, model)
        codes = HammingIndex(bits).add(
            rng.integers(0, 256, (n, bits // 8), dtype=np.uint8),
            corrections=rng.uniform(0.5, 1.5, (n, 2)).astype(np.float16),
        )
        codes.about = origin(load(model), None)
        codes.save(index)
        line = [sys.executable, "-m", "bridgehash", "serve", "--port", "0"]
        line += ["--model", str(model), "--index", str(index)]
        env = {**os.environ, "BRIDGEHASH_API_KEY": KEY}
        process = subprocess.Popen(line, env=env, stderr=subprocess.PIPE, text=True)
        try:
            lines = iter(process.stderr.readline, "")
            found = (re.search(r"127\.0\.0\.1:(\d+)", line) for line in lines)
            port = int(next(each for each in found if each)[1])
            while not _listens(port):
                time.sleep(0.05)
            yield Server(process, port)
        finally:
            process.terminate()
            process.communicate()


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def request(path: str, form: object) -> bytes:
    """Return a POST request as bytes."""
    body = json.dumps(form).encode()
    head = (
        f"POST /v1/catalogues/items/{path} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        f"Authorization: Bearer {KEY}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def searches(rank: str, n: int = 500) -> list[bytes]:
    """Return searches with different vectors."""
    X = np.random.default_rng(1).normal(size=(n, WIDTH)).round(4)
    ranks = ["hamming", "weights"] if rank == "mixed" else [rank]
    return [
        request("search", {"features": [x.tolist()], "k": 10, "rank": ranks[i % len(ranks)]})
        for i, x in enumerate(X)
    ]


class Connection:
    """A keep-alive connection: one request after another."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def send(self, data: bytes) -> None:
        """Send a request and read the response; raise unless it is 200."""
        self._writer.write(data)
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = int(re.search(rb"content-length: (\d+)", head, re.I)[1])
        body = await self._reader.readexactly(length)
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(body.decode())

    def close(self) -> None:
        self._writer.close()


async def connected(port: int, n: int) -> asyncio.Queue[Connection]:
    """Open n connections."""
    free: asyncio.Queue[Connection] = asyncio.Queue()
    for _ in range(n):
        free.put_nowait(Connection(*await asyncio.open_connection("127.0.0.1", port)))
    return free


async def arrivals(port: int, data: list[bytes], rate: float, seconds: float, n: int) -> np.ndarray:
    """Return the milliseconds from the moment each request was due to its response."""
    rng = np.random.default_rng(2)
    due = np.cumsum(rng.exponential(1 / rate, size=int(rate * seconds)))
    free, taken = await connected(port, n), np.zeros(len(due))
    loop = asyncio.get_running_loop()
    started = loop.time()

    async def one(i: int) -> None:
        connection = await free.get()
        await connection.send(data[i % len(data)])
        free.put_nowait(connection)
        taken[i] = loop.time() - started - due[i]

    tasks = []
    for i, at in enumerate(due):
        if (wait := started + at - loop.time()) > 0:
            await asyncio.sleep(wait)
        tasks.append(asyncio.create_task(one(i)))
    await asyncio.gather(*tasks)
    while not free.empty():
        free.get_nowait().close()
    return 1e3 * taken


async def back_to_back(port: int, data: list[bytes], n: int, connections: int) -> float:
    """Return requests per second if each connection sends the next one at once."""
    free = await connected(port, connections)
    started, left = time.perf_counter(), iter(range(n))

    async def work() -> None:
        connection = await free.get()
        for i in left:
            await connection.send(data[i % len(data)])
        connection.close()

    await asyncio.gather(*(work() for _ in range(connections)))
    return n / (time.perf_counter() - started)


class Clock:
    """CPU time used by the server and by other programs."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._before = self._now()

    def _now(self) -> np.ndarray:
        """Return the CPU seconds of all cores, of all work, of this process, of the server."""
        ticks = [int(n) for n in Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
        own = [self._of(pid) for pid in ("self", str(self._server.process.pid))]
        return np.array([sum(ticks), sum(ticks) - ticks[3] - ticks[4], *own]) / 100

    def _of(self, pid: str) -> int:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    def summary(self, n: int) -> str:
        total, work, here, server = self._now() - self._before
        others = (work - here - server) / total
        return f"server {1e3 * server / n:.2f} ms of CPU per search, others {others:.0%}"


def summary(rate: float, taken: np.ndarray, clock: Clock, n_timed: int = 0) -> str:
    p50, p90, p99, most = np.percentile(taken, [50, 90, 99, 100])
    return (
        f"{rate:6.0f}/s  p50 {p50:6.2f} ms  p90 {p90:6.2f} ms  p99 {p99:6.2f} ms  "
        f"longest {most:6.1f} ms  ({len(taken)} searches; {clock.summary(n_timed or len(taken))})"
    )


def latency(server: Server, options: argparse.Namespace) -> None:
    """Measure the latency at the given rate."""
    data = searches(options.rank)
    load = arrivals(server.port, data, options.rate, options.seconds, options.connections)
    clock = Clock(server)
    taken = asyncio.run(load)
    for part in [taken[::2], taken[1::2]] if options.rank == "mixed" else [taken]:
        print(summary(options.rate, part, clock, len(taken)), flush=True)


def highest(server: Server, options: argparse.Namespace) -> None:
    """Find the last rate of a rising series whose latency is low enough."""
    highest_rate, seconds = 0.0, min(options.seconds, 10)
    for rate in range(300, 3001, 100):
        for _ in range(2):  # a second try, in case the machine was busy
            data = searches(options.rank)
            load = arrivals(server.port, data, rate, seconds, options.connections)
            clock = Clock(server)
            taken = asyncio.run(load)
            print(summary(rate, taken, clock), flush=True)
            if np.percentile(taken, 99) < MAX_MS:
                highest_rate = rate
                break
        else:
            break
    print(f"highest rate with a 99th percentile below {MAX_MS:.0f} ms: {highest_rate:.0f}/s")


def of_threads(server: Server) -> np.ndarray:
    """Return CPU ms and voluntary switches, of the event loop and of all other threads."""
    totals = np.zeros((2, 2))
    for folder in Path(f"/proc/{server.process.pid}/task").iterdir():
        ran = int((folder / "schedstat").read_text().split()[0]) / 1e6
        waited = re.search(r"\nvoluntary\D+(\d+)", (folder / "status").read_text())[1]
        totals[int(folder.name != str(server.process.pid))] += ran, int(waited)
    return totals


def where(server: Server, options: argparse.Namespace) -> None:
    """Divide the CPU time of a search between the event loop and the threads that search."""
    data, seconds = searches(options.rank), min(options.seconds, 5)
    for rate in (200, 600, 1000, 0):
        n, before = int(rate * seconds) or 5000, of_threads(server)
        if rate:
            asyncio.run(arrivals(server.port, data, rate, seconds, options.connections))
        else:
            asyncio.run(back_to_back(server.port, data, n, options.connections))
        (loop, loop_waits), (search, search_waits) = (of_threads(server) - before) / n
        label, waits = f"{rate}/s" if rate else "no pause", loop_waits + search_waits
        for name, value in {"event loop": loop, "threads": search, "waits": waits}.items():
            options.recorder.add([value], "where", options.rank, label, name)
        print(
            f"{label:>8s}  event loop {loop:.2f} ms, threads {search:.2f} ms of CPU per search; "
            f"they wait {waits:.1f} times",
            flush=True,
        )


def adds(server: Server, options: argparse.Namespace) -> None:
    """Measure durable adds per second, over one connection and over many."""
    data = [request("items", {"codes": ["00" * (options.bits // 8)]})]
    for connections in (1, options.connections):
        rate = asyncio.run(back_to_back(server.port, data, 2000, connections))
        print(f"adds, each on disk when acknowledged, {connections} connections: {rate:.0f}/s")


def memory(server: Server, options: argparse.Namespace) -> None:
    """Watch the resident memory while requests are served."""
    step = options.requests // 10
    for done in range(0, options.requests + 1, step):
        if done:
            load = back_to_back(server.port, searches(options.rank), step, options.connections)
            rate = asyncio.run(load)
        text = f"  ({rate:.0f}/s without pause)" if done else ""
        print(f"{done:7d} requests: {server.memory():.1f} MB{text}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--million", type=float, default=1.0)
    parser.add_argument("--bits", type=int, default=64)
    parser.add_argument("--connections", type=int, default=50)
    parser.add_argument("--rate", type=float, default=200.0)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--rank", choices=["hamming", "weights", "mixed"], default="hamming")
    parser.add_argument("--part", default="latency,highest,where,adds,memory")
    add_option(parser)
    options = parser.parse_args()
    options.recorder = Recorder(options.record)
    parts = {each.__name__: each for each in (latency, highest, where, adds, memory)}
    with served(int(1e6 * options.million), options.bits) as server:
        data = searches(options.rank)
        asyncio.run(arrivals(server.port, data, 100, 3, options.connections))  # warm
        for name in options.part.split(","):
            parts[name](server, options)
    options.recorder.write()


if __name__ == "__main__":
    main()
