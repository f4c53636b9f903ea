"""Finished records survive whatever happens to the one being written."""

import errno
import json
import os
import subprocess
import sys
import time

import pytest

from bridgehash.bench.store import Store, StoreError, record_key


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "results" / "suite.jsonl")


def fill(store, *keys):
    with store.writer() as writer:
        for key in keys:
            writer.append({"key": key, "value": key.upper()})


def test_records_come_back_in_order(store):
    assert store.records() == {}
    fill(store, "a", "b")
    fill(store, "c")
    assert list(store.records()) == ["a", "b", "c"]
    assert store.records()["b"]["value"] == "B"


def test_a_later_record_replaces_an_earlier_one(store):
    with store.writer() as writer:
        writer.append({"key": "a", "value": 1})
        writer.append({"key": "b", "value": 2})
        writer.append({"key": "a", "value": 3})
    assert {key: record["value"] for key, record in store.records().items()} == {"a": 3, "b": 2}


@pytest.mark.parametrize("rest", [b"", b'{"key": "c", "val', b'{"key": "c"}', b"\xff\xfe"])
def test_an_unfinished_last_line_is_passed_over_and_cut_off(store, rest):
    fill(store, "a", "b")
    with store.path.open("ab") as file:
        file.write(rest)
    assert list(store.records()) == ["a", "b"]
    fill(store, "d")
    assert list(store.records()) == ["a", "b", "d"]


def test_a_file_that_is_one_unfinished_line_is_emptied(store):
    store.path.parent.mkdir()
    store.path.write_bytes(b"x" * 200_000)
    fill(store, "a")
    assert store.path.read_text() == '{"key": "a", "value": "A"}\n'


def test_a_line_that_is_no_record_is_named(store):
    fill(store, "a")
    with store.path.open("ab") as file:
        file.write(b"nonsense\n")
    with pytest.raises(StoreError, match="line 2 is not a record"):
        store.records()


def test_a_full_disk_leaves_what_was_there(store, monkeypatch):
    fill(store, "a")
    before = store.path.read_bytes()

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"), store.writer() as writer:
        writer.append({"key": "b"})
    monkeypatch.undo()
    assert store.path.read_bytes() == before
    fill(store, "c")
    assert list(store.records()) == ["a", "c"]


def test_values_that_json_does_not_know_are_refused(store):
    with store.writer() as writer:
        with pytest.raises(ValueError, match="JSON"):
            writer.append({"key": "a", "value": float("nan")})
        writer.append({"key": "b"})
    assert list(store.records()) == ["b"]


def test_two_runs_may_not_write_at_once(store):
    with store.writer(), pytest.raises(StoreError, match="another run"), store.writer():
        pass


WRITE_FOR_EVER = """
import sys
from bridgehash.bench.store import Store
with Store(sys.argv[1]).writer() as writer:
    for i in range(10**9):
        writer.append({"key": str(i), "value": "x" * 5000})
"""


def test_kill_9_loses_no_finished_record(store):
    worker = subprocess.Popen([sys.executable, "-c", WRITE_FOR_EVER, str(store.path)])
    while not store.path.exists() or store.path.stat().st_size < 100_000:
        time.sleep(0.01)
        assert worker.poll() is None
    seen = len(store.records())
    worker.kill()
    worker.wait()
    found = store.records()
    assert len(found) >= seen > 0
    assert list(found) == [str(i) for i in range(len(found))]
    fill(store, "more")
    for line in store.path.read_text().splitlines():
        json.loads(line)


def test_a_key_is_blind_to_order_and_sees_every_value():
    assert record_key({"a": 1, "b": [1, 2]}) == record_key({"b": [1, 2], "a": 1})
    assert record_key({"a": 1}) != record_key({"a": 2})
