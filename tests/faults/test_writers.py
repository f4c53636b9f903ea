"""Several writers of one index, and kills: acknowledged is there, once."""

from __future__ import annotations

import inspect
import json
import os
import shutil
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bridgehash._core.errors import InputError, JournalError, LostChangesWarning
from bridgehash.index import HammingIndex, IndexStore
from tests.service.process import KEY, LIMIT, running, start

pytestmark = pytest.mark.skipif(os.name != "posix", reason="locks and signals are POSIX")

ITEMS = "/v1/catalogues/photos/items"


def code_of(item: int) -> np.ndarray:
    return np.array([[(item * 37) % 256, (item * 11) % 16 << 4]], np.uint8)


def sku(item: int) -> str:
    return f"SKU é{item}"


CODE = "import sys, numpy as np\n" + inspect.getsource(code_of) + inspect.getsource(sku)
# Each prints an id when its code is acknowledged, and goes on until it is killed or has done n.
STORE = (
    CODE
    + """
from bridgehash.index import IndexStore
path, first, n = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
for item in range(first, first + n, 3):
    with IndexStore.open(path, wait=600) as store:
        for i in range(item, item + 3):
            store.add(code_of(i), [i], tags=[f"tag {i}"])
            print(i, flush=True)
"""
)
TEXT = STORE.replace('[i], tags=[f"tag {i}"]', "[sku(i)], tags=[[f\"tag {i}\"]], domain='photo'")
SAVE = (
    CODE
    + """
from bridgehash.index import HammingIndex
from bridgehash import InputError
path, first, n = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
for item in range(first, first + n):
    while True:
        try:
            index = HammingIndex.load(path)
            index.add(code_of(item), [item], tags=[f"tag {item}"]).save(path)
            print(item, flush=True)
            break
        except InputError as error:
            assert "in use" in str(error) or "was changed since" in str(error), error
"""
)


class ScriptWriter(threading.Thread):
    """Run a script and collect the ids that it acknowledges; maybe kill it after some of them."""

    def __init__(self, script: str, path: Path, first: int, n: int, kill_after: int = 0) -> None:
        super().__init__()
        line = [sys.executable, "-c", script, str(path), str(first), str(n)]
        self.process = subprocess.Popen(
            line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.tried, self.kill_after = set(range(first, first + n)), kill_after
        self.acknowledged: set[int] = set()
        self.failure = ""
        self.start()

    def run(self) -> None:
        with self.process:
            for line in self.process.stdout:
                self.acknowledged.add(int(line))
                if len(self.acknowledged) == self.kill_after:
                    self.process.kill()
            self.failure = self.process.stderr.read()


def number_of(name: int | str) -> int:
    return int(str(name).removeprefix("SKU é"))


def check(path: Path, writers: list[ScriptWriter], before: int, name_of: Any = int) -> int:
    """Check that all acknowledged codes are there, once and right; return their number."""
    for writer in writers:
        writer.join()
        assert writer.kill_after or writer.process.returncode == 0, writer.failure
    acknowledged = set.union(*(writer.acknowledged for writer in writers))
    index = HammingIndex.load(path)
    with IndexStore.open(path) as store:
        again = store.index
    for index in (index, again):  # noqa: B020
        ids = {number_of(name) for name in index.ids.tolist()} - set(range(before))
        assert acknowledged <= ids
        assert ids <= set.union(*(writer.tried for writer in writers))
        assert len(index) == len(ids) + before
        codes, tags, domains = index.get([name_of(i) for i in sorted(ids)])
        np.testing.assert_array_equal(codes, np.vstack([code_of(i) for i in sorted(ids)]))
        assert tags == [(f"tag {i}",) for i in sorted(ids)]
        assert set(domains) == {"photo" if name_of is sku else ""}
    return len(acknowledged)


@pytest.mark.parametrize("n", [9, pytest.param(120, marks=pytest.mark.slow)])
def test_python_writers_that_take_turns_and_are_killed_lose_nothing(tmp_path, n, record_property):
    path = tmp_path / "a.bhi"
    HammingIndex(12).add(np.vstack([code_of(i) for i in range(500)])).save(path)
    link = tmp_path / "link.bhi"
    link.symlink_to(path)
    writers = [
        ScriptWriter(STORE, path, 10_000, n),
        ScriptWriter(STORE, link, 20_000, n, kill_after=n // 3),
        ScriptWriter(SAVE, path, 30_000, n // 3),
        ScriptWriter(SAVE, link, 40_000, n // 3, kill_after=max(1, n // 6)),
    ]
    record_property("acknowledged by Python writers", check(path, writers, 500))


@pytest.mark.parametrize("name_of", [int, sku], ids=["numbers", "text"])
@pytest.mark.parametrize("rounds", [3, pytest.param(60, marks=pytest.mark.slow)])
def test_kills_at_random_moments_lose_nothing(tmp_path, rounds, name_of, record_property):
    rng = np.random.default_rng(0)
    path, writers = tmp_path / "a.bhi", []
    HammingIndex(12).save(path)
    for i in range(rounds):
        script, kill_after = TEXT if name_of is sku else STORE, int(rng.integers(1, 40))
        writer = ScriptWriter(script, path, 1000 * i, 999, kill_after)
        writer.join()
        writers.append(writer)
        leftovers = [name for name in os.listdir(tmp_path) if name.endswith(".tmp")]
        assert len(leftovers) <= 2
    record_property("kills and acknowledged changes", (rounds, check(path, writers, 0, name_of)))
    assert os.listdir(tmp_path) == ["a.bhi"] or os.path.exists(tmp_path / "a.bhi.journal")


def bridgehash(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "bridgehash", *map(str, arguments)]
    env = {**os.environ, "BRIDGEHASH_API_KEY": KEY}
    return subprocess.run(line, cwd=cwd, env=env, capture_output=True, text=True, timeout=LIMIT)


def post(url: str, form: object) -> tuple[int, dict]:
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {KEY}"}
    request = urllib.request.Request(url + ITEMS, json.dumps(form).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=LIMIT) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def code_hex(item: int) -> str:
    return code_of(item).tobytes().hex()


@pytest.mark.slow
def test_the_command_line_and_the_service_take_turns(folder):
    """The command line is refused beside the service, and replays the journal of a killed one."""
    for i in (100, 200):
        np.save(folder / f"codes{i}.npy", np.vstack([code_of(j) for j in range(i, i + 5)]))
        np.save(folder / f"ids{i}.npy", np.arange(i, i + 5))
    served = start(folder)
    try:
        assert post(served.url, {"codes": [code_hex(70)], "ids": [70]})[0] == 200
        journal = folder / "photos.bhi.journal"
        journal.unlink()  # the lock does not depend on it
        lines = (
            ("index", "add", "photos.bhi", "codes100.npy"),
            ("index", "build", "codes100.npy", "--out", "photos.bhi", "--replace"),
            ("serve", "--model", "model.bh", "--index", "photos.bhi", "--port", "0"),
        )
        with ThreadPoolExecutor() as pool:
            for done in pool.map(lambda line: bridgehash(*line, cwd=folder), lines):
                assert done.returncode != 0
                assert "photos.bhi: in use by another process" in done.stderr, done.stderr
        assert post(served.url, {"codes": [code_hex(71)], "ids": [71]})[0] == 200
        status, body = post(served.url, {"codes": [code_hex(72)]})
        assert (status, body["ids"]) == (200, [72])
    finally:
        served.process.kill()
        served.process.wait()
    assert journal.exists()
    assert len(HammingIndex.load(folder / "photos.bhi")) == 63
    added = bridgehash("index", "add", "photos.bhi", "codes100.npy", cwd=folder)  # automatic ids
    assert added.returncode == 0, added.stderr
    assert not journal.exists()
    with running(folder) as served:
        assert post(served.url, {"codes": [code_hex(5)], "ids": [90]})[0] == 200
    ids = HammingIndex.load(folder / "photos.bhi").ids.tolist()
    assert ids == [*range(60), 70, 71, 72, *range(73, 78), 90]


@pytest.mark.slow
def test_an_index_built_over_a_killed_service_has_none_of_its_changes(folder):
    np.save(folder / "new.npy", np.vstack([code_of(i) for i in range(4)]))
    served = start(folder)
    post(served.url, {"codes": [code_hex(9)], "ids": [2]})
    post(served.url, {"codes": [code_hex(9)], "ids": [700]})
    served.process.kill()
    served.process.wait()
    journal = (folder / "photos.bhi.journal").read_bytes()
    done = bridgehash(
        "index", "build", "new.npy", "--out", "photos.bhi", "--replace", "--bits", 12, cwd=folder
    )
    assert done.returncode == 0, done.stderr
    (folder / "photos.bhi.journal").write_bytes(journal)  # as if the build was killed at its end
    shown = bridgehash("index", "info", "photos.bhi", cwd=folder)
    assert "journal of another index" in shown.stderr
    with pytest.warns(LostChangesWarning), IndexStore.open(folder / "photos.bhi") as store:
        assert store.index.ids.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("n", [4, pytest.param(24, marks=pytest.mark.slow)])
def test_command_lines_at_once_keep_every_code(tmp_path, n, record_property):
    HammingIndex(12).save(tmp_path / "a.bhi")
    processes = []
    for i in range(n):
        items = range(100 * i, 100 * i + 30)
        np.save(tmp_path / f"c{i}.npy", np.vstack([code_of(item) for item in items]))
        np.save(tmp_path / f"i{i}.npy", np.array(items))
        line = [sys.executable, "-m", "bridgehash", "index", "add", "a.bhi", f"c{i}.npy"]
        processes.append(
            subprocess.Popen(
                [*line, "--ids", f"i{i}.npy"],
                cwd=tmp_path,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    acknowledged: set[int] = set()
    for i, process in enumerate(processes):
        _, errors = process.communicate(timeout=LIMIT)
        if process.returncode == 0:
            acknowledged |= set(range(100 * i, 100 * i + 30))
        else:
            assert "a.bhi: in use by another process" in errors
    index = HammingIndex.load(tmp_path / "a.bhi")
    assert set(index.ids.tolist()) == acknowledged
    record_property("command lines, acknowledged", (n, len(acknowledged)))


def test_a_reader_sees_every_change_that_was_acknowledged_before(tmp_path):
    """The writer merges all the time, so files and journals are replaced under the reader."""
    path = tmp_path / "a.bhi"
    HammingIndex(12).save(path)
    store = IndexStore.open(path, max_journal_bytes=400)
    n, done = 0, threading.Event()

    def write() -> None:
        nonlocal n
        while not done.is_set():
            store.add(code_of(n))
            n += 1

    thread = threading.Thread(target=write)
    thread.start()
    reads = 0
    try:
        deadline = time.monotonic() + LIMIT
        while (reads < 300 or n < 300) and time.monotonic() < deadline:
            before = n
            index = HammingIndex.load(path, memory_map=bool(reads % 2))
            assert before <= len(index) <= n + 1
            reads += 1
    finally:
        done.set()
        thread.join()
        store.close()


@pytest.mark.slow
def test_a_service_reports_damage_and_serves_the_rest(folder):
    served = start(folder)
    for item in range(70, 80):
        post(served.url, {"codes": [code_hex(item)], "ids": [item]})
    served.process.kill()
    served.process.wait()
    journal = folder / "photos.bhi.journal"
    data = bytearray(journal.read_bytes())
    data[len(data) // 2] ^= 1
    journal.write_bytes(data)
    with running(folder) as served:
        with urllib.request.urlopen(served.url + "/ready", timeout=LIMIT) as response:
            warnings = json.load(response)["warnings"]
        assert "1 of 10 acknowledged changes are damaged" in warnings[0]
        assert "kept as photos.bhi.journal.kept-1" in warnings[0]
        assert "acknowledged changes" in served.log.read_text()
    assert len(HammingIndex.load(folder / "photos.bhi")) == 69
    assert (folder / "photos.bhi.journal.kept-1").read_bytes() == data


# --- disks


@pytest.fixture
def small_disk(tmp_path: Path):
    """A file system of 1 MiB."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("only root can mount a small file system")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def test_a_full_disk_refuses_changes_and_keeps_what_was_acknowledged(small_disk, monkeypatch):
    monkeypatch.setattr("bridgehash.index.store._PROBE_SECONDS", 0)
    path = small_disk / "a.bhi"
    HammingIndex(64).save(path)
    store = IndexStore.open(path)
    acknowledged, part = 0, np.zeros((5000, 8), np.uint8)
    with suppress(JournalError):
        while True:
            store.add(part)
            acknowledged += len(part)
    assert acknowledged > 0
    with pytest.raises(JournalError, match=r"nothing was changed\. Free some space"):
        store.add(part)
    (small_disk / "ballast").write_bytes(bytes(os.statvfs(small_disk).f_bavail * 4096))
    assert "free some space" in store.problem().lower()
    store.close()  # the file cannot be written either
    assert len(HammingIndex.load(path)) == acknowledged
    with pytest.raises(OSError, match="No space left"):
        HammingIndex(64).add(np.zeros((10**5, 8), np.uint8)).save(path)
    assert len(HammingIndex.load(path)) == acknowledged
    (small_disk / "ballast").unlink()
    with IndexStore.open(path) as store:
        assert store.problem() == "" or "kept in the journal" in store.problem()
    assert len(HammingIndex.load(path)) == acknowledged


@pytest.mark.slow
def test_a_service_on_a_full_disk_says_so_and_goes_on_searching(folder, small_disk):
    shutil.copytree(folder, small_disk, dirs_exist_ok=True)

    def ready() -> str:
        time.sleep(1.1)  # the disk is tried once per second
        try:
            with urllib.request.urlopen(served.url + "/ready", timeout=LIMIT) as response:
                return json.load(response)["status"]
        except urllib.error.HTTPError as error:
            return json.load(error)["detail"]

    with running(small_disk) as served:
        assert ready() == "ready"
        (small_disk / "ballast").write_bytes(bytes(os.statvfs(small_disk).f_bavail * 4096))
        assert "free some space" in ready()
        many = {"codes": [code_hex(9)] * 1000}
        assert post(served.url, many)[0] == 503
        with urllib.request.urlopen(served.url + ITEMS, timeout=LIMIT) as response:
            assert json.load(response)["total"] == 60
        (small_disk / "ballast").unlink()
        assert ready() == "ready"
        assert post(served.url, many)[0] == 200
    assert len(HammingIndex.load(small_disk / "photos.bhi")) == 1060


def test_a_read_only_disk_can_be_read(small_disk):
    path = small_disk / "a.bhi"
    HammingIndex(12).add(code_of(1)).save(path)
    store = IndexStore.open(path)
    store.add(code_of(2))
    journal = (small_disk / "a.bhi.journal").read_bytes()
    file = path.read_bytes()
    store.close()
    path.write_bytes(file)
    (small_disk / "a.bhi.journal").write_bytes(journal)
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    assert len(HammingIndex.load(path)) == 2
    assert len(IndexStore.open(path, writable=False).index) == 2
    for write in (lambda: IndexStore.open(path), lambda: HammingIndex(12).save(path)):
        with pytest.raises(InputError, match="cannot be written"):
            write()
