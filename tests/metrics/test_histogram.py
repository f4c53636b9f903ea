"""The histogram against a double loop, its invariants, its errors and its memory."""

import time
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehash import InputError
from bridgehash.codes import hamming_tiles, pack, unpack
from bridgehash.metrics import DistanceHistogram, distance_histogram

SEEDS = st.integers(0, 2**32 - 1)
CODE = pack([[1, 1, -1]])


def looped_histogram(codes_query, codes_database, y_query, y_database, n_bits):
    """The definition: one pair at a time, one bit at a time."""
    total = np.zeros((len(codes_query), n_bits + 1), dtype=np.int64)
    relevant = np.zeros_like(total)
    database = unpack(codes_database, n_bits)
    for i, query in enumerate(unpack(codes_query, n_bits)):
        for j, item in enumerate(database):
            distance = sum(a != b for a, b in zip(query, item, strict=True))
            total[i, distance] += 1
            relevant[i, distance] += y_query[i] == y_database[j] and y_query[i] != -1
    return total, relevant


def build(case):
    return distance_histogram(*case[:-1], n_bits=case.n_bits)


@given(seed=SEEDS)
def test_histogram_is_the_double_loop(retrieval_case, seed):
    case = retrieval_case(seed)
    hist = build(case)
    total, relevant = looped_histogram(*case)
    np.testing.assert_array_equal(hist.total, total)
    np.testing.assert_array_equal(hist.relevant, relevant)
    assert hist.total.dtype == hist.relevant.dtype == np.int64


@given(seed=SEEDS)
def test_order_of_database_changes_nothing(retrieval_case, seed):
    case = retrieval_case(seed)
    order = np.random.default_rng(seed).permutation(len(case.y_database))
    shuffled = case._replace(
        codes_database=case.codes_database[order], y_database=case.y_database[order]
    )
    np.testing.assert_array_equal(build(shuffled).total, build(case).total)
    np.testing.assert_array_equal(build(shuffled).relevant, build(case).relevant)


@given(seed=SEEDS)
def test_order_of_queries_is_the_order_of_rows(retrieval_case, seed):
    case = retrieval_case(seed)
    reverse = case._replace(codes_query=case.codes_query[::-1], y_query=case.y_query[::-1])
    np.testing.assert_array_equal(build(reverse).relevant, build(case).relevant[::-1])


@pytest.mark.parametrize("n_bits", [13, 300])
def test_classes_cross_tile_borders(n_bits):
    """Several tiles, against a mask per query; from 256 bits on distances are uint16."""
    rng = np.random.default_rng(0)
    n_query, n_database = 20, 150_000  # a tile has 65,536 columns
    codes_query = pack(rng.random((n_query, n_bits)) < 0.5)
    codes_database = pack(rng.random((n_database, n_bits)) < 0.5)
    y_query, y_database = rng.integers(-1, 3, n_query), rng.integers(-1, 2, n_database)
    n_tiles = sum(1 for _ in hamming_tiles(codes_query, codes_database))
    assert n_tiles > 4

    hist = distance_histogram(codes_query, codes_database, y_query, y_database, n_bits=n_bits)
    for i in range(n_query):
        D = np.bitwise_count(codes_query[i] ^ codes_database).sum(axis=1, dtype=np.intp)
        same = D[(y_database == y_query[i]) & (y_query[i] != -1)]
        np.testing.assert_array_equal(hist.total[i], np.bincount(D, minlength=n_bits + 1))
        np.testing.assert_array_equal(hist.relevant[i], np.bincount(same, minlength=n_bits + 1))


def test_inputs_stay_as_they_were():
    arrays = (pack(np.eye(4)), pack(np.eye(4)), np.array([3, 1, 0, 2]), np.array([2, 0, 1, 3]))
    copies = [array.copy() for array in arrays]
    for array in arrays:
        array.flags.writeable = False
    distance_histogram(*arrays, n_bits=4)
    for array, copy in zip(arrays, copies, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_unknown_label_has_no_relevant_items():
    hist = distance_histogram(CODE, CODE, [-1], [-1], n_bits=3)
    np.testing.assert_array_equal(hist.total, [[1, 0, 0, 0]])
    np.testing.assert_array_equal(hist.n_relevant, [0])


def test_empty_inputs_are_refused():
    with pytest.raises(ValueError, match="there are no queries"):
        distance_histogram(CODE[:0], CODE, [], [1], n_bits=3)
    with pytest.raises(ValueError, match="there are no database rows"):
        distance_histogram(CODE, CODE[:0], [1], [], n_bits=3)


def test_wrong_inputs_name_the_argument():
    for arguments, n_bits, message in (
        ((CODE, CODE, [1, 2], [1]), 3, "y_query: has shape"),
        ((CODE, CODE, [1], [[1]]), 3, "y_database: has shape"),
        ((CODE, CODE, [0.5], [1]), 3, "y_query: must be integer"),
        ((CODE, CODE, [1], [1]), 9, "codes_query: has shape"),
        ((CODE, CODE[0], [1], [1]), 3, "codes_database: has shape"),
        ((CODE, CODE.astype(np.int8), [1], [1]), 3, "codes_database: must be packed"),
        ((CODE, ~CODE, [1], [1]), 3, "differ in 8 bits, more than n_bits=3"),
    ):
        with pytest.raises(InputError, match=message):
            distance_histogram(*arguments, n_bits=n_bits)


def test_impossible_counts_are_refused():
    for total, relevant, message in (
        ([[1, 2]], [[1]], "the same shape"),
        ([1, 2], [0, 1], "the same shape"),
        ([[1, 2]], [[2, 0]], "between 0 and total"),
        ([[1, 2]], [[-1, 0]], "between 0 and total"),
        ([[1, 2], [0, 0]], [[0, 0], [0, 0]], "no database rows"),
    ):
        with pytest.raises(InputError, match=message):
            DistanceHistogram(np.array(total), np.array(relevant))


def traced_histogram(n_query, n_database):
    """Peak memory in MB above the inputs, and seconds, for random codes of 64 bits."""
    rng = np.random.default_rng(0)
    codes_query = rng.integers(0, 256, (n_query, 8), dtype=np.uint8)
    codes_database = rng.integers(0, 256, (n_database, 8), dtype=np.uint8)
    y_query, y_database = rng.integers(0, 10, n_query), rng.integers(0, 10, n_database)
    tracemalloc.start()
    began = time.perf_counter()
    hist = distance_histogram(codes_query, codes_database, y_query, y_database, n_bits=64)
    seconds, peak = time.perf_counter() - began, tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    assert (hist.total.sum(axis=1) == n_database).all()
    np.testing.assert_array_equal(hist.n_relevant, np.bincount(y_database)[y_query])
    return peak, seconds


def test_memory_does_not_grow_with_the_number_of_pairs():
    peak, _ = traced_histogram(n_query=200, n_database=100_000)
    assert peak < 40  # the distances alone would take 20 MB as bytes and 160 MB as keys
    assert traced_histogram(n_query=400, n_database=100_000)[0] < peak + 1


@pytest.mark.slow
def test_thousand_queries_against_a_million_items():
    peak, seconds = traced_histogram(n_query=1_000, n_database=1_000_000)
    print(f"peak {peak:.0f} MB above the inputs, {seconds:.1f} s")
    assert peak < 300
    assert seconds < 60
