"""The service as a process: kills, stops, slow and endless requests."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import closing, suppress
from http.client import HTTPConnection, HTTPException

import numpy as np
import pytest

from bridgehash.index import HammingIndex
from tests.service.process import KEY, Served, running, start

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals are POSIX")

P = "/v1/catalogues/photos"
HEADERS = {"Content-Type": "application/json", "Authorization": f"Bearer {KEY}"}


def code_of(item: int) -> str:
    return f"{(item * 37) % 4096 << 4:04x}"


class Writer(threading.Thread):
    """Adds and removes until the connection breaks; remembers what was acknowledged."""

    def __init__(self, served: Served, first: int) -> None:
        super().__init__()
        self.served, self.first = served, first
        self.tried: set[int] = set()
        self.added: set[int] = set()
        self.removed: set[int] = set()

    def run(self) -> None:
        connection = HTTPConnection("127.0.0.1", self.served.port, timeout=30)
        with suppress(OSError, HTTPException), closing(connection):
            self.work(connection)

    def work(self, connection: HTTPConnection) -> None:
        item = self.first
        while True:
            ids = [item, item + 1, item + 2]
            self.tried |= set(ids)
            form = {"ids": ids, "codes": list(map(code_of, ids)), "tags": ["new"] * 3}
            self.post(connection, "/items", form)
            self.added |= set(ids)
            self.post(connection, "/remove", {"ids": [item + 1]})
            self.removed.add(item + 1)
            item += 3

    def post(self, connection: HTTPConnection, path: str, form: object) -> None:
        connection.request("POST", P + path, json.dumps(form), HEADERS)
        answer = connection.getresponse()
        body = answer.read()
        assert answer.status == 200, body


@pytest.mark.parametrize("seconds", [0.3, 0.9])
def test_kill_9_in_the_middle_of_adds(folder, seconds):
    before = HammingIndex.load(folder / "photos.bhi")
    served = start(folder)
    writers = [Writer(served, 1_000_000 * (i + 1)) for i in range(6)]
    for writer in writers:
        writer.start()
    time.sleep(seconds)
    served.process.kill()
    served.process.wait()
    for writer in writers:
        writer.join()
    assert sum(len(writer.added) for writer in writers) > 20
    with running(folder):
        pass
    assert not (folder / "photos.bhi.journal").exists()
    index = HammingIndex.load(folder / "photos.bhi")
    there = set(index.ids.tolist())
    for writer in writers:
        maybe = {writer.first + 3 * (len(writer.added) // 3) - 2}  # a removal on its way
        assert writer.added - writer.removed - maybe <= there
        assert not writer.removed & there
    tried = set.union(*(writer.tried for writer in writers))
    assert there <= tried | set(before.ids.tolist())
    new = sorted(there & tried)
    codes, tags = index.get(new)
    assert [code.tobytes().hex() for code in codes] == [code_of(item) for item in new]
    assert set(tags) == {"new"}
    np.testing.assert_array_equal(index.get(before.ids)[0], before.get(before.ids)[0])


def test_a_stop_finishes_what_is_running(folder):
    served = start(folder)
    writers = [Writer(served, 1_000_000 * (i + 1)) for i in range(4)]
    for writer in writers:
        writer.start()
    time.sleep(0.4)
    served.process.send_signal(signal.SIGTERM)
    assert served.process.wait(timeout=30) == 0
    for writer in writers:
        writer.join()
    there = set(HammingIndex.load(folder / "photos.bhi").ids.tolist())
    assert sum(len(writer.added) for writer in writers) > 10
    for writer in writers:
        assert writer.added - writer.removed - {max(writer.tried) - 1} <= there
    assert not (folder / "photos.bhi.journal").exists()
    assert "Traceback" not in served.log.read_text()
    assert KEY not in served.log.read_text()


SLOW = """
import sys, time
from bridgehash.service.catalogue import Catalogue
real = Catalogue.search
def slow(self, questions):
    time.sleep(1.0 if any(q.k == 7 for q in questions) else 0)
    return real(self, questions)
Catalogue.search = slow
from bridgehash.cli.main import main
sys.exit(main())
"""


@pytest.mark.parametrize("kind", [signal.SIGTERM, signal.SIGINT])
def test_a_search_that_is_running_gets_its_answer(folder, kind):
    line = [sys.executable, "-c", SLOW, "serve", "--model", "model.bh", "--index", "photos.bhi"]
    log = folder.parent / "log"
    with open(log, "w") as written:
        process = subprocess.Popen([*line, "--port", "0"], cwd=folder, stderr=written)
    while not (found := re.search(r"127\.0\.0\.1:(\d+)", log.read_text())):
        assert process.poll() is None
        time.sleep(0.05)
    time.sleep(0.5)
    with closing(HTTPConnection("127.0.0.1", int(found[1]), timeout=30)) as connection:
        connection.request("POST", P + "/search", json.dumps({"ids": [1], "k": 7}), HEADERS)
        time.sleep(0.3)
        process.send_signal(kind)
        answer = connection.getresponse()
        assert answer.status == 200
        assert len(json.loads(answer.read())["results"][0]["hits"]) == 7
    assert process.wait(timeout=30) == 0


def test_the_journal_outlives_a_kill_and_a_reader_shows_it(folder):
    served = start(folder)
    with closing(HTTPConnection("127.0.0.1", served.port, timeout=30)) as connection:
        connection.request("POST", P + "/items", json.dumps({"codes": ["fff0"]}), HEADERS)
        assert connection.getresponse().read().startswith(b'{"ids":[60]')
    served.process.kill()
    served.process.wait()
    kept = (folder / "photos.bhi.journal").read_bytes()
    with (
        running(folder, key=None) as served,
        closing(HTTPConnection("127.0.0.1", served.port, timeout=30)) as connection,
    ):
        connection.request("GET", P + "/items/60")
        assert json.loads(connection.getresponse().read())["code"] == "fff0"
    assert (folder / "photos.bhi.journal").read_bytes() == kept


def test_heads_must_be_short(folder):
    with running(folder) as served:
        for head in (b"GET / HTTP/1.1\r\nX: " + b"x" * 70_000, b"X" * 70_000):
            with socket.create_connection(("127.0.0.1", served.port), timeout=10) as raw:
                with suppress(OSError):
                    raw.sendall(head)
                answer = b""
                with suppress(ConnectionResetError):
                    while part := raw.recv(1000):
                        answer += part
                assert answer[:12] in (b"HTTP/1.1 400", b"")
        with socket.create_connection(("127.0.0.1", served.port), timeout=10) as raw:
            raw.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n" * 3)
            time.sleep(0.2)
            assert raw.recv(10_000).count(b"HTTP/1.1 200") == 3


def test_a_port_that_is_taken_is_told(folder):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        line = [sys.executable, "-m", "bridgehash", "serve", "--port", port]
        done = subprocess.run(
            [*line, "--model", "model.bh", "--index", "photos.bhi"],
            cwd=folder,
            capture_output=True,
            text=True,
        )
    assert done.returncode == 2
    assert "cannot be used (Address already in use)" in done.stderr


def test_two_services_do_not_share_an_index(folder):
    with running(folder):
        line = [sys.executable, "-m", "bridgehash", "serve", "--port", "0"]
        done = subprocess.run(
            [*line, "--model", "model.bh", "--index", "photos.bhi"],
            cwd=folder,
            env={**os.environ, "BRIDGEHASH_API_KEY": KEY},
            capture_output=True,
            text=True,
        )
    assert done.returncode == 2
    assert "another service has this index open" in done.stderr
