"""Index files and journals with flipped bits, cut ends and crafted contents."""

from __future__ import annotations

import os
import warnings

import numpy as np
import pytest

from bridgehash._core.errors import InputError, LostChangesWarning, ModelFileError
from bridgehash.index import HammingIndex, IndexStore
from bridgehash.models.model_file import save_model
from tests.faults.files import craft, flipped, sample_index

ALL = pytest.mark.slow


def same(index: HammingIndex, other: HammingIndex) -> bool:
    codes = [each.get(each.ids) for each in (index, other)]
    return (
        np.array_equal(index.ids, other.ids)
        and np.array_equal(codes[0][0], codes[1][0])
        and codes[0][1:] == codes[1][1:]
    )


def brute_force(index: HammingIndex, query: np.ndarray, k: int) -> list[tuple[int, int | str]]:
    codes = index.get(index.ids).codes
    bits = np.unpackbits(codes ^ query, axis=1).sum(axis=1)
    return sorted(zip(bits.tolist(), index.ids.tolist(), strict=True))[:k]


@pytest.mark.parametrize("memory_map", [False, True])
@pytest.mark.parametrize("n", [150, pytest.param(20_000, marks=ALL)])
def test_a_flipped_bit_in_an_index_file_is_always_noticed(tmp_path, memory_map, n, record_property):
    rng = np.random.default_rng(0)
    path = tmp_path / "a.bhi"
    sample_index(rng).save(path)
    whole = path.read_bytes()
    for i in range(n):
        path.write_bytes(flipped(whole, rng, i % len(whole)))
        with pytest.raises(ModelFileError):
            HammingIndex.load(path, memory_map=memory_map)
        if i % 50 == 0:
            with pytest.raises(ModelFileError):
                IndexStore.open(path)
    record_property("flipped bits in index files, all noticed", n)


def test_a_cut_index_file_is_refused_at_every_length(tmp_path):
    path = tmp_path / "a.bhi"
    sample_index(np.random.default_rng(0)).save(path)
    whole = path.read_bytes()
    for length in [*range(0, len(whole), 13), len(whole) - 1]:
        path.write_bytes(whole[:length])
        with pytest.raises(ModelFileError):
            HammingIndex.load(path)
    path.write_bytes(whole + b"\0")
    with pytest.raises(ModelFileError):
        HammingIndex.load(path)


@pytest.mark.parametrize("n", [150, pytest.param(10_000, marks=ALL)])
def test_a_crafted_index_is_refused_or_searched_rightly(tmp_path, n, record_property):
    """The checksum is right, so only the contents can give it away."""
    rng = np.random.default_rng(1)
    path, crafted = tmp_path / "a.bhi", tmp_path / "b.bhi"
    counts = {"refused": 0, "right": 0}
    for i in range(n):
        if i % 20 == 0:
            n_codes, n_bits = int(rng.integers(0, 40)), (12, 64, 70)[i // 20 % 3]
            sample_index(rng, n_codes, n_bits, text=bool(i // 20 % 2)).save(path)
        craft(path, crafted, rng)
        try:
            index = HammingIndex.load(crafted, memory_map=bool(i % 2))
        except ModelFileError:
            counts["refused"] += 1
            continue
        query = rng.integers(0, 256, (1, -(-index.n_bits // 8)), dtype=np.uint8)
        query[:, -1] &= 0xFF << (-index.n_bits % 8) & 0xFF
        distances, ids = index.search(query, 5)
        pairs = zip(distances[0].tolist(), ids[0].tolist(), strict=True)
        found = [pair for pair in pairs if pair[1] not in (-1, None)]
        assert found == brute_force(index, query, 5)
        for tag in index.tags:
            near = index.search(query, 3, tags=tag)[1]
            assert set(near.flat) <= {*index.ids.tolist(), -1, None}
        index.save(tmp_path / "c.bhi")
        assert same(HammingIndex.load(tmp_path / "c.bhi"), index)
        with IndexStore.open(tmp_path / "c.bhi") as store:
            store.add(query, ["new"] if index.id_kind == "text" else None)
        counts["right"] += 1
    record_property("crafted index files with right checksums", counts)
    assert counts["refused"] > n / 4
    assert counts["right"] > 0


@pytest.mark.parametrize("n", [150, pytest.param(10_000, marks=ALL)])
def test_a_damaged_journal_loses_what_is_hit_and_names_it(tmp_path, n, record_property):
    rng = np.random.default_rng(2)
    path, journal = tmp_path / "a.bhi", tmp_path / "a.bhi.journal"
    HammingIndex(12).save(path)
    store = IndexStore.open(path)
    codes = rng.integers(0, 16, (20, 2), dtype=np.uint8) << 4
    for i in range(20):
        store.add(codes[i : i + 1], [i], tags=[f"tag{i}"])
    whole, file = journal.read_bytes(), path.read_bytes()
    store.close()
    path.write_bytes(file)
    n_lost = 0
    for i in range(n):
        cut = i % 3 == 2
        at = i % len(whole) if i < len(whole) else int(rng.integers(len(whole)))
        journal.write_bytes(whole[:at] if cut else flipped(whole, rng, at))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            index = HammingIndex.load(path)
        lost = set(range(20)) - set(index.ids.tolist())
        if len(lost) == 20:
            assert "cannot be read" in str(caught[0].message) or cut
            continue
        assert len(lost) <= 1 or cut
        assert [w.category for w in caught] == [LostChangesWarning] * bool(lost)
        if lost:
            numbers = ", ".join(str(item + 1) for item in sorted(lost))
            if len(lost) > 2:
                numbers = f"{min(lost) + 1} to {max(lost) + 1}"
            assert f"{len(lost)} of 20 acknowledged changes" in str(caught[0].message)
            assert f"number {numbers}" in str(caught[0].message) or len(lost) == 2
        n_lost += len(lost)
        kept = sorted(set(range(20)) - lost)
        np.testing.assert_array_equal(index.get(kept)[0], codes[kept])
        assert index.get(kept).tags == [(f"tag{item}",) for item in kept]
    record_property("damaged journals of 20 changes; changes hit, all of them named", (n, n_lost))


def test_a_file_that_changes_under_a_memory_map_raises_an_error(tmp_path):
    path = tmp_path / "a.bhi"
    index = sample_index(np.random.default_rng(0), n=5000, n_bits=64)
    query = np.zeros((1, 8), np.uint8)
    index.save(path)
    mapped = HammingIndex.load(path, memory_map=True)
    before = mapped.search(query)[1].tolist()
    index.add(query, [10**6]).save(path)  # replaced by another file: the old one is still there
    assert mapped.search(query)[1].tolist() == before
    for damage in (lambda: os.truncate(path, 1000), lambda: path.write_bytes(b"short")):
        index.save(path)
        mapped = HammingIndex.load(path, memory_map=True)
        damage()
        for use in (
            lambda m=mapped: m.search(query),
            lambda m=mapped: m.within(query, 3),
            lambda m=mapped: m.get(m.ids[:1]),
            lambda m=mapped: m.add(query),
            lambda m=mapped: m.save(tmp_path / "b.bhi"),
        ):
            with pytest.raises(ModelFileError, match="was changed while it was in use"):
                use()
        os.remove(path)


@pytest.mark.parametrize(("n", "length"), [(40_000, 2600), pytest.param(1_000_000, 104, marks=ALL)])
def test_tags_that_exceed_any_header_are_saved_and_loaded(tmp_path, n, length):
    path = tmp_path / "a.bhi"
    tags = np.array([f"{i:0{length}d}" for i in range(n)], object)  # 104 MB of text
    codes = np.zeros((n, 1), np.uint8)
    HammingIndex(8).add(codes, tags=tags).save(path)
    with IndexStore.open(path) as store:
        store.add(codes[:1], tags=["one more"])
        assert store.index.search(codes[:1], 1, tags=tags[77])[1].tolist() == [[77]]
    index = HammingIndex.load(path)
    assert index.get([0, n - 1, n]).tags == [(tags[0],), (tags[-1],), ("one more",)]
    assert index.remove(np.arange(10, n)) == n - 10
    assert len(index._state.attributes) < 2000, "names that nobody uses are forgotten"
    index.save(path)
    assert os.path.getsize(path) < 100_000
    assert sorted(HammingIndex.load(path).tags) == [*tags[:10], "one more"]


def test_tags_that_are_replaced_are_forgotten():
    index, code = HammingIndex(8).add([[0]] * 10), np.zeros((10, 1), np.uint8)
    for i in range(2000):
        index.upsert(code, range(10), tags=[f"{i}-{j}" for j in range(10)])
    assert len(index._state.attributes) < 3000
    assert sorted(index.tags) == sorted(f"1999-{j}" for j in range(10))


def test_an_add_costs_the_same_with_few_and_many_tags():
    """Counted in calls, since times depend on the machine: the table is not walked."""
    for n_tags in (10, 100_000):
        tags = [f"{i}" for i in range(n_tags)]
        index = HammingIndex(8).add([[0]] * n_tags, tags=tags)
        table = index._state.attributes
        index.add([[1]], tags=["another"])
        assert index._state.attributes is table


def test_a_snapshot_cannot_change_the_index():
    index = HammingIndex(8).add([[1], [2]], tags=["a", "b"])
    index.about["model"] = "m"
    twin = index.snapshot()
    twin.about["model"] = "other"
    twin.add([[3]], tags=["c"])
    twin.upsert([[9]], [0], tags=["d"])
    twin.remove([1])
    index.add([[4]], tags=["e"])
    assert (index.about, index.ids.tolist()) == ({"model": "m"}, [0, 1, 2])
    assert index.get([0, 1, 2]).codes.tolist() == [[1], [2], [4]]
    assert index.get([0, 1, 2]).tags == [("a",), ("b",), ("e",)]
    assert index.tags == ("a", "b", "e")
    assert (twin.ids.tolist(), twin.get([0, 2]).tags) == ([0, 2], [("d",), ("c",)])
    assert ("", ("c",)) not in index._state.attributes.entries


def test_a_crafted_journal_is_refused(tmp_path):
    """Records with right checksums, but of codes that this index cannot have."""
    path = tmp_path / "a.bhi"
    HammingIndex(12).save(path)
    for record in (
        b"",
        b"+",
        b"+\xff\xff\xff\xff",
        b"?n\1\0\0\0" + bytes(8),
        b"+n\xff\xff\xff\xff",
        b"+n\1\0\0\0" + b"\xff" * 10,
        b"+?\1\0\0\0" + bytes(10),
        b"+t\1\0\0\0\5\0ab",
        b"+t\1\0\0\0\1\0\xff" + bytes(2),  # not UTF-8
        b"+t\1\0\0\0\1\0\0" + bytes(2),  # a zero character
        b"+n\1\0\0\0" + bytes(10) + b"\7\0\0\0[[1,2]]" + bytes(4),
        b"+n\1\0\0\0" + bytes(10) + b"\x09\0\0\0[['',[]]]" + bytes(4),
        b"+n\1\0\0\0" + bytes(10) + b'\x09\0\0\0[["",[]]]\1\0\0\0',
    ):
        store = IndexStore.open(path)
        store._journal.append([record])
        store._journal.close()
        store._file_lock.release()
        with pytest.raises(ModelFileError, match=r"a\.bhi\.journal is not a valid journal"):
            HammingIndex.load(path)
        os.remove(tmp_path / "a.bhi.journal")


def test_a_huge_k_is_refused_at_once(tmp_path):
    index = HammingIndex(8).add([[1]])
    with pytest.raises(InputError, match="k: 1000000000 for 1 codes; use at most 1"):
        index.search([[0]], 10**9)
    assert index.search([[0]], 1000)[1].shape == (1, 1000)


def test_an_index_of_another_kind_of_file_is_refused(tmp_path):
    save_model(tmp_path / "a.bhi", "index", {}, {})
    with pytest.raises(ModelFileError, match=r"^[^:]*/a\.bhi: is not a valid index"):
        HammingIndex.load(tmp_path / "a.bhi")
