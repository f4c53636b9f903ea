"""Scores of the ranked list against hand-computed ties and against all orders of the database."""

from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridgehash import InputError
from bridgehash.codes import pack, unpack
from bridgehash.metrics import (
    DistanceHistogram,
    average_precision,
    distance_histogram,
    mean_average_precision,
    ndcg_at,
    precision_at,
    recall_at,
)
from bridgehash.metrics.ranking import _harmonic_difference

SEEDS = st.integers(0, 2**32 - 1)


def histogram(total, relevant):
    return DistanceHistogram(np.atleast_2d(total), np.atleast_2d(relevant))


def build(case):
    return distance_histogram(*case[:-1], n_bits=case.n_bits)


def rankings(case, i):
    """Relevance of the sorted list of query i, for every order of the database."""
    query = unpack(case.codes_query, case.n_bits)[i]
    distances = (unpack(case.codes_database, case.n_bits) != query).sum(axis=1)
    same = (case.y_database == case.y_query[i]) & (case.y_query[i] != -1)
    for order in map(list, permutations(range(len(same)))):
        yield same[order][np.argsort(distances[order], kind="stable")]


def plain_average_precision(ranked):
    """(1/R) Σ_k [item k relevant] precision@k."""
    precisions = [ranked[: k + 1].mean() for k in range(len(ranked)) if ranked[k]]
    return np.mean(precisions) if precisions else 0.0


def plain_ndcg(ranked, k):
    """Gains of the first k, divided by those of the best order."""
    gains = [
        sum(1 / np.log2(j + 2) for j in np.flatnonzero(r[:k]))
        for r in (ranked, np.sort(ranked)[::-1])
    ]
    return gains[0] / gains[1] if gains[1] else 0.0


def looped_average_precision(total, relevant):
    """The tie-aware expectation with its sum over k written out, ties in order."""
    score, N, R = 0.0, 0, 0
    for n, r in zip(total, relevant, strict=True):
        if n:
            slope = (r - 1) / (n - 1) if n > 1 else 0.0
            k = np.arange(1, n + 1)
            score += r / n * np.sum((R + 1 + (k - 1) * slope) / (N + k))
        N, R = N + n, R + r
    return score / R if R else 0.0


@pytest.mark.parametrize(
    ("total", "relevant", "expected"),
    [
        ([1, 1, 1], [1, 0, 1], (1 + 2 / 3) / 2),  # no ties
        ([2], [1], (1 + 1 / 2) / 2),  # first or second
        ([1, 2], [0, 1], (1 / 2 + 1 / 3) / 2),
        ([3], [2], (1 + (1 + 2 / 3) / 2 + (1 / 2 + 2 / 3) / 2) / 3),  # 110, 101, 011
        ([0, 2, 0, 1], [0, 1, 0, 1], ((1 + 2 / 3) / 2 + (1 / 2 + 2 / 3) / 2) / 2),  # 101, 011
        ([2, 3], [2, 0], 1.0),
        ([2, 3], [0, 0], 0.0),  # nothing relevant
    ],
)
def test_average_precision_by_hand(total, relevant, expected):
    assert average_precision(histogram(total, relevant)) == pytest.approx([expected], abs=1e-14)


@settings(max_examples=25)
@given(seed=SEEDS)
def test_scores_are_means_over_all_orders_of_the_database(retrieval_case, seed):
    case = retrieval_case(seed)
    case = case._replace(codes_database=case.codes_database[:6], y_database=case.y_database[:6])
    n_query, n_database = len(case.y_query), len(case.y_database)
    ks = np.arange(1, n_database + 1)
    ranked = np.array([list(rankings(case, i)) for i in range(n_query)])  # query, order, place
    hits = ranked.cumsum(axis=2).mean(axis=1)
    defined = hits[:, -1] > 0
    recalls = hits[defined] / hits[defined, -1:]
    ap = [np.mean([plain_average_precision(row) for row in orders]) for orders in ranked]

    hist = build(case)
    np.testing.assert_allclose(average_precision(hist), ap, atol=1e-12)
    np.testing.assert_allclose(mean_average_precision(hist), np.mean(ap), atol=1e-12)
    for top in (2, 4, 9):
        first = ranked[:, :, :top]
        ap = [np.mean([plain_average_precision(row) for row in orders]) for orders in first]
        np.testing.assert_allclose(average_precision(hist, top=top), ap, atol=1e-12)
        np.testing.assert_allclose(mean_average_precision(hist, top=top), np.mean(ap), atol=1e-12)
    ndcg = [np.mean([plain_ndcg(row, 3) for row in orders]) for orders in ranked]
    np.testing.assert_allclose(ndcg_at(hist, 3), np.mean(ndcg), atol=1e-12)
    np.testing.assert_allclose(ndcg_at(hist, [3, 2])[0], np.mean(ndcg), atol=1e-12)
    np.testing.assert_allclose(precision_at(hist, ks), (hits / ks).mean(axis=0), atol=1e-12)
    expected = recalls.mean(axis=0) if defined.any() else np.zeros(n_database)
    np.testing.assert_allclose(recall_at(hist, ks), expected, atol=1e-12)


@pytest.mark.parametrize("n_database", [300, 1_000_000])
def test_closed_form_is_the_loop_over_places(n_database):
    rng = np.random.default_rng(n_database)
    cuts = np.sort(rng.integers(0, n_database, (6, 64)), axis=1)
    cuts[0] = n_database - np.arange(1, 65)[::-1]  # single items at the far end
    cuts[1] = n_database - 2 * np.arange(1, 65)[::-1]  # pairs at the far end
    edges = np.concatenate([np.zeros((6, 1), int), cuts, np.full((6, 1), n_database)], axis=1)
    total = np.diff(edges, axis=1)
    relevant = rng.binomial(total, rng.random(total.shape))
    relevant[:2, 1:] = total[:2, 1:]
    expected = [looped_average_precision(*rows) for rows in zip(total, relevant, strict=True)]
    actual = average_precision(histogram(total, relevant))
    np.testing.assert_allclose(actual, expected, rtol=1e-10, atol=0)


def test_harmonic_difference_keeps_its_digits():
    N = np.array([0, 1, 8, 20, 127, 128, 129, 10_000, 10**6, 10**9])
    for n in (0, 1, 2, 17, 5000):
        expected = [np.sum(1 / (start + np.arange(1, n + 1))) for start in N]
        actual = _harmonic_difference(N, np.full_like(N, n))
        np.testing.assert_allclose(actual, expected, rtol=2e-13)


def test_queries_without_relevant_items_count_as_zero_in_the_mean():
    hist = histogram([[1, 2], [1, 2]], [[1, 0], [0, 0]])
    assert mean_average_precision(hist) == 0.5
    assert precision_at(hist, 1) == 0.5
    assert recall_at(hist, 1) == 1.0  # recall is averaged over the first query alone


def test_precision_and_recall_by_hand():
    hist = histogram([2, 0, 3, 1], [1, 0, 2, 1])
    hits = np.array([1 / 2, 1, 1 + 2 / 3, 1 + 4 / 3, 3, 4])
    ks = [1, 2, 3, 4, 5, 6]
    np.testing.assert_allclose(precision_at(hist, ks), hits / ks, rtol=1e-14)
    np.testing.assert_allclose(recall_at(hist, ks), hits / 4, rtol=1e-14)


def test_places_beyond_the_database_are_misses():
    hist = histogram([1, 1], [1, 1])
    assert precision_at(hist, 4) == 0.5
    assert recall_at(hist, 4) == 1.0


def test_one_k_gives_a_number_and_a_sequence_an_array():
    hist = histogram([1, 2], [1, 0])
    assert isinstance(precision_at(hist, 1), float)
    assert isinstance(recall_at(hist, np.int64(1)), float)
    assert precision_at(hist, [1]).shape == recall_at(hist, (1,)).shape == (1,)


def test_k_must_be_positive_integers():
    for score, k in product((precision_at, recall_at), (0, -1, 1.5, [], [1, 0], [[1]])):
        with pytest.raises(InputError, match="k="):
            score(histogram([1, 2], [1, 0]), k)


def test_scores_are_zero_without_any_relevant_item():
    hist = histogram([1, 2], [0, 0])
    assert mean_average_precision(hist) == precision_at(hist, 2) == recall_at(hist, 2) == 0.0


@given(seed=SEEDS)
def test_scores_are_fractions_and_recall_grows(retrieval_case, seed):
    case = retrieval_case(seed)
    hist, ks = build(case), np.arange(1, 12)
    recall = recall_at(hist, ks)
    for scores in (average_precision(hist), precision_at(hist, ks), recall):
        assert ((scores >= 0) & (scores <= 1)).all()
    assert (np.diff(recall) >= -1e-12).all()


@given(y=st.lists(st.integers(0, 3), min_size=1, max_size=20), n_bits=st.sampled_from([2, 9, 64]))
def test_perfect_codes_score_one(y, n_bits):
    signs = np.random.default_rng(n_bits).random((4, n_bits)) < 0.5
    signs[:, :2] = [[0, 0], [0, 1], [1, 0], [1, 1]]  # one code a class, all different
    codes = pack(signs[y])
    hist = distance_histogram(codes, codes, y, y, n_bits=n_bits)
    np.testing.assert_allclose(average_precision(hist), 1.0, atol=1e-14)
    assert precision_at(hist, 1) == 1.0
