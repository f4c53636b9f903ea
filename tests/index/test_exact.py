"""The index against a dictionary and brute force, whatever is done to it."""

import sys
import threading

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from bridgehash import ModelFileError
from bridgehash.codes import hamming, pack, unpack
from bridgehash.index import HammingIndex
from bridgehash.index import scan as numpy_scan
from bridgehash.index import scan as scan_module

LENGTHS = [1, 8, 12, 63, 64, 65, 128, 190, 256, 512, 1024]


def random_codes(rng, n, n_bits, spread=0.5):
    return pack(rng.random((n, n_bits)) < spread)


def brute(codes, ids, queries, k):
    """Distances and ids by sorting everything by (distance, id)."""
    D = hamming(queries, codes).astype(int)
    order = np.array([np.lexsort((ids, row))[:k] for row in D], dtype=int)
    return np.take_along_axis(D, order, axis=1), ids[order]


@pytest.fixture(params=["compiled", "numpy"])
def scan(request, monkeypatch):
    if request.param == "numpy":
        monkeypatch.setattr(scan_module, "nearest_rows", numpy_scan.nearest_rows)
    else:
        pytest.importorskip("numba")


@pytest.mark.parametrize("n_bits", LENGTHS)
@pytest.mark.parametrize("k", [1, 7, 300])
def test_the_nearest_are_those_of_brute_force(scan, n_bits, k):
    rng = np.random.default_rng(n_bits)
    codes, queries = random_codes(rng, 5000, n_bits), random_codes(rng, 9, n_bits)
    ids = rng.permutation(100_000)[:5000]
    found = HammingIndex(n_bits).add(codes, ids).search(queries, k)
    for ours, expected in zip(found, brute(codes, ids, queries, k), strict=True):
        np.testing.assert_array_equal(ours, expected)


@pytest.mark.parametrize("n", [1, 2047, 2048, 2049, 4096 + 63])
def test_the_ends_of_tiles_are_not_the_end(scan, n):
    rng = np.random.default_rng(n)
    codes, queries = random_codes(rng, n, 64), random_codes(rng, 3, 64)
    found = HammingIndex(64).add(codes).search(queries, n)
    for ours, expected in zip(found, brute(codes, np.arange(n), queries, n), strict=True):
        np.testing.assert_array_equal(ours, expected)


def test_many_equal_codes_come_by_their_ids(scan):
    codes = np.zeros((20_000, 8), np.uint8)
    D, ids = HammingIndex(64).add(codes, np.arange(20_000)[::-1]).search(codes[:2], 50)
    assert (D == 0).all()
    np.testing.assert_array_equal(ids, [np.arange(50)] * 2)


def test_nearer_and_nearer_codes_push_out_the_earlier(scan):
    """The worst order for a threshold: every code is nearer than all before it."""
    B = np.tri(65, 64, -1, dtype=bool)[::-1]
    codes = pack(np.repeat(B, 200, axis=0))
    D, ids = HammingIndex(64).add(codes).search(np.zeros((1, 8), np.uint8), 300)
    np.testing.assert_array_equal(D[0], np.repeat([0, 1], [200, 100]))
    np.testing.assert_array_equal(ids[0], np.r_[64 * 200 : 65 * 200, 63 * 200 : 63 * 200 + 100])


def test_fewer_codes_than_asked_for_leave_gaps():
    D, ids = HammingIndex(8).add([[3]], [7]).search([[1]], k=3)
    np.testing.assert_array_equal(D, [[1, 9, 9]])
    np.testing.assert_array_equal(ids, [[7, -1, -1]])
    D, ids = HammingIndex(8).search([[1]], k=2)
    np.testing.assert_array_equal(ids, [[-1, -1]])


@pytest.mark.parametrize("radius", [0, 3, 64])
def test_a_radius_holds_all_within_it(radius):
    rng = np.random.default_rng(0)
    codes = random_codes(rng, 400, 64, spread=0.03)
    index = HammingIndex(64).add(codes, np.arange(400) * 3)
    for query, (D, ids) in zip(codes[:5], index.within(codes[:5], radius), strict=True):
        all_D = hamming(query[None], codes)[0]
        order = np.lexsort((np.arange(400), all_D))
        order = order[all_D[order] <= radius]
        np.testing.assert_array_equal(ids, order * 3)
        np.testing.assert_array_equal(D, all_D[order])


@pytest.mark.parametrize("n_bits", [12, 64, 100])
def test_reranking_orders_candidates_by_agreement(scan, n_bits):
    rng = np.random.default_rng(n_bits)
    codes, H = random_codes(rng, 600, n_bits), rng.normal(size=(7, n_bits))
    index, queries = HammingIndex(n_bits).add(codes, np.arange(600) + 5), pack(H)
    D, ids = index.search(queries, 6, rerank=H, n_candidates=50)
    near, candidates = index.search(queries, 50)
    B = unpack(codes, n_bits).astype(float)
    for q in range(7):
        score = B[candidates[q] - 5] @ H[q]
        best = np.argsort(-score, kind="stable")[:6]
        np.testing.assert_allclose(B[ids[q] - 5] @ H[q], score[best], rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(D[q], near[q][[list(candidates[q]).index(i) for i in ids[q]]])


def test_equal_projections_rerank_nothing():
    rng = np.random.default_rng(0)
    codes, queries = random_codes(rng, 300, 16), random_codes(rng, 4, 16)
    index, H = HammingIndex(16).add(codes), unpack(queries, 16) * 0.5
    for plain, again in zip(
        index.search(queries, 9), index.search(queries, 9, rerank=H), strict=True
    ):
        np.testing.assert_array_equal(plain, again)


@pytest.mark.parametrize("H", [np.ones((2, 8)), np.ones((1, 7)), np.full((1, 8), np.nan)])
def test_projections_that_do_not_fit_are_refused(H):
    with pytest.raises(ValueError, match="projection of 1 queries to 8 bits"):
        HammingIndex(8).add([[1]]).search([[1]], rerank=H)


def test_more_candidates_than_codes_are_all_codes():
    D, ids = (
        HammingIndex(8).add([[1], [3]]).search([[0]], 3, rerank=np.eye(1, 8, 7), n_candidates=9)
    )
    np.testing.assert_array_equal(ids, [[0, 1, -1]])
    np.testing.assert_array_equal(D, [[1, 2, 9]])


@pytest.mark.parametrize("n_jobs", [1, 2, 5])
def test_threads_change_nothing(n_jobs):
    rng = np.random.default_rng(0)
    codes, queries = random_codes(rng, 3000, 64), random_codes(rng, 700, 64)
    one, more = (HammingIndex(64, n).add(codes).search(queries, 5) for n in (1, n_jobs))
    for ours, expected in zip(more, one, strict=True):
        np.testing.assert_array_equal(ours, expected)


@pytest.mark.parametrize(
    ("codes", "ids", "message"),
    [
        ([[1, 2]], None, "codes of 8 bits, which have 1 bytes a row"),
        ([[1]], [1, 2], "one whole number for each of the 1 codes"),
        ([[1]], [1.5], "one whole number"),
        ([[1]], [-1], "id -1 is negative"),
        ([[1], [2]], [4, 4], "id 4 is given twice"),
        ([[1]], [0], "id 0 is in the index already; use upsert"),
    ],
)
def test_what_cannot_be_added_is_refused(codes, ids, message):
    index = HammingIndex(8).add([[9]])
    with pytest.raises(ValueError, match=message):
        index.add(codes, ids)
    assert len(index) == 1


def test_bits_beyond_the_length_are_refused():
    index = HammingIndex(12).add([[255, 0b11110000]])
    with pytest.raises(ValueError, match="end with 4 bits of zero"):
        index.search([[255, 0b11110001]])
    with pytest.raises(ValueError, match="end with 4 bits of zero"):
        index.add([[255, 0b00001000]])


@pytest.mark.parametrize("n_bits", [0, 1025])
def test_lengths_out_of_range_are_refused(n_bits):
    with pytest.raises(ValueError, match="n_bits"):
        HammingIndex(n_bits)


def test_a_tag_narrows_the_search_to_its_codes():
    rng = np.random.default_rng(0)
    codes, queries = random_codes(rng, 300, 16), random_codes(rng, 6, 16)
    ids, tags = rng.permutation(1000)[:300], rng.choice(["shoe", "hat", ""], 300)
    index = HammingIndex(16).add(codes[:100], ids[:100])  # no tags yet: all are ""
    index.upsert(codes, ids, tags=tags)
    for tag in ("shoe", "hat", ""):
        mine = tags == tag
        for ours, expected in zip(
            index.search(queries, 9, tag=tag),
            brute(codes[mine], ids[mine], queries, 9),
            strict=True,
        ):
            np.testing.assert_array_equal(ours, expected)
        for _, inside in index.within(queries, 16, tag=tag):
            assert set(inside) == set(ids[mine])
    assert (index.search(queries, 2, tag="sock")[1] == -1).all()
    assert len(index.within(queries[:1], 16)[0][1]) == 300


def test_a_code_without_a_tag_loses_the_one_it_had():
    index = HammingIndex(8).add([[1], [2]], tags=["a", "a"]).upsert([[3]], [0])
    assert index.search([[0]], 2, tag="a")[1].tolist() == [[1, -1]]
    assert index.search([[0]], 2, tag="")[1].tolist() == [[0, -1]]
    assert index.add([[0]]).search([[0]], 1, tag="")[1].tolist() == [[2]]


def test_an_index_without_tags_has_only_the_empty_one():
    index = HammingIndex(8).add([[1], [2]])
    assert index.search([[0]], 1, tag="")[1].tolist() == [[0]]
    assert index.search([[0]], 1, tag="a")[1].tolist() == [[-1]]


def test_tags_that_nobody_has_are_not_remembered():
    index = HammingIndex(8).add([[1], [2]], tags=["a", "b"])
    for tag in ("a", "c", "d"):
        index.search([[0]], 1, tag=tag)
    assert set(index._views[1]) == {"a"}


@pytest.mark.parametrize("tags", [["a"], ["a", 3], "ab", [["a"], ["b"]]])
def test_tags_that_are_no_text_for_each_code_are_refused(tags):
    with pytest.raises(ValueError, match="one text for each of the 2 codes"):
        HammingIndex(8).add([[1], [2]], tags=tags)


@pytest.mark.parametrize("memory_map", [False, True])
def test_a_saved_index_is_the_same_and_can_grow(tmp_path, memory_map):
    rng = np.random.default_rng(0)
    codes, queries = random_codes(rng, 500, 100), random_codes(rng, 5, 100)
    index = HammingIndex(100).add(codes, rng.permutation(900)[:500])
    index.save(tmp_path / "index")
    loaded = HammingIndex.load(tmp_path / "index", memory_map=memory_map)
    np.testing.assert_array_equal(loaded.search(queries, 20)[1], index.search(queries, 20)[1])
    for one in (loaded, index):
        one.add(codes[:3], [1000, 1001, 1002])
        assert one.remove([1001, 5000]) == 1
    np.testing.assert_array_equal(loaded.search(queries, 20)[1], index.search(queries, 20)[1])


def test_a_damaged_file_is_refused(tmp_path):
    path = tmp_path / "index"
    HammingIndex(64).add(np.zeros((100, 8), np.uint8)).save(path)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(ModelFileError, match="checksum"):
        HammingIndex.load(path)


def test_readers_never_see_half_a_change():
    """Codes and ids are added and replaced together: an id's code is always its own bits."""
    index, stop, wrong = HammingIndex(64, n_jobs=1), threading.Event(), []
    codes = np.arange(4000, dtype=">u8").view(np.uint8).reshape(-1, 8)
    index.add(codes[:10])

    def read():
        while not stop.is_set():
            D, ids = index.search(codes[:10], 1)
            if (D != 0).any() or (ids[:, 0] != np.arange(10)).any():
                wrong.append((D, ids))

    readers = [threading.Thread(target=read) for _ in range(3)]
    switch = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for reader in readers:
            reader.start()
        for i in range(10, 400):
            index.add(codes[i : i + 1])
            index.upsert(codes[5:6], [5])
            index.remove([i])
            index.add(codes[i : i + 1], [i])
    finally:
        stop.set()
        for reader in readers:
            reader.join()
        sys.setswitchinterval(switch)
    assert not wrong


TAGS = st.lists(st.sampled_from(["", "shoe", "hat"]), min_size=1, max_size=3)


class IndexAgainstDictionary(RuleBasedStateMachine):
    @initialize(n_bits=st.sampled_from([5, 64, 70]))
    def start(self, n_bits):
        self.index, self.model, self.tags = HammingIndex(n_bits, n_jobs=1), {}, {}
        self.rng = np.random.default_rng(n_bits)

    def codes(self, n):
        return random_codes(self.rng, n, self.index.n_bits, spread=0.3)

    @rule(ids=st.sets(st.integers(0, 60), max_size=12))
    def add(self, ids):
        ids = [i for i in ids if i not in self.model]
        codes = self.codes(len(ids))
        self.index.add(codes, np.array(ids, dtype=int))
        self.model.update(zip(ids, codes, strict=True))

    @rule(n=st.integers(0, 5))
    def add_at_the_end(self, n):
        codes = self.codes(n)
        first = max(self.model, default=-1) + 1
        self.index.add(codes)
        self.model.update(zip(range(first, first + n), codes, strict=True))

    @rule(ids=st.sets(st.integers(0, 60), min_size=1, max_size=12), tags=st.none() | TAGS)
    def upsert(self, ids, tags):
        codes = self.codes(len(ids))
        given = None if tags is None else [tags[i % len(tags)] for i in range(len(ids))]
        self.index.upsert(codes, list(ids), tags=given)
        self.model.update(zip(ids, codes, strict=True))
        self.tags.update(zip(ids, given or [""] * len(ids), strict=True))

    @rule(ids=st.lists(st.integers(0, 60), max_size=12))
    def remove(self, ids):
        assert self.index.remove(ids) == len(set(ids) & set(self.model))
        for i in ids:
            self.model.pop(i, None)
            self.tags.pop(i, None)

    @rule(memory_map=st.booleans())
    def save_and_load(self, memory_map):
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            self.index.save(f"{folder}/index")
            self.index = HammingIndex.load(f"{folder}/index", memory_map=memory_map, n_jobs=1)

    @invariant()
    def agrees(self):
        ids = np.array(sorted(self.model), dtype=int)
        np.testing.assert_array_equal(self.index.ids, ids)
        if len(ids):
            codes = np.array([self.model[i] for i in ids])
            queries, k = self.codes(2), min(4, len(ids))
            tags = np.array([self.tags.get(i, "") for i in ids])
            for tag in (None, "", "hat"):
                mine = np.full(len(ids), True) if tag is None else tags == tag
                D, found = self.index.search(queries, k, tag=tag)
                for ours, expected in zip(
                    (D, found), brute(codes[mine], ids[mine], queries, k), strict=True
                ):
                    np.testing.assert_array_equal(ours[:, : mine.sum()], expected)
                    assert (found[:, mine.sum() :] == -1).all()


TestIndexAgainstDictionary = IndexAgainstDictionary.TestCase
TestIndexAgainstDictionary.settings = settings(max_examples=25, stateful_step_count=15)
