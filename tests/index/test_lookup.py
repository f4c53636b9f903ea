"""Codes, tags and ids of an index, and the index as it was."""

import numpy as np
import pytest

from bridgehash.index import HammingIndex


@pytest.mark.parametrize("n_bits", [3, 8, 12, 64, 65, 130])
def test_codes_come_back_by_id(n_bits):
    n_bytes = -(-n_bits // 8)
    bits = np.random.default_rng(0).random((20, n_bits)) < 0.5
    codes, ids = np.packbits(bits, axis=1), np.arange(20) * 7
    index = HammingIndex(n_bits).add(codes[::-1], ids[::-1])
    found, tags = index.get([14, 0, 133])
    assert found.shape == (3, n_bytes)
    np.testing.assert_array_equal(found, codes[[2, 0, 19]])
    assert tags == ["", "", ""]
    assert index.get([])[0].shape == (0, n_bytes)


def test_an_id_that_is_not_there_is_named():
    index = HammingIndex(8).add([[1], [2]])
    with pytest.raises(KeyError, match="5"):
        index.get([0, 5, 6])


def test_tags_come_back_and_are_listed():
    tags = np.array(["b", "a", ""], dtype=object)
    index = HammingIndex(8).add([[1], [2], [3]], tags=tags)
    assert index.get([1, 2, 0])[1] == ["a", "", "b"]
    assert sorted(index.names) == ["a", "b"]
    assert HammingIndex(8).names == ()


def test_pages_of_ids():
    tags = np.array(["x", "y"] * 5, dtype=object)
    index = HammingIndex(8).add(np.zeros((10, 1), np.uint8), np.arange(10) * 2, tags=tags)
    ids, total = index.page(8, 5)
    assert (ids.tolist(), total) == ([16, 18], 10)
    ids, total = index.page(1, 2, tag="y")
    assert (ids.tolist(), total) == ([6, 10], 5)
    assert index.page(0, 5, tag="z")[1] == 0
    assert index.page(100, 5)[0].tolist() == []


def test_a_snapshot_misses_later_changes():
    index = HammingIndex(8).add([[1], [2], [3]])
    before = index.snapshot()
    index.remove([0])
    index.upsert([[9], [7]], [1, 40])
    assert before.ids.tolist() == [0, 1, 2]
    assert before.get([1])[0].tolist() == [[2]]
    assert before.search([[1]], k=1)[1].tolist() == [[0]]
    assert index.ids.tolist() == [1, 2, 40]
    assert index.get([1])[0].tolist() == [[9]]
