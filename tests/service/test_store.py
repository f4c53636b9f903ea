"""An index on disk: changes are journalled, replayed and merged into the file."""

from __future__ import annotations

import os
import shutil

import numpy as np
import pytest

from bridgehash.index import HammingIndex
from bridgehash.service.errors import RequestError
from bridgehash.service.store import Add, IndexStore, Remove, Upsert, as_record, from_record

ONE = np.array([[1]], np.uint8)


@pytest.fixture
def path(tmp_path):
    HammingIndex(8).add([[1], [2], [3]]).save(tmp_path / "a.bhi")
    return tmp_path / "a.bhi"


def opened(path, **options):
    return IndexStore.open(path, writable=True, **options)


def test_changes_survive_as_records():
    rng = np.random.default_rng(0)
    ids = np.array([3, 2**53 - 1, 0, 9, 5])
    for n_bits in (1, 12, 64, 100):
        codes = rng.integers(0, 256, (5, -(-n_bits // 8)), dtype=np.uint8)
        for tags in (None, ["a", "", "Ünï\U0001f600", '"', "\n"]):
            back = from_record(as_record(Upsert(codes, ids, tags)), n_bits)
            assert isinstance(back, Upsert)
            np.testing.assert_array_equal(back.codes, codes)
            np.testing.assert_array_equal(back.ids, ids)
            assert back.tags == tags
    gone = from_record(as_record(Remove(ids)), n_bits)
    assert isinstance(gone, Remove)
    np.testing.assert_array_equal(gone.ids, ids)


def test_a_kill_between_merging_and_clearing_changes_nothing(path, tmp_path):
    store = opened(path)
    store.change([Add(ONE * 9, np.array([7])), Remove(np.array([0]))])
    store.change([Upsert(ONE * 8, np.array([7])), Remove(np.array([1]))])
    copy = tmp_path / "killed.bhi"
    store.index.save(copy)  # the file has all changes, and so does the journal
    shutil.copy(f"{path}.journal", f"{copy}.journal")
    store.close()
    again = opened(copy)
    assert again.index.ids.tolist() == [2, 7]
    assert again.index.get([7])[0].tolist() == [[8]]
    again.close()
    assert not (tmp_path / "killed.bhi.journal").exists()


def test_changes_of_a_batch_are_made_in_order(path):
    store = opened(path)
    batch = [Add(ONE), Add(ONE), Remove(np.array([3])), Upsert(ONE, np.array([4]))]
    results = store.change(batch)
    assert [result.ids.tolist() for result in results] == [[3], [4], [3], [4]]
    assert [result.n_added for result in results] == [1, 1, 0, 0]
    assert [result.n_removed for result in results] == [0, 0, 1, 0]
    assert [result.n_replaced for result in results] == [0, 0, 0, 1]
    store.close()
    assert HammingIndex.load(path).ids.tolist() == [0, 1, 2, 4]


def test_an_id_that_exists_by_then_is_not_added(path):
    store = opened(path)
    batch = [
        Add(np.vstack([ONE, ONE]), np.array([9, 1])),  # 1 is in the file, so 9 is not added either
        Add(ONE, np.array([9])),
        Add(ONE, np.array([9])),  # added just before
        Remove(np.array([1, 9])),
        Add(np.vstack([ONE, ONE]), np.array([9, 1])),  # removed just before
        Upsert(ONE, np.array([12])),
        Add(ONE, np.array([12])),
        Add(ONE),
    ]
    results = store.change(batch)
    failed = [i for i, result in enumerate(results) if isinstance(result, RequestError)]
    assert failed == [0, 2, 6]
    assert {(results[i].status, results[i].field) for i in failed} == {(409, "ids")}
    assert str(results[0]) == "ids: item 1 exists; replace it with PUT"
    assert results[-1].ids.tolist() == [13]
    reader = IndexStore.open(path, writable=False)  # from the journal
    for index in (store.index, reader.index):
        assert index.ids.tolist() == [0, 1, 2, 9, 12, 13]
    store.close()


def test_one_batch_is_one_fsync(path, monkeypatch):
    store = opened(path)
    calls, real = [], os.fsync
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", lambda d: calls.append(d) or real(d))
        store.change([Add(ONE) for _ in range(50)])
    assert len(calls) == 1
    store.close()


def test_a_reader_sees_the_journal_and_changes_nothing(path, tmp_path):
    store = opened(path)
    store.change([Add(ONE)])
    before = (tmp_path / "a.bhi.journal").read_bytes()
    reader = IndexStore.open(path, writable=False)
    assert len(reader.index) == 4
    (result,) = reader.change([Add(ONE)])
    assert (result.status, len(reader.index)) == (403, 4)
    reader.close()
    assert (tmp_path / "a.bhi.journal").read_bytes() == before
    assert len(HammingIndex.load(path)) == 3
    store.close()


def test_an_index_file_that_cannot_be_written_keeps_its_journal(path, tmp_path, monkeypatch):
    store = opened(path)
    store.change([Add(ONE)])

    def full(path):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(store.index, "save", full)
    store.close()
    assert len(HammingIndex.load(path)) == 3
    assert len(IndexStore.open(path, writable=False).index) == 4
