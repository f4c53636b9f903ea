"""Curves by radius against the stored reference, a loop over radii, and hand-computed cases."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehash.codes import pack, unpack
from bridgehash.metrics import (
    DistanceHistogram,
    distance_histogram,
    lookup,
    radius_pr_area,
    radius_pr_curve,
)

SEEDS = st.integers(0, 2**32 - 1)


def histogram(total, relevant):
    return DistanceHistogram(np.atleast_2d(total), np.atleast_2d(relevant))


def build(case):
    return distance_histogram(*case[:-1], n_bits=case.n_bits)


def looped_area(case, include_max_radius):
    """`recall_precision.m` and `area_RP.m`, radius by radius over the matrix of all pairs."""
    query, database = (unpack(codes, case.n_bits) for codes in case[:2])
    D = (query[:, None] != database[None]).sum(axis=2)
    same = (case.y_query[:, None] == case.y_database) & (case.y_query[:, None] != -1)
    points = []
    for radius in range(D.max() + include_max_radius):
        inside = radius >= D
        found, returned = (same & inside).sum(), inside.sum()
        points.append((found / same.sum() if same.any() else 0.0, found / (returned + 2.2e-16)))
    points = points or [(0.01, 0.01)]
    if points[0][0] != 0:
        points.insert(0, (0.0, points[0][1]))
    kept = [p for i, p in enumerate(points) if i == 0 or p[0] != points[i - 1][0]]
    return sum((b[0] - a[0]) * (b[1] + a[1]) / 2 for a, b in pairwise(kept))


def test_curve_and_area_equal_the_public_code(golden):
    stored = golden("metric_area_rp")
    for i in range(len(stored["names"])):
        case = {
            key: stored[f"c{i:02d}_{key}"]
            for key in ("bits_query", "bits_database", "y_query", "y_database")
        }
        hist = distance_histogram(
            pack(case["bits_query"]),
            pack(case["bits_database"]),
            case["y_query"],
            case["y_database"],
            n_bits=case["bits_query"].shape[1],
        )
        recall, precision = radius_pr_curve(hist)
        np.testing.assert_allclose(recall, stored[f"c{i:02d}_recall_exact"], atol=1e-12)
        np.testing.assert_allclose(precision, stored[f"c{i:02d}_precision_exact"], atol=1e-12)
        area = stored[f"c{i:02d}_area_exact"]
        np.testing.assert_allclose(radius_pr_area(hist), area, atol=1e-12)


@given(seed=SEEDS, include_max_radius=st.booleans())
def test_area_is_the_loop_over_radii(retrieval_case, seed, include_max_radius):
    case = retrieval_case(seed)
    area = radius_pr_area(build(case), include_max_radius=include_max_radius)
    np.testing.assert_allclose(area, looped_area(case, include_max_radius), atol=1e-12)


def test_curve_pools_all_queries():
    hist = histogram([[1, 1, 2, 0], [0, 4, 0, 0]], [[1, 0, 1, 0], [0, 2, 0, 0]])
    recall, precision = radius_pr_curve(hist)
    np.testing.assert_allclose(recall, [1 / 4, 3 / 4])
    np.testing.assert_allclose(precision, [1, 3 / 6])
    recall, precision = radius_pr_curve(hist, include_max_radius=True)
    np.testing.assert_allclose(recall, [1 / 4, 3 / 4, 1])
    np.testing.assert_allclose(precision, [1, 3 / 6, 4 / 8])


@pytest.mark.parametrize(
    ("total", "relevant", "area", "area_with_max"),
    [
        ([1, 1, 2], [1, 0, 1], 0.5, 0.5 + 0.5 * (1 + 0.5) / 2),  # radius 1 repeats a recall
        (
            [0, 2, 1, 1],
            [0, 1, 1, 0],
            0.5 * 0.5 / 2 + 0.5 * (1 / 2 + 2 / 3) / 2,
            None,
        ),  # from (0, 0)
        ([2, 2], [0, 1], 0.0, 0.25 / 2),  # relevant at the largest distance only
        ([4, 0], [1, 0], 1e-4, 0.25),  # all codes equal
        ([1, 3], [0, 0], 0.0, 0.0),  # nothing relevant
    ],
)
def test_area_by_hand(total, relevant, area, area_with_max):
    hist = histogram(total, relevant)
    expected = area if area_with_max is None else area_with_max
    assert radius_pr_area(hist) == pytest.approx(area, abs=1e-15)
    assert radius_pr_area(hist, include_max_radius=True) == pytest.approx(expected, abs=1e-15)


@given(seed=SEEDS, include_max_radius=st.booleans())
def test_curve_and_area_are_fractions_and_recall_grows(retrieval_case, seed, include_max_radius):
    hist = build(retrieval_case(seed))
    recall, precision = radius_pr_curve(hist, include_max_radius=include_max_radius)
    area = radius_pr_area(hist, include_max_radius=include_max_radius)
    for scores in (recall, precision, np.array(area)):
        assert ((scores >= 0) & (scores <= 1)).all()
    assert (np.diff(recall) >= 0).all()


@given(y=st.lists(st.integers(0, 3), min_size=1, max_size=20), n_bits=st.sampled_from([2, 9, 64]))
def test_perfect_codes_have_area_one(y, n_bits):
    signs = np.random.default_rng(n_bits).random((4, n_bits)) < 0.5
    signs[:, :2] = [[0, 0], [0, 1], [1, 0], [1, 1]]  # one code a class, all different
    hist = distance_histogram(pack(signs[y]), pack(signs), y, np.arange(4), n_bits=n_bits)
    assert radius_pr_area(hist) == pytest.approx(1.0, abs=1e-12)
    assert lookup(hist, radius=0) == (1.0, 1.0)


def test_lookup_by_hand():
    hist = histogram(
        [[1, 1, 2, 2], [0, 0, 0, 6], [0, 2, 0, 4]], [[1, 0, 1, 1], [0, 0, 0, 3], [0] * 4]
    )
    scores = lookup(hist)
    assert scores.precision == pytest.approx((2 / 4 + 0 + 0) / 3)  # the second ball is empty
    assert scores.recall == pytest.approx((2 / 3 + 0) / 2)  # the third query has none to find
    assert lookup(hist, radius=3) == pytest.approx(((3 / 6 + 3 / 6 + 0) / 3, 1.0))
    assert lookup(hist, radius=99) == lookup(hist, radius=3)


def test_lookup_without_any_relevant_item_is_zero():
    assert lookup(histogram([2, 1], [0, 0])) == (0.0, 0.0)


def test_lookup_refuses_a_negative_radius():
    with pytest.raises(ValueError, match="radius=-1 is negative"):
        lookup(histogram([2, 1], [0, 0]), radius=-1)
