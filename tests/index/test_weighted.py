"""Search with weights: scores of the definition, on all codes or on candidates, and their files."""

import pickle

import numpy as np
import pytest

from bridgehash import ITQ, IdExistsError, IndexStore, InputError
from bridgehash.codes import pack, unpack
from bridgehash.index import HammingIndex, weighted_kernel
from bridgehash.index.batch import Batch
from bridgehash.index.changes import as_record, from_record
from bridgehash.index.state import as_words
from bridgehash.index.weighted import ScoredCodes, rounded_weights


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def random_items(rng, n, n_bits, ties=True):
    """Codes and corrections; with few different values, scores are often equal."""
    codes = pack(rng.random((n, n_bits)) < 0.5)
    numbers = rng.integers(0, 4, (n, 2)) / 2 if ties else rng.random((n, 2))
    return codes, numbers.astype(np.float16)


def brute(codes, corrections, ids, W, k):
    """Scores and ids by sorting everything by (score, id); weights are whole numbers here."""
    B = unpack(codes, W.shape[1]).astype(np.float32)
    offset, slope = corrections.astype(np.float32).T
    levels = min(32767, (1 << 24) // W.shape[1])
    step = (np.abs(W).max(axis=1).astype(np.float64) / levels).astype(np.float32)[:, None]
    whole = np.rint(W / step.astype(np.float64)).astype(np.float32)
    S = offset - slope * ((whole @ B.T) * step)
    order = np.array([np.lexsort((ids, row))[:k] for row in S])
    return np.take_along_axis(S, order, axis=1), ids[order]


def assert_same(answer, expected):
    for ours, theirs in zip(answer, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("n_bits", [1, 12, 64, 65, 190, 512, 2049])
@pytest.mark.parametrize("ties", [False, True])
def test_the_best_are_those_of_brute_force(rng, n_bits, ties):
    codes, corrections = random_items(rng, 3000, n_bits, ties)
    W = rng.normal(size=(5, n_bits))
    W = W.round() + (W.round() == 0).all(axis=1, keepdims=True) if ties else W
    ids = rng.permutation(100_000)[:3000]
    index = HammingIndex(n_bits).add(codes, ids, corrections=corrections)
    for k in (1, 300):
        answer = index.search(pack(W), k, weights=W)
        assert answer[0].dtype == np.float32
        assert_same(answer, brute(codes, corrections, ids, W, k))


def test_numpy_and_tables_without_a_shuffle_give_the_same(rng):
    for n_bits, n, k in [(8, 5, 5), (64, 3000, 40), (100, 1500, 300)]:
        codes, corrections = random_items(rng, n, n_bits)
        scored = ScoredCodes(as_words(codes), np.ascontiguousarray(corrections.T))
        weights = rounded_weights(rng.normal(size=(7, n_bits)).round(1), 7, n_bits)
        assert_same(scored.nearest(weights, k), scored.numpy_nearest(weights, k))
    groups = rng.integers(0, 16, (32, weighted_kernel._TILE), dtype=np.uint8)
    tables = rng.integers(0, 30, 16 * 32, dtype=np.uint8)
    slow, sums = (np.ones(weighted_kernel._TILE, np.uint16) for _ in range(2))
    start = weighted_kernel._TILE - weighted_kernel._BLOCK
    weighted_kernel._add_word_one_by_one(groups, tables, 0, 1, start, slow)
    for g in range(16, 32):
        sums[start:] += tables[16 * g : 16 * g + 16][groups[g, start:]]
    np.testing.assert_array_equal(slow, sums)


def test_codes_at_the_ends_of_tiles_are_found(rng):
    W = rng.normal(size=(3, 64))
    for n in (1, 511, 512, 1023, 1024, 1025, 1024 + 63):
        codes, corrections = random_items(rng, n, 64)
        codes[-1], corrections[-1] = pack(W[1:2]), (-9, 2)
        index = HammingIndex(64).add(codes, corrections=corrections)
        answer = index.search(pack(W), min(n, 20), weights=W)
        assert answer[1][1, 0] == n - 1
        assert_same(answer, brute(codes, corrections, np.arange(n), W, min(n, 20)))


def test_ever_better_codes_displace_the_ones_before(rng):
    """The worst order for a limit; more candidates than there is room for."""
    codes, W = pack(np.ones((2500, 8))), np.ones((2, 8))
    corrections = np.column_stack([np.arange(2500, 0, -1), np.ones(2500)]).astype(np.float16)
    index = HammingIndex(8).add(codes, corrections=corrections)
    assert_same(
        index.search(pack(W), 30, weights=W), brute(codes, corrections, np.arange(2500), W, 30)
    )


def test_an_index_gives_its_corrections_by_id(rng):
    codes, corrections = random_items(rng, 6, 24)
    index = HammingIndex(24).add(codes[:2], [5, 1])
    assert (index.has_corrections, index.corrections) == (False, None)
    index.add(codes[2:], [9, 0, 3, 7], corrections=corrections[2:])
    assert index.has_corrections
    nan = np.full(2, np.nan)
    expected = [corrections[3], nan, corrections[4], nan, corrections[5], corrections[2]]
    np.testing.assert_array_equal(index.corrections, expected)
    index.remove([9, 0, 3, 7])
    assert not index.has_corrections


def test_without_corrections_the_score_is_the_inner_product(rng):
    codes, _ = random_items(rng, 200, 24)
    W = rng.normal(size=(4, 24))
    scores, ids = HammingIndex(24).add(codes).search(pack(W), 9, weights=W)
    products = W @ unpack(codes, 24).T
    best = np.argsort(-products, axis=1)[:, :9]
    np.testing.assert_array_equal(ids, best)
    np.testing.assert_allclose(-scores, np.take_along_axis(products, best, 1), rtol=1e-3)
    zero = HammingIndex(24).add(codes).search(pack(W), 5, weights=0 * W)
    assert_same(zero, (np.zeros((4, 5)), np.tile(np.arange(5), (4, 1))))


def test_items_without_corrections_have_the_mean_ones(rng):
    codes, corrections = random_items(rng, 300, 24, ties=False)
    W = rng.normal(size=(4, 24))
    index = HammingIndex(24).add(codes[:100]).add(codes[100:], corrections=corrections[100:])
    filled = corrections.astype(np.float32)
    filled[:100] = corrections[100:].mean(axis=0, dtype=float)
    assert_same(index.search(pack(W), 50, weights=W), brute(codes, filled, np.arange(300), W, 50))
    index.upsert(codes[:100], np.arange(100), corrections=corrections[:100])
    expected = brute(codes, corrections, np.arange(300), W, 50)
    assert_same(index.search(pack(W), 50, weights=W), expected)
    index.upsert(codes, np.arange(300))  # replaces the corrections, too
    plain = HammingIndex(24).add(codes).search(pack(W), 50, weights=W)
    assert_same(index.search(pack(W), 50, weights=W), plain)


def test_candidates_are_the_nearest_by_hamming_distance(rng):
    codes, corrections = random_items(rng, 800, 32)
    W = rng.normal(size=(6, 32))
    index = HammingIndex(32, n_jobs=1).add(codes, corrections=corrections)
    scores, ids = index.search(pack(W), 5, weights=W, n_candidates=40)
    near = index.search(pack(W), 40)[1]
    for q in range(6):
        some = np.sort(near[q])
        (expected,), (best,) = brute(codes[some], corrections[some], some, W[q : q + 1], 5)
        np.testing.assert_array_equal(scores[q], expected)
        np.testing.assert_array_equal(ids[q], best)
    everything = index.search(pack(W), 5, weights=W, n_candidates=800)
    assert_same(everything, index.search(pack(W), 5, weights=W))


@pytest.mark.parametrize("mode", ["exact", "approximate"])
def test_the_number_of_candidates_is_chosen_for_the_recall(rng, mode):
    X = rng.normal(size=(4000, 16)) + 3 * rng.integers(0, 4, (4000, 1))
    itq = ITQ(32, random_state=0).fit(X)
    codes, corrections = itq.encode_corrected(X)
    index = HammingIndex(32, search=mode, recall=0.9).add(codes, corrections=corrections)
    queries, W = itq.encode(X[:100]), itq.query_weights(X[:100])
    exact = HammingIndex(32).add(codes, corrections=corrections).search(queries, 10, weights=W)[1]
    found = index.search(queries, 10, weights=W, n_candidates="auto")[1]
    share = np.mean([np.isin(a, b).mean() for a, b in zip(exact, found, strict=True)])
    assert (0.75 if mode == "exact" else 0.5) < share < 1
    if mode == "approximate":
        assert_same([index.search(queries, 10, weights=W)[1]], [found])


def test_filters_and_empty_places(rng):
    codes, corrections = random_items(rng, 60, 16)
    W = rng.normal(size=(2, 16))
    index = HammingIndex(16).add(codes, tags=["a", "b", "b"] * 20, corrections=corrections)
    rows = np.arange(0, 60, 3)
    scores, ids = index.search(pack(W), 25, weights=W, tags="a")
    expected = brute(codes[rows], corrections[rows], rows, W, 25)
    assert_same((scores[:, :20], ids[:, :20]), expected)
    assert np.isinf(scores[:, 20:]).all()
    assert (ids[:, 20:] == -1).all()
    assert (HammingIndex(16).search(pack(W), 3, weights=W)[1] == -1).all()


def state_of(index):
    state = index._state.used()
    return state.words, index.ids, state.corrections


def test_corrections_survive_files_copies_and_changes(rng, tmp_path):
    codes, corrections = random_items(rng, 50, 24)
    index = HammingIndex(24).add(codes[:40], corrections=corrections[:40]).add(codes[40:])
    index.remove([3, 45])
    twin = index.snapshot()
    index.save(tmp_path / "a.bhi")
    index.to_parquet(tmp_path / "a.parquet")
    copies = [
        twin,
        pickle.loads(pickle.dumps(index)),
        HammingIndex.load(tmp_path / "a.bhi"),
        HammingIndex.load(tmp_path / "a.bhi", memory_map=True),
        HammingIndex.from_parquet(tmp_path / "a.parquet"),
    ]
    index.upsert(codes[:1], [7])
    for copy in copies:
        assert np.isnan(state_of(copy)[2][:, 39:]).all()
        assert_same([state_of(copy)[2][:, :39].T], [np.delete(corrections[:40], 3, axis=0)])
    assert np.isnan(state_of(index)[2][:, 6]).all()


def test_an_index_without_corrections_is_written_as_before(rng, tmp_path):
    HammingIndex(24).add(random_items(rng, 5, 24)[0]).save(tmp_path / "a.bhi")
    assert b"corrections" not in (tmp_path / "a.bhi").read_bytes()


def test_a_store_keeps_corrections_in_its_journal(rng, tmp_path):
    codes, corrections = random_items(rng, 30, 16)
    HammingIndex(16).add(codes[:10]).save(tmp_path / "a.bhi")
    with IndexStore.open(tmp_path / "a.bhi") as store:
        store.add(codes[10:20], corrections=corrections[10:20])
        store.upsert(codes[:5], np.arange(5), corrections=corrections[:5], tags=["x"] * 5)
        expected = state_of(store.index)
        replayed = state_of(HammingIndex.load(tmp_path / "a.bhi"))
        assert_same(replayed, expected)
    assert_same(state_of(HammingIndex.load(tmp_path / "a.bhi")), expected)
    assert np.isnan(expected[2][:, 5:10]).all()
    with IndexStore.open(tmp_path / "a.bhi") as store, pytest.raises(IdExistsError):
        store.add(codes[:1], [0], corrections=corrections[:1])


def test_a_damaged_record_is_refused():
    record = as_record(Batch(np.zeros((1, 1), np.uint8), np.array([0]), None, np.ones((1, 2))))
    bad = record[:-4] + np.array([1, -1], np.float16).tobytes()
    assert from_record(record, 8).corrections.tolist() == [[1, 1]]
    with pytest.raises(ValueError, match="corrections"):
        from_record(bad, 8)


def test_wrong_inputs_are_refused_with_a_remedy(rng):
    codes, corrections = random_items(rng, 3, 8)
    index = HammingIndex(8).add(codes, corrections=corrections)
    for given, reason in (
        (corrections[:2], "two numbers per code, shape \\(3, 2\\)"),
        (np.ones((3, 2), int), "see encode_corrected"),
        (corrections * np.float16(np.nan), "NaN"),
        (-corrections - 1, "negative slope"),
        (np.full((3, 2), 1e9), "infinite as float16"),
    ):
        with pytest.raises(InputError, match=reason) as error:
            HammingIndex(8).add(codes, corrections=given)
        assert error.value.argument == "corrections"
    for W in (np.ones((2, 8)), np.ones((1, 7)), np.full((1, 8), np.nan)):
        with pytest.raises(InputError, match=r"shape \(1, 8\) are needed"):
            index.search([[1]], weights=W)
    with pytest.raises(InputError, match="n_candidates"):
        index.search([[1]], weights=np.ones((1, 8)), n_candidates=0)
