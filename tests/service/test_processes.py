"""The service as a process: kills and stops."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest

from bridgehash.index import HammingIndex
from tests.service.process import (
    KEY,
    LIMIT,
    Served,
    launch,
    listens,
    running,
    start,
    stopped,
    wait_until,
)

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals are POSIX")

P = "/v1/catalogues/photos"
HEADERS = {"Content-Type": "application/json", "Authorization": f"Bearer {KEY}"}


def code_of(item: int) -> str:
    return f"{(item * 37) % 4096 << 4:04x}"


def sku(item: int) -> str:
    return f"SKU/é {item}"


def number_of(name: int | str) -> int:
    return int(str(name).rpartition(" ")[2])


def with_text_ids(folder: Path) -> None:
    """Let the items of the folder have text ids."""
    index = HammingIndex.load(folder / "photos.bhi")
    codes, tags, domains = index.get(index.ids)
    named = HammingIndex(12).add(codes, list(map(sku, range(60))), tags=tags, domain=domains)
    named.about = index.about
    named.save(folder / "photos.bhi")


class Writer(threading.Thread):
    """Add and remove items until the connection breaks; remember what was acknowledged."""

    def __init__(self, served: Served, first: int, name_of: Callable[[int], Any]) -> None:
        super().__init__()
        self.served, self.first, self.name_of = served, first, name_of  # ids are numbers or text
        self.tried: set[int] = set()
        self.added: set[int] = set()
        self.removed: set[int] = set()

    def run(self) -> None:
        connection = HTTPConnection("127.0.0.1", self.served.port, timeout=LIMIT)
        with suppress(OSError, HTTPException), closing(connection):
            item = self.first
            while True:
                ids = [item, item + 1, item + 2]
                self.tried |= set(ids)
                codes, names = list(map(code_of, ids)), list(map(self.name_of, ids))
                form = {"ids": names, "codes": codes, "tags": ["new", ["new", "b"], "new"]}
                self.send(connection, "POST", form)
                self.added |= set(ids)
                self.send(connection, "DELETE", {"ids": names[1:2]})
                self.removed.add(item + 1)
                item += 3

    def send(self, connection: HTTPConnection, method: str, form: object) -> None:
        connection.request(method, P + "/items", json.dumps(form), HEADERS)
        response = connection.getresponse()
        body = response.read()
        assert response.status == 200, body


def write_until_ended(
    served: Served, kind: signal.Signals, name_of: Callable[[int], Any] = int
) -> list[Writer]:
    """Write from several threads, and send a signal after some acknowledgements."""
    writers = [Writer(served, 1_000_000 * (i + 1), name_of) for i in range(6)]
    for writer in writers:
        writer.start()
    try:
        wait_until(lambda: sum(len(writer.removed) for writer in writers) > 12)
        served.process.send_signal(kind)
        served.process.wait(timeout=LIMIT)
    finally:
        served.process.kill()
        served.process.wait()
    for writer in writers:
        writer.join()
    return writers


def check_acknowledged(folder, before: HammingIndex, writers: list[Writer]) -> None:
    """Check that the index file has what was acknowledged, and nothing that was never sent."""
    assert not (folder / "photos.bhi.journal").exists()
    index = HammingIndex.load(folder / "photos.bhi")
    ids = {number_of(name) for name in index.ids.tolist()}
    old = {number_of(name) for name in before.ids.tolist()}
    for writer in writers:
        unknown = {max(writer.tried) - 1}  # its removal may not have been acknowledged
        assert writer.added - writer.removed - unknown <= ids
        assert not writer.removed & ids
    tried = set.union(*(writer.tried for writer in writers))
    assert ids <= tried | old
    new = sorted(ids & tried)
    codes, tags, domains = index.get([writers[0].name_of(item) for item in new])
    assert [code.tobytes().hex() for code in codes] == [code_of(item) for item in new]
    middle = {item for writer in writers for item in writer.tried if (item - writer.first) % 3 == 1}
    assert tags == [("b", "new") if item in middle else ("new",) for item in new]
    assert set(domains) == {"source"}
    np.testing.assert_array_equal(index.get(before.ids)[0], before.get(before.ids)[0])


@pytest.mark.parametrize(
    "name_of", [int, pytest.param(sku, marks=pytest.mark.slow)], ids=["numbers", "text"]
)
def test_kill_9_loses_nothing_that_was_acknowledged(folder, name_of):
    if name_of is sku:
        with_text_ids(folder)
    before = HammingIndex.load(folder / "photos.bhi")
    writers = write_until_ended(start(folder), signal.SIGKILL, name_of)
    journal = (folder / "photos.bhi.journal").read_bytes()
    kept = next(iter(set.union(*(w.added - w.removed - {max(w.tried) - 1} for w in writers))))
    with (
        running(folder, key=None) as served,  # read-only: it shows the journal and leaves it alone
        closing(HTTPConnection("127.0.0.1", served.port, timeout=LIMIT)) as connection,
    ):
        connection.request("GET", f"{P}/items/{quote(str(name_of(kept)), safe='')}")
        assert json.loads(connection.getresponse().read())["code"] == code_of(kept)
    assert (folder / "photos.bhi.journal").read_bytes() == journal
    with running(folder):
        pass
    check_acknowledged(folder, before, writers)


def test_a_stop_finishes_the_running_changes(folder):
    with_text_ids(folder)
    before = HammingIndex.load(folder / "photos.bhi")
    served = start(folder)
    writers = write_until_ended(served, signal.SIGTERM, sku)
    assert served.process.returncode == 0
    check_acknowledged(folder, before, writers)
    assert "Traceback" not in served.log.read_text()
    assert KEY not in served.log.read_text()


SLOW = """
import sys, time
from pathlib import Path
from bridgehash.service.catalogue import Catalogue
real = Catalogue.search
def slow(self, queries):
    if any(query.k == 7 for query in queries):
        Path("searching").touch()
        while not Path("go").exists():
            time.sleep(0.02)
    return real(self, queries)
Catalogue.search = slow
from bridgehash.cli.main import main
sys.exit(main())
"""


def test_a_stop_finishes_the_running_search(folder):
    line = [sys.executable, "-c", SLOW, "serve", "--model", "model.bh", "--index", "photos.bhi"]
    with (
        stopped(launch([*line, "--port", "0"], folder, folder.parent)) as served,
        closing(HTTPConnection("127.0.0.1", served.port, timeout=LIMIT)) as connection,
    ):
        connection.request("POST", P + "/search", json.dumps({"ids": [1], "k": 7}), HEADERS)
        wait_until((folder / "searching").exists)
        served.process.send_signal(signal.SIGINT)
        wait_until(lambda: not listens(served.port))
        (folder / "go").touch()
        response = connection.getresponse()
        assert response.status == 200
        assert len(json.loads(response.read())["results"][0]["hits"]) == 7
    assert served.process.returncode == 0
