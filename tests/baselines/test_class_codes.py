"""Class codes: all different, no bit constant, far apart."""

import numpy as np
import pytest

from bridgehash.baselines._classes import class_codes


@pytest.mark.parametrize(("c", "r"), [(2, 1), (3, 2), (4, 2), (10, 4), (10, 64), (300, 9), (7, 40)])
def test_codes_differ_and_no_bit_is_constant(c, r):
    for seed in range(10):
        codes = class_codes(c, r, np.random.RandomState(seed))
        assert codes.shape == (c, r)
        assert set(np.unique(codes)) == {-1.0, 1.0}
        assert len(np.unique(codes, axis=0)) == c
        assert (np.abs(codes.sum(axis=0)) < c).all()


def test_too_few_codes_are_shared_evenly():
    codes = class_codes(10, 2, np.random.RandomState(0))
    _, counts = np.unique(codes, axis=0, return_counts=True)
    assert sorted(counts) == [2, 2, 3, 3]


def test_codes_are_drawn_evenly():
    drawn = np.vstack([class_codes(10, 40, np.random.RandomState(seed)) for seed in range(60)])
    assert np.abs(drawn.mean(axis=0)).max() < 0.2


@pytest.mark.parametrize(("c", "r", "apart"), [(10, 16, 6), (10, 64, 26), (65, 64, 24), (7, 8, 3)])
def test_codes_are_farther_apart_than_random_ones(c, r, apart):
    def nearest(codes):
        products = codes @ codes.T
        np.fill_diagonal(products, -r)
        return (r - products.max()) / 2

    rng = np.random.RandomState(0)
    found = [nearest(class_codes(c, r, rng)) for _ in range(5)]
    random = [nearest(np.where(rng.random_sample((c, r)) < 0.5, -1.0, 1.0)) for _ in range(50)]
    assert min(found) >= apart
    assert min(found) > np.mean(random)
