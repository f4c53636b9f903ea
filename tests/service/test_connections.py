"""Connections that wait for their client, too many of them, and requests that cannot be served."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import socket
import sys
import time
from contextlib import ExitStack, closing, contextmanager
from http.client import HTTPConnection
from types import SimpleNamespace

import numpy as np
import pytest

from bridgehash.service import server
from tests.service.process import KEY, LIMIT, launch, stopped, wait_until

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals are POSIX")

P = "/v1/catalogues/photos"
HEAD = f"POST {P}/search HTTP/1.1\r\nHost: localhost\r\n"
SEARCH = f"{HEAD}Content-Type: application/json\r\n".encode()
HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"

# The service with other limits: {changes} is Python.
SCRIPT = """
import subprocess, sys
from dataclasses import replace
from functools import partial
from bridgehash.service import sandbox, server, settings
def limit(**limits):
    limits = replace(settings.Limits(), **limits)
    settings.make_settings = partial(settings.make_settings, limits=limits)
{changes}
from bridgehash.cli.main import main
sys.exit(main())
"""


@contextmanager
def changed(folder, changes: str):
    """Run the service with other limits."""
    line = [sys.executable, "-c", SCRIPT.format(changes=changes), "serve", "--port", "0"]
    line += ["--model", "model.bh", "--index", "photos.bhi"]
    line += ["--model", "plain.bh", "--index", "plain.bhi", "--backbone", "-", "--backbone", "gist"]
    with stopped(launch(line, folder, folder.parent, BRIDGEHASH_API_KEY=KEY)) as served:
        yield served
    assert "Traceback" not in served.log.read_text()


@pytest.fixture(scope="module")
def served(_made, tmp_path_factory):
    """One service for all tests that need no other limits."""
    folder = tmp_path_factory.mktemp("served") / "data"
    shutil.copytree(_made, folder)
    with changed(folder, "") as served:
        yield served


def connect(served) -> socket.socket:
    return socket.create_connection(("127.0.0.1", served.port), timeout=LIMIT)


def read_all(raw: socket.socket) -> bytes:
    """Return everything until the server closes the connection; a reset is an error."""
    response = b""
    while part := raw.recv(1 << 16):
        response += part
    return response


def is_healthy(raw: socket.socket) -> bool:
    raw.sendall(HEALTH)
    response = b""
    while part := raw.recv(1000):
        response += part
        if response.endswith(b'{"status":"alive"}'):
            return response.startswith(b"HTTP/1.1 200 ")
    return False


def is_closed(raw: socket.socket) -> bool:
    raw.settimeout(0.01)
    try:
        return raw.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionResetError:
        return True


def metric(served, name: str) -> float:
    with closing(HTTPConnection("127.0.0.1", served.port, timeout=LIMIT)) as connection:
        connection.request("GET", "/metrics")
        lines = connection.getresponse().read().decode().splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith(f"{name} ")))


def test_a_body_beyond_the_limit_gets_413_and_not_a_reset(served):
    chunk = b"100000\r\n" + b" " * (1 << 20) + b"\r\n"
    long = b" " * (20 << 20)
    for data in (
        SEARCH + b"Transfer-Encoding: chunked\r\n\r\n" + chunk * 20,
        SEARCH + b"Content-Length: %d\r\n\r\n" % len(long) + long,
    ):
        with connect(served) as raw:
            raw.sendall(data)  # all of it, before the answer is read
            response = read_all(raw)
        assert response.startswith(b"HTTP/1.1 413 ")
        assert b"connection: close" in response.lower()
        problem = json.loads(response.partition(b"\r\n\r\n")[2])
        assert (problem["status"], problem["field"]) == (413, "body")


def test_broken_requests_get_a_problem_and_not_a_reset(served):
    chunked = SEARCH + b"Transfer-Encoding: chunked\r\n\r\n"
    trailers = b"".join(b"X-%d: x\r\n" % i for i in range(100_000))
    for data, status in (
        (b"\x00\x01\x02\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n" + b"X: x\r\n" * 50_000 + b"\r\n", 431),
        (b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\n\r\n", 431),
        (chunked + b"1\r\n \r\n" * 100_000, 400),
        (chunked + b"0\r\n" + trailers + b"\r\n", 431),
    ):
        with connect(served) as raw:
            raw.sendall(data)
            response = read_all(raw)
        assert response.startswith(f"HTTP/1.1 {status} ".encode()), data[:50]
        assert b"content-type: application/problem+json" in response
        assert json.loads(response.rpartition(b"\r\n\r\n")[2])["status"] == status


def test_a_long_request_head_is_refused(served):
    long = b"GET / HTTP/1.1\r\nX: " + b"x" * 70_000
    for head, status in ((long, 431), (long + b"\r\n\r\n", 431), (b"X" * 70_000, 400)):
        with connect(served) as raw:
            raw.sendall(head)
            response = read_all(raw)
        assert response.startswith(f"HTTP/1.1 {status} ".encode())
        assert json.loads(response.partition(b"\r\n\r\n")[2])["status"] == status
    with connect(served) as raw:
        raw.sendall(HEALTH * 3)
        response = b""
        while response.count(b"HTTP/1.1 200") < 3:  # the limit is per request
            part = raw.recv(10_000)
            assert part, response
            response += part


def test_pipelined_requests_are_all_answered_in_order(served):
    n = 1_000  # more than one read of the server takes
    requests = b"".join(
        f"GET {P}/items/{i % 60} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode() for i in range(n)
    )
    with connect(served) as raw, raw.makefile("rb") as file:
        raw.sendall(requests)
        for i in range(n):
            assert file.readline() == b"HTTP/1.1 200 OK\r\n"
            length = 0
            while (line := file.readline()) != b"\r\n":
                if line.startswith(b"content-length:"):
                    length = int(line.split()[1])
            assert json.loads(file.read(length))["id"] == i % 60


def test_an_answer_is_written_at_once():
    """Each write is a system call and a packet, which take longer than many a search."""
    written = []
    raw = SimpleNamespace(
        write=written.append, is_closing=lambda: False, get_extra_info=None, pause_reading=None
    )
    transport = server._Transport(raw, None)
    for data in (b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n", b"one", b"two"):
        transport.write(data)
    assert written == [b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\none", b"two"]


def test_an_answer_without_a_body_is_sent(served):
    allowed = f"OPTIONS {P}/search HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    head = HEALTH.replace(b"GET", b"HEAD")
    with connect(served) as raw, raw.makefile("rb") as file:
        for request in (head, allowed, HEALTH):
            raw.sendall(request)
            assert file.readline().startswith(b"HTTP/1.1 ")
            length = 0
            while (line := file.readline()) != b"\r\n":
                if line.startswith(b"content-length:"):
                    length = int(line.split()[1])
            if request != head:
                file.read(length)


def test_a_large_body_arrives_whole(served):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(10_000, 5))
    answers = []
    for part in (X, *np.array_split(X, 7)):
        file = io.BytesIO()
        np.save(file, part)
        with closing(HTTPConnection("127.0.0.1", served.port, timeout=LIMIT)) as connection:
            headers = {"Content-Type": "application/x-npy"}
            connection.request("POST", P + "/encode", file.getvalue(), headers)
            answers.append(json.loads(connection.getresponse().read())["codes"])
    assert answers[0] == [code for part in answers[1:] for code in part]


def test_the_connection_that_waited_longest_makes_room(folder):
    with changed(folder, "server._max_files = lambda: 256 + 20") as served, ExitStack() as stack:
        good = stack.enter_context(connect(served))
        assert is_healthy(good)
        idle = [stack.enter_context(connect(served)) for _ in range(15)]
        for raw in idle[10:]:
            raw.sendall(SEARCH + b"Content-Length: 100\r\n\r\n ")  # a body that is slow
        for i in range(100):
            raw = stack.enter_context(connect(served))
            assert is_healthy(raw), i
            if i % 10 == 0:
                assert is_healthy(good)  # one that is used stays
        assert all(is_closed(raw) for raw in idle)


def test_clients_that_are_slow_are_cut_off(folder):
    changes = "server._HEAD_SECONDS = 0.2; server._KEEP_ALIVE_SECONDS = 1; limit(seconds=0.5)"
    with changed(folder, changes) as served, ExitStack() as stack:
        nothing, slow_head, slow_body, idle = (
            stack.enter_context(connect(served)) for _ in range(4)
        )
        slow_head.sendall(b"GET / HTTP/1.1\r\nX: ")
        slow_body.sendall(SEARCH + b"Content-Length: 1000\r\n\r\n ")
        assert is_healthy(idle)
        for raw in (nothing, slow_head, idle):
            wait_until(lambda raw=raw: is_closed(raw))
        assert read_all(slow_body).startswith(b"HTTP/1.1 408 ")


def large_search() -> bytes:
    body = json.dumps({"codes": ["0000"] * 800, "k": 60}).encode()
    return SEARCH + b"Content-Length: %d\r\n\r\n" % len(body) + body


@pytest.mark.slow
def test_a_client_that_does_not_read_its_answer_is_cut_off(folder):
    with changed(folder, "server._WRITE_SECONDS = 0.5") as served, connect(served) as raw:
        raw.sendall(large_search() * 8)  # more than the system holds for a client
        wait_until(lambda: metric(served, "bridgehash_request_bytes") > 1 << 20)
        quiet = []  # answers of the pipeline follow each other, with nothing held in between
        for _ in range(10_000):
            quiet.append(metric(served, "bridgehash_request_bytes"))
            if len(quiet) > 50 and not any(quiet[-50:]):
                break
            time.sleep(0.02)
        assert read_all(raw).count(b"HTTP/1.1 200 ") < 8


@pytest.mark.slow
def test_a_client_that_reads_slowly_but_steadily_gets_its_answer(folder):
    with changed(folder, "server._WRITE_SECONDS = 5") as served, connect(served) as raw:
        raw.sendall(large_search())
        response = b""
        while not response.endswith(b"]}]}"):
            response += raw.recv(100_000)
            time.sleep(0.005)
        assert len(json.loads(response.partition(b"\r\n\r\n")[2])["results"]) == 800


STUCK = """
limit(seconds=2)
line = [sys.executable, "-c", "import time; time.sleep(1000)"]
pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
sandbox._start = lambda: subprocess.Popen(line, **pipes)
"""


@pytest.mark.slow
def test_a_stop_waits_neither_for_an_image_nor_for_a_client(folder):
    with changed(folder, STUCK) as served, ExitStack() as stack:
        unread, image, slow = (stack.enter_context(connect(served)) for _ in range(3))
        unread.sendall(large_search() * 8)
        image.sendall(
            b"POST /v1/catalogues/plain/search/image HTTP/1.1\r\nHost: localhost\r\n"
            b"Content-Type: image/png\r\nContent-Length: 1\r\n\r\nx"
        )
        slow.sendall(b"GET / HTTP/1.1\r\nX: ")
        wait_until(lambda: metric(served, "bridgehash_request_bytes") > 1 << 20)
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(LIMIT) == 0
