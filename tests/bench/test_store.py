"""Finished records survive whatever happens to the one that is being written."""

import errno
import os

import pytest

from bridgehash import InputError, JournalError
from bridgehash.bench.store import ResultStore, record_key


@pytest.fixture
def store(tmp_path):
    return ResultStore(tmp_path / "results" / "suite.jsonl")


def fill(store, *keys):
    with store.writer() as append:
        for key in keys:
            append({"key": key, "value": key.upper()})


def test_records_come_back_in_order(store):
    assert store.records() == {}
    fill(store, "a", "b")
    fill(store, "c")
    assert list(store.records()) == ["a", "b", "c"]
    assert store.records()["b"]["value"] == "B"


def test_a_later_record_replaces_an_earlier_one(store):
    with store.writer() as append:
        for key, value in (("a", 1), ("b", 2), ("a", 3)):
            append({"key": key, "value": value})
    assert {key: record["value"] for key, record in store.records().items()} == {"a": 3, "b": 2}


def test_a_torn_last_line_is_ignored_and_cut_off(store):
    fill(store, "a", "b")
    for i, rest in enumerate((b"", b'{"key": "c", "val', b'{"key": "c"}', b"\xff\xfe")):
        before = list(store.records())
        with store.path.open("ab") as file:
            file.write(rest)
        assert list(store.records()) == before
        fill(store, str(i))
        assert list(store.records()) == [*before, str(i)]


def test_plain_lines_of_json_are_records_whatever_wrote_them(store):
    store.path.parent.mkdir()
    store.path.write_text('{"key": "a", "value": 1}\n\n{"value": 2, "key": "b"}\n')
    fill(store, "c")
    assert [record["value"] for record in store.records().values()] == [1, 2, "C"]


def test_an_error_names_the_line_that_is_not_a_record(store):
    fill(store, "a")
    with store.path.open("ab") as file:
        file.write(b"nonsense\n")
    with pytest.raises(InputError, match="line 2 is not a record"):
        store.records()


def test_a_full_disk_leaves_what_was_there(store, monkeypatch):
    fill(store, "a")
    before = store.path.read_bytes()

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(JournalError, match="No space"), store.writer() as append:
        append({"key": "b"})
    monkeypatch.undo()
    assert store.path.read_bytes() == before
    fill(store, "c")
    assert list(store.records()) == ["a", "c"]


def test_values_that_json_does_not_know_are_refused(store):
    with store.writer() as append:
        with pytest.raises(ValueError, match="JSON"):
            append({"key": "a", "value": float("nan")})
        append({"key": "b"})
    assert list(store.records()) == ["b"]


def test_two_runs_may_not_write_at_once(store):
    with (
        store.writer(),
        pytest.raises(InputError, match="in use by another process"),
        store.writer(),
    ):
        pass


def test_a_key_depends_on_values_and_not_on_their_order():
    assert record_key({"a": 1, "b": [1, 2]}) == record_key({"b": [1, 2], "a": 1})
    assert record_key({"a": 1}) != record_key({"a": 2})
