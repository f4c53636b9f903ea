"""Approximate search reaches the given recall, and is exact if it searches all lists."""

import numpy as np
import pytest

from bridgehash.codes import pack
from bridgehash.index import HammingIndex
from bridgehash.index.scan import nearest_in_lists, numpy_nearest_in_lists
from bridgehash.index.state import as_bytes, as_words

pytest.importorskip("faiss")


def clustered(rng, n, n_bits):
    """Codes near one of fifty centres, as learned codes are."""
    centres = rng.random((50, n_bits)) < 0.5
    return pack(centres[rng.integers(0, 50, n)] ^ (rng.random((n, n_bits)) < 0.08))


def approximate(n_bits=64, **options):
    return HammingIndex(n_bits, search="approximate", **options)


@pytest.mark.parametrize("n_bits", [64, 100])
def test_the_given_recall_is_reached(n_bits):
    rng = np.random.default_rng(0)
    codes, queries = (
        clustered(rng, 8000, n_bits),
        clustered(np.random.default_rng(0), 300, n_bits),
    )
    exact = HammingIndex(n_bits).add(codes).search(queries, 10)[0]
    for recall in (0.8, 0.99):
        index = approximate(n_bits, recall=recall).add(codes)
        D, ids = index.search(queries, 10)
        assert (np.diff(D.astype(int), axis=1) >= 0).all()
        assert (exact[:, -1:] >= D).mean() >= recall - 0.05
        np.testing.assert_array_equal(n_bits + 1 == D, ids < 0)  # lists with fewer than ten codes
        assert index.lists.recall >= recall
        assert index.lists.n_probe < index.lists.n_lists


def test_all_lists_give_the_exact_answer():
    rng = np.random.default_rng(1)
    codes, queries = clustered(rng, 3000, 64), clustered(rng, 20, 64)
    index = approximate().add(codes, np.arange(3000) * 2)
    index.lists.n_probe = index.lists.n_lists
    exact = HammingIndex(64).add(codes, np.arange(3000) * 2)
    np.testing.assert_array_equal(index.search(queries, 5)[0], exact.search(queries, 5)[0])
    assert exact.lists is None


def test_the_next_search_sees_a_change():
    rng = np.random.default_rng(2)
    codes = clustered(rng, 2000, 64)
    index = approximate().add(codes)
    index.search(codes[:1], 1)
    new = np.full((1, 8), 0b10101010, np.uint8)
    index.add(new, [9999])
    assert index.search(new, 1)[1][0, 0] == 9999
    index.remove([9999])
    assert index.search(new, 1)[1][0, 0] != 9999


def test_the_searched_lists_are_those_of_faiss():
    """Plain faiss with the same centres finds the same distances."""
    import faiss

    rng = np.random.default_rng(3)
    codes, queries = clustered(rng, 8000, 64), clustered(rng, 50, 64)
    lists = approximate().add(codes).lists
    quantizer = faiss.IndexBinaryFlat(64)
    quantizer.add(as_bytes(lists._centres))
    plain = faiss.IndexBinaryIVF(quantizer, 64, lists.n_lists)
    plain.add(codes)
    plain.nprobe = lists.n_probe = lists.n_lists // 3  # enough to make ties of centres rare
    ours = lists(queries.view(np.uint64), 20)[0]
    assert (ours == plain.search(queries, 20)[0]).mean() > 0.99


@pytest.mark.parametrize("n_bits", [64, 128, 256])
def test_lists_are_scanned_as_numpy_does(n_bits):
    """Lists of all sizes: empty, one, longer than a tile; with ties at nearly every place."""
    kernel = pytest.importorskip("bridgehash.index.kernel")
    rng = np.random.default_rng(n_bits)
    ends = np.cumsum([0, 0, 1, 63, 64, 65, 500, kernel._TILE + 70])
    words = as_words(pack(rng.random((ends[-1], n_bits)) < 0.05))
    queries = np.ascontiguousarray(as_words(pack(rng.random((9, n_bits)) < 0.05)).T)
    lists = np.array([rng.permutation(7)[:4] for _ in queries])
    lists[0] = 0  # an empty list only
    for k in (1, 10, 300):
        arguments = words, ends, lists, queries, k
        ours, expected = nearest_in_lists(*arguments), numpy_nearest_in_lists(*arguments)
        for one, other in zip(ours, expected, strict=True):
            np.testing.assert_array_equal(one, other)
        assert (ours[1][0] == -1).all()


def test_codes_of_one_tag_are_searched_exactly():
    rng = np.random.default_rng(4)
    codes, queries = clustered(rng, 3000, 64), clustered(rng, 20, 64)
    tags = [f"{i % 3}" for i in range(3000)]
    answers = [
        index.add(codes, tags=tags).search(queries, 7, tags="2")
        for index in (approximate(), HammingIndex(64))
    ]
    np.testing.assert_array_equal(answers[0], answers[1])


def test_text_ids_are_those_of_the_numbers():
    rng = np.random.default_rng(4)
    codes, queries = clustered(rng, 3000, 64), clustered(rng, 20, 64)
    names = np.array([f"{i:05d}" for i in range(3000)], object)  # in the order of the numbers
    by_number = approximate().add(codes).search(queries, 7)
    by_text = approximate().add(codes, names).search(queries, 7)
    np.testing.assert_array_equal(by_text[0], by_number[0])
    np.testing.assert_array_equal(by_text[1], names[by_number[1]])
    D, ids = approximate(recall=0.01).add(codes, names).search(queries, 400)
    assert (ids[D == 65] == None).all()  # noqa: E711
    assert (D == 65).any()


def test_few_codes_are_searched_completely():
    for n in (1, 5, 40):
        codes = np.arange(n, dtype=np.uint8)[:, None]
        D, ids = approximate(8).add(codes).search(codes[:1], 3)
        assert (D[0, 0], ids[0, 0]) == (0, 0)
        assert (ids[0] >= 0).sum() == min(n, 3)
    assert (approximate(8).search([[1]], 3)[1] == -1).all()


def test_missing_candidates_are_last_with_weights():
    rng = np.random.default_rng(3)
    codes, H = clustered(rng, 5000, 64), rng.normal(size=(30, 64))
    index = approximate(recall=0.01).add(codes)
    D, ids = index.search(pack(H), 400, weights=H, n_candidates=400)
    assert (ids < 0).any()
    assert (np.diff((ids < 0).astype(int), axis=1) >= 0).all()
    np.testing.assert_array_equal(np.isinf(D), ids < 0)


def test_a_radius_needs_no_lists(monkeypatch):
    index = approximate().add(clustered(np.random.default_rng(5), 100, 64))
    monkeypatch.setattr("bridgehash.index.exact.InvertedLists", None)  # building them would fail
    assert len(index.within(np.zeros((1, 8), np.uint8), 64)[0][1]) == 100
