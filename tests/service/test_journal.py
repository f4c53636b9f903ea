"""What was acknowledged is there again; what was torn is not; nothing else is touched."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from bridgehash.service.journal import Journal, framed, read_records

from bridgehash._core.errors import JournalError
from bridgehash.index import HammingIndex
from bridgehash.service.store import Put, Store, Take, as_record, from_record

ABOUT = {"n_bits": 12}
RECORDS = [b"one", b"two" * 100, b"three"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.bhi.journal"


def kept(path: Path) -> list[bytes]:
    journal, records = Journal.open(path, ABOUT)
    journal._descriptor, descriptor = -1, journal._descriptor
    os.close(descriptor)
    return records


def test_records_come_back_in_order(path):
    journal, records = Journal.open(path, ABOUT)
    assert records == []
    journal.append(RECORDS[:2])
    journal.append(RECORDS[2:])
    os.close(journal._descriptor)
    assert kept(path) == RECORDS
    assert read_records(path, ABOUT) == RECORDS


def test_a_file_cut_anywhere_gives_the_records_before_the_cut(path):
    journal, _ = Journal.open(path, ABOUT)
    start = journal.size
    journal.append(RECORDS)
    os.close(journal._descriptor)
    whole = path.read_bytes()
    ends = [start + len(framed(RECORDS[:n])) for n in range(4)]
    for cut in range(len(whole) + 1):
        path.write_bytes(whole[:cut])
        n = sum(end <= cut for end in ends) - 1
        assert kept(path) == RECORDS[: max(n, 0)]
        journal, _ = Journal.open(path, ABOUT)
        journal.append([b"more"])  # what comes next is not lost behind the torn end
        os.close(journal._descriptor)
        assert kept(path) == [*RECORDS[: max(n, 0)], b"more"]


def test_a_changed_byte_ends_the_records(path):
    journal, _ = Journal.open(path, ABOUT)
    start = journal.size
    journal.append(RECORDS)
    os.close(journal._descriptor)
    whole = bytearray(path.read_bytes())
    whole[start + len(framed(RECORDS[:1])) + 20] ^= 1
    path.write_bytes(whole)
    assert kept(path) == RECORDS[:1]


def test_what_was_dropped_does_not_come_back(path):
    journal, _ = Journal.open(path, ABOUT)
    journal.append([b"one", b"two", b"six"])
    start = journal.size - len(framed([b"two", b"six"]))
    os.close(journal._descriptor)
    whole = bytearray(path.read_bytes())
    whole[start + 9] ^= 1
    path.write_bytes(whole)
    journal, _ = Journal.open(path, ABOUT)
    journal.append([b"new"])  # as long as the broken one
    os.close(journal._descriptor)
    assert kept(path) == [b"one", b"new"]


def test_a_journal_of_another_index_is_refused(path):
    os.close(Journal.open(path, ABOUT)[0]._descriptor)
    for read in (Journal.open, read_records):
        with pytest.raises(ValueError, match="changes of another index"):
            read(path, {"n_bits": 16})


def test_one_process_at_a_time(path):
    journal, _ = Journal.open(path, ABOUT)
    with pytest.raises(ValueError, match="another service has this index open"):
        Journal.open(path, ABOUT)
    journal.close()
    assert not path.exists()
    Journal.open(path, ABOUT)[0].close()


def test_a_failed_write_leaves_nothing(path, monkeypatch):
    journal, _ = Journal.open(path, ABOUT)
    journal.append(RECORDS[:1])
    real = os.pwrite

    def torn(descriptor, data, offset):
        real(descriptor, bytes(data)[:3], offset)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", torn)
    with pytest.raises(JournalError, match="nothing was changed"):
        journal.append(RECORDS[1:])
    monkeypatch.undo()
    journal.append(RECORDS[2:])
    os.close(journal._descriptor)
    assert kept(path) == [RECORDS[0], RECORDS[2]]


def test_a_disk_that_fails_twice_is_not_trusted(path, monkeypatch):
    journal, _ = Journal.open(path, ABOUT)

    def fails(*arguments):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(JournalError):
        journal.append(RECORDS)
    monkeypatch.undo()
    assert "restart" in journal.broken
    with pytest.raises(JournalError, match="restart"):
        journal.append(RECORDS)
    os.close(journal._descriptor)


@pytest.mark.parametrize("n_bits", [1, 8, 12, 64, 100])
def test_changes_survive_as_records(n_bits):
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 256, (5, -(-n_bits // 8)), dtype=np.uint8)
    ids = np.array([3, 2**53 - 1, 0, 9, 5])
    for tags in (None, ["a", "", "Ünï\U0001f600", '"', "\n"]):
        back = from_record(as_record(Put(codes, ids, tags)), n_bits)
        assert isinstance(back, Put)
        np.testing.assert_array_equal(back.codes, codes)
        np.testing.assert_array_equal(back.ids, ids)
        assert back.tags == tags
    gone = from_record(as_record(Take(ids)), n_bits)
    assert isinstance(gone, Take)
    np.testing.assert_array_equal(gone.ids, ids)


def opened(path: Path, **options: bool) -> Store:
    return Store.open(path, writable=True, **options)


def test_a_kill_between_folding_and_emptying_changes_nothing(tmp_path):
    path = tmp_path / "a.bhi"
    HammingIndex(8).add([[1], [2], [3]]).save(path)
    store = opened(path)
    store.change([Put(np.array([[9]], np.uint8), np.array([7])), Take(np.array([0]))])
    store.change([Put(np.array([[8]], np.uint8), np.array([7])), Take(np.array([1]))])
    store.index.save(path)  # the file has it all, the journal too
    os.close(store._journal._descriptor)
    again = opened(path)
    assert again.index.ids.tolist() == [2, 7]
    assert again.index.get([7])[0].tolist() == [[8]]
    assert again._journal.is_empty
    again.close()


def test_changes_in_a_group_are_made_in_their_order(tmp_path):
    path = tmp_path / "a.bhi"
    HammingIndex(8).save(path)
    store = opened(path)
    one = np.array([[1]], np.uint8)
    done = store.change([Put(one), Put(one), Take(np.array([0])), Put(one, np.array([1]))])
    assert [change.ids.tolist() for change in done] == [[0], [1], [0], [1]]
    assert [change.n_removed for change in done] == [0, 0, 1, 0]
    assert [change.n_replaced for change in done] == [0, 0, 0, 1]
    store.close()
    assert HammingIndex.load(path).ids.tolist() == [1]


def test_one_group_is_one_fsync(tmp_path, monkeypatch):
    path = tmp_path / "a.bhi"
    HammingIndex(8).save(path)
    store = opened(path)
    calls = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda d: calls.append(d) or real(d))
    store.change([Put(np.array([[1]], np.uint8)) for _ in range(50)])
    assert len(calls) == 1
    monkeypatch.undo()
    store.close()


def test_a_reader_sees_the_journal_and_leaves_it(tmp_path):
    path = tmp_path / "a.bhi"
    HammingIndex(8).add([[1]]).save(path)
    store = opened(path)
    store.change([Put(np.array([[5]], np.uint8))])
    before = (tmp_path / "a.bhi.journal").read_bytes()
    reader = Store.open(path, writable=False)
    assert len(reader.index) == 2
    reader.close()
    assert (tmp_path / "a.bhi.journal").read_bytes() == before
    assert len(HammingIndex.load(path)) == 1
    store.close()
