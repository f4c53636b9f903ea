"""An index on disk: changes are journalled, replayed and merged into the file."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import warnings

import numpy as np
import pytest

from bridgehash._core.errors import IdExistsError, InputError, JournalError, LostChangesWarning
from bridgehash.index import HammingIndex, IndexStore
from bridgehash.index import store as module
from bridgehash.index.attributes import parse_attributes
from bridgehash.index.batch import Batch
from bridgehash.index.changes import Add, Remove, Upsert, as_record, from_record
from bridgehash.index.ids import MAX_ID, free_ids, parse_ids

ONE = np.array([[1]], np.uint8)


@pytest.fixture
def path(tmp_path):
    HammingIndex(8).add([[1], [2], [3]]).save(tmp_path / "a.bhi")
    return tmp_path / "a.bhi"


def read(path):
    return IndexStore.open(path, writable=False).index


# --- changes


def test_changes_survive_as_records():
    rng = np.random.default_rng(0)
    for ids in ([0, 3, 5, 9, 2**53 - 1], ["a", "b" * 256, "Ünï\U0001f600", "日" * 256, "日本"]):
        ids = parse_ids(ids)
        for n_bits in (1, 12, 64, 100):
            codes = rng.integers(0, 256, (5, -(-n_bits // 8)), dtype=np.uint8)
            codes[:, -1] &= 0xFF << (-n_bits % 8) & 0xFF
            for tags, domain in (
                (None, None),
                (["a", "", ["Ünï\U0001f600\ud800", "b"], '"', "\n\0"], None),
                (None, "photo"),
                (["", [], "", "x", "x"], ["a", "b", "a", "", "\0"]),
            ):
                given = parse_attributes(tags, domain, 5)
                back = from_record(as_record(Batch(codes, ids, given)), n_bits)
                assert isinstance(back, Batch)
                np.testing.assert_array_equal(back.codes, codes)
                np.testing.assert_array_equal(back.ids, ids)
                if given is None:
                    assert back.attributes is None
                else:
                    assert back.attributes.entries == given.entries
                    np.testing.assert_array_equal(back.attributes.numbers, given.numbers)
        gone = from_record(as_record(Remove(ids)), n_bits)
        assert isinstance(gone, Remove)
        np.testing.assert_array_equal(gone.ids, ids)


def test_a_store_of_text_ids_is_the_same_after_a_restart(tmp_path):
    path = tmp_path / "a.bhi"
    HammingIndex(8).save(path)
    store = IndexStore.open(path)
    results = store.change(
        [
            Remove(np.array([7])),  # of an index without ids: nothing
            Add([[1], [2]], ["b", "a"], [["x", "y"], ""], "photo"),
            Add([[3]]),  # the kind was decided just before
            Add([[3]], [7]),
            Add([[3]], ["a"]),
            Upsert([[4], [5]], ["c", "a"], None, ["sketch", ""]),
            Remove(np.array([7])),
            Remove(np.array(["b"], object)),
            Add([[6]], ["b"], ["z"]),
        ]
    )
    failed = {i: str(result) for i, result in enumerate(results) if isinstance(result, InputError)}
    assert list(failed) == [2, 3, 4, 6]
    assert "give one id per code" in failed[2]
    assert "ids of this index are text" in failed[3]
    assert "id a is in the index already" in failed[4]
    assert results[1].ids.tolist() == ["b", "a"], "in the given order"
    assert results[5][1:3] == (1, 1)
    for index in (store.index, read(path)):
        assert index.ids.tolist() == ["a", "b", "c"]
        codes, tags, domains = index.get(["a", "b", "c"])
        assert codes.tolist() == [[5], [6], [4]]
        assert (tags, domains) == ([(), ("z",), ()], ["", "", "sketch"])
    store.close()
    with IndexStore.open(path) as store:
        assert store.index.ids.tolist() == ["a", "b", "c"]
        assert store.remove(["a", "c", "b"]) == 3
    with IndexStore.open(path) as store, pytest.raises(InputError, match="text ids"):
        store.add([[1]])


def test_changes_of_a_batch_are_made_in_order(path):
    with IndexStore.open(path) as store:
        batch = [Add(ONE), Add(ONE), Remove(np.array([3])), Upsert(ONE, np.array([4]))]
        results = store.change(batch)
    assert [result.ids.tolist() for result in results] == [[3], [4], [3], [4]]
    assert [result.n_added for result in results] == [1, 1, 0, 0]
    assert [result.n_removed for result in results] == [0, 0, 1, 0]
    assert [result.n_replaced for result in results] == [0, 0, 0, 1]
    assert HammingIndex.load(path).ids.tolist() == [0, 1, 2, 4]


def outcome(result):
    if isinstance(result, InputError):
        return str(result)
    return result.ids.tolist(), *result[1:]


@pytest.mark.parametrize("text", [False, True])
def test_a_batch_of_changes_is_the_same_as_one_after_the_other(tmp_path, text):
    rng = np.random.default_rng(0)
    for name in ("a", "b"):
        HammingIndex(8).save(tmp_path / name)
    together, single = IndexStore.open(tmp_path / "a"), IndexStore.open(tmp_path / "b")

    def change():
        n = int(rng.integers(0, 4))
        ids = parse_ids([f"é{i}" if text else int(i) for i in rng.permutation(12)[:n]])
        codes = rng.integers(0, 256, (n, 1), dtype=np.uint8)
        tags = [None, ["x", ["y", "z"], ""][:n]][rng.integers(2)]
        domain = [None, "photo"][rng.integers(2)]
        if n < 3 and tags:
            tags = tags[:n]
        kind = rng.integers(4)
        if kind == 0:
            return Remove(ids)
        if kind == 1:
            return Upsert(codes, ids, tags, domain)
        return Add(codes, None if kind == 2 and rng.random() < 0.3 else ids, tags, domain)

    for _ in range(60):
        changes = [change() for _ in range(rng.integers(1, 7))]
        results = together.change(changes)
        expected = [result for one in changes for result in single.change([one])]
        assert list(map(outcome, results)) == list(map(outcome, expected))
        for one, other in ((together.index, single.index), (read(together.path), single.index)):
            assert one.ids.tolist() == other.ids.tolist()
            assert one.get(one.ids).codes.tolist() == other.get(one.ids).codes.tolist()
            assert one.get(one.ids)[1:] == other.get(one.ids)[1:]
    together.close()
    single.close()


def test_an_id_that_exists_by_then_is_not_added(path):
    store = IndexStore.open(path)
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
    failed = {i: result for i, result in enumerate(results) if isinstance(result, InputError)}
    assert {i: error.id for i, error in failed.items()} == {0: 1, 2: 9, 6: 12}
    assert results[4].ids.tolist() == [9, 1], "in the given order"
    assert results[-1].ids.tolist() == [13]
    for index in (store.index, read(path)):
        assert index.ids.tolist() == [0, 1, 2, 9, 12, 13]
    store.close()


def test_single_changes_raise_their_error_and_change_nothing(path):
    with IndexStore.open(path) as store:
        assert store.add([[7], [8]], tags=["x", ""]).tolist() == [3, 4]
        assert store.upsert([[9], [9]], [4, 5])[1:3] == (1, 1)
        assert store.remove([0, 77]) == 1
        before = store.journal_bytes
        with pytest.raises(IdExistsError, match="id 1 is in the index already"):
            store.add([[7]], [1])
        with pytest.raises(InputError, match="codes: shape"):
            store.add([[7, 7]])
        with pytest.raises(InputError, match="tags"):
            store.add([[7]], tags=[7])
        assert store.journal_bytes == before
    index = HammingIndex.load(path)
    assert index.ids.tolist() == [1, 2, 3, 4, 5]
    assert index.get([3, 4]).tags == [("x",), ()]


def test_ids_near_the_highest_one_do_not_block_automatic_ids(path):
    with IndexStore.open(path) as store:
        store.upsert([[1], [2]], [4, MAX_ID])
        assert store.add([[5], [6], [7]]).tolist() == [3, 5, 6]
        results = store.change([Add(ONE), Add(ONE, np.array([9])), Add(np.vstack([ONE, ONE]))])
        assert [r.ids.tolist() for r in results] == [[7], [9], [8, 10]]
    index = HammingIndex.load(path).add(ONE)
    assert index.contains([11]).all()
    assert HammingIndex(8).add(ONE, [2**63 - 1]).add(ONE).ids.tolist() == [0, 2**63 - 1]


@pytest.mark.parametrize("n", [1, 2, 5, 100])
def test_free_ids_are_free_and_the_lowest(n):
    rng = np.random.default_rng(n)
    for _ in range(50):
        ids = np.unique([*rng.integers(0, 20, 10), MAX_ID - rng.integers(3), 2**62])
        expected = [i for i in range(200) if i not in ids][:n]
        assert free_ids(ids, n).tolist() == expected
    assert free_ids(np.empty(0, np.int64), n).tolist() == list(range(n))


def test_one_batch_is_one_fsync(path, monkeypatch):
    store = IndexStore.open(path)
    store.change([Add(ONE)])
    calls, real = [], os.fsync
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", lambda d: calls.append(d) or real(d))
        store.change([Add(ONE) for _ in range(50)])
    assert len(calls) == 1
    store.close()


def test_a_reader_sees_the_journal_and_changes_nothing(path, tmp_path):
    store = IndexStore.open(path)
    store.change([Add(ONE)])
    before = (tmp_path / "a.bhi.journal").read_bytes()
    reader = IndexStore.open(path, writable=False)
    with pytest.raises(InputError, match="reading only"):
        reader.add(ONE)
    reader.close()
    assert (tmp_path / "a.bhi.journal").read_bytes() == before
    for index in (reader.index, HammingIndex.load(path), HammingIndex.load(path, memory_map=True)):
        assert len(index) == 4
    store.close()


# --- one writer


def test_two_writers_cannot_have_an_index_whatever_its_name(path, tmp_path):
    link, folder = tmp_path / "link.bhi", tmp_path / "folder"
    link.symlink_to(path)
    folder.symlink_to(tmp_path, target_is_directory=True)
    with IndexStore.open(link) as store:
        store.add(ONE)
        assert (tmp_path / "a.bhi.journal").exists(), "beside the file, not beside the link"
        for name in (path, link, folder / "a.bhi"):
            with pytest.raises(InputError, match="in use by another process"):
                IndexStore.open(name)
            with pytest.raises(InputError, match="in use by another process"):
                HammingIndex(8).save(name)
        (tmp_path / "a.bhi.journal").unlink()
        with pytest.raises(InputError, match="in use by another process"):
            IndexStore.open(path)
    assert link.is_symlink()
    assert len(HammingIndex.load(path)) == 4


def test_a_deleted_journal_is_written_again(path, tmp_path):
    store = IndexStore.open(path)
    store.add([[7]])
    (tmp_path / "a.bhi.journal").unlink()
    store.add([[8]])
    assert read(path).ids.tolist() == [0, 1, 2, 3, 4]
    store.close()


def test_the_lock_is_kept_when_the_file_is_replaced(path):
    store = IndexStore.open(path, max_journal_bytes=1)
    for _ in range(3):
        store.add(ONE)  # merged at once: another file each time
        with pytest.raises(InputError, match="in use by another process"):
            IndexStore.open(path)
    store.close()
    IndexStore.open(path).close()


def test_a_writer_waits_for_another_process(path):
    script = (
        "import sys, time; from bridgehash.index import IndexStore\n"
        f"store = IndexStore.open({str(path)!r}); print('open', flush=True); sys.stdin.read()\n"
        "store.add([[9]]); store.close()"
    )
    line = [sys.executable, "-c", script]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        with pytest.raises(InputError, match="in use by another process"):
            IndexStore.open(path, wait=0.1)
        other.stdin.close()
        with IndexStore.open(path, wait=300) as store:
            assert len(store.index) == 4


def test_saving_over_changes_of_others_is_refused(path):
    mine, theirs = HammingIndex.load(path), HammingIndex.load(path)
    theirs.add([[4]]).save(path)
    theirs.add([[5]]).save(path)  # its own changes are no obstacle
    with pytest.raises(InputError, match=r"a\.bhi: was changed since it was loaded; load it again"):
        mine.add([[6]]).save(path)
    again = HammingIndex.load(path)
    with IndexStore.open(path) as store:
        store.add([[7]])
    with pytest.raises(InputError, match="was changed since it was loaded"):
        again.save(path)
    assert HammingIndex.load(path).ids.tolist() == [0, 1, 2, 3, 4, 5]
    mine.save(path.with_name("b.bhi"))
    with pytest.raises(InputError, match="exists already"):
        HammingIndex(8).save(path, overwrite=False)
    HammingIndex(8).save(path)  # a new index replaces the old one on purpose
    assert len(HammingIndex.load(path)) == 0


# --- the journal belongs to one generation of one file


def test_a_kill_between_merging_and_clearing_changes_nothing(path, tmp_path):
    store = IndexStore.open(path)
    store.change([Add(ONE * 9, np.array([7])), Remove(np.array([0]))])
    store.change([Upsert(ONE * 8, np.array([7])), Remove(np.array([1]))])
    journal = (tmp_path / "a.bhi.journal").read_bytes()
    store.close()
    (tmp_path / "a.bhi.journal").write_bytes(journal)
    HammingIndex.load(path)  # the file has all changes, and so does the journal
    with IndexStore.open(path) as again:
        assert again.warning == ""
        assert again.index.ids.tolist() == [2, 7]
        assert again.index.get([7])[0].tolist() == [[8]]
    assert os.listdir(tmp_path) == ["a.bhi"]


def test_a_journal_is_never_applied_to_another_index(path, tmp_path):
    store = IndexStore.open(path)
    store.add([[7]], [100])
    shutil.copy(tmp_path / "a.bhi.journal", tmp_path / "stale")
    store.close()
    HammingIndex(8).add([[1], [2], [3]]).save(path)  # the same codes, but another index
    shutil.copy(tmp_path / "stale", tmp_path / "a.bhi.journal")
    with pytest.warns(LostChangesWarning, match=r"a\.bhi\.journal: is the journal of another"):
        assert HammingIndex.load(path).ids.tolist() == [0, 1, 2]
    with pytest.warns(LostChangesWarning, match=r"kept as a\.bhi\.journal\.kept-1"):
        store = IndexStore.open(path)
    assert store.index.ids.tolist() == [0, 1, 2]
    store.close()
    kept = (tmp_path / "a.bhi.journal.kept-1").read_bytes()
    assert kept == (tmp_path / "stale").read_bytes()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        IndexStore.open(path).close()


def test_an_index_that_is_saved_drops_the_journal_of_the_old_one(path, tmp_path):
    store = IndexStore.open(path)
    store.add([[7]], [100])
    journal = (tmp_path / "a.bhi.journal").read_bytes()
    store.close()
    (tmp_path / "a.bhi.journal").write_bytes(journal)
    HammingIndex(8).add([[5]]).save(path)
    assert os.listdir(tmp_path) == ["a.bhi"]


def test_another_file_put_in_place_is_not_overwritten(path, tmp_path):
    store = IndexStore.open(path)
    store.add([[7]])
    HammingIndex(8).save(tmp_path / "other.bhi")
    os.replace(tmp_path / "other.bhi", path)
    store.close()
    assert "was replaced by another program" in store._merge_problem
    with pytest.warns(LostChangesWarning):
        assert len(HammingIndex.load(path)) == 0
    assert (tmp_path / "a.bhi.journal").exists()


def test_damage_in_the_middle_is_reported_and_the_rest_is_recovered(path, tmp_path):
    store, places = IndexStore.open(path), []
    for code in range(10, 20):
        places.append(store.journal_bytes)
        store.add([[code]], [code])
    whole, data = path.read_bytes(), bytearray((tmp_path / "a.bhi.journal").read_bytes())
    store.close()
    path.write_bytes(whole)
    data[places[3] + 40] ^= 4
    data[places[4] + 3] ^= 4
    (tmp_path / "a.bhi.journal").write_bytes(data)
    with pytest.warns(LostChangesWarning, match="2 of 10 acknowledged changes .* number 4 to 5"):
        assert HammingIndex.load(path).ids.tolist() == [0, 1, 2, 10, 11, 12, *range(15, 20)]
    with pytest.warns(LostChangesWarning, match=r"kept as a\.bhi\.journal\.kept-1"):
        store = IndexStore.open(path)
    assert "number 4 to 5" in store.warning
    assert (tmp_path / "a.bhi.journal.kept-1").read_bytes() == data
    store.close()
    assert HammingIndex.load(path).ids.tolist() == [0, 1, 2, 10, 11, 12, *range(15, 20)]


# --- a disk that fails


def test_an_index_file_that_cannot_be_written_keeps_its_journal(path, tmp_path, monkeypatch):
    for error in (OSError(28, "No space left on device"), MemoryError(), ValueError("odd")):

        def fails(*_, raised=error, **__):
            raise raised

        store = IndexStore.open(path, max_journal_bytes=1)
        n = len(store.index)
        with monkeypatch.context() as patched:
            patched.setattr(store.index, "write", fails)
            store.add(ONE)
            assert "changes are kept in the journal" in store.problem()
            store.add(ONE)
            store.close()
        assert len(HammingIndex.load(path)) == n + 2
        assert (tmp_path / "a.bhi.journal").exists()
    with IndexStore.open(path) as store:
        assert store.problem() == ""


def test_a_full_disk_refuses_changes_until_there_is_space(path, monkeypatch):
    monkeypatch.setattr(module, "_PROBE_SECONDS", 0)
    store = IndexStore.open(path)
    store.add(ONE)

    def full(descriptor):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", lambda *_: full(0))
        assert "free some space" in store.problem()
        with pytest.raises(JournalError, match="nothing was changed"):
            store.add(ONE)
    assert store.problem() == ""
    assert store.add(ONE).tolist() == [4]
    store.close()


def test_leftovers_of_a_killed_writer_are_removed(path, tmp_path):
    script = (
        "import os, signal; from bridgehash._core.files import atomic_write\n"
        f"with atomic_write({str(path)!r}) as t: os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", script], check=False)
    assert len(os.listdir(tmp_path)) == 2
    IndexStore.open(path).close()
    assert os.listdir(tmp_path) == ["a.bhi"]


def test_a_deleted_index_file_is_written_again(path):
    store = IndexStore.open(path)
    store.add(ONE)
    path.unlink()
    store.close()
    assert len(HammingIndex.load(path)) == 4
