"""Words of classes: all different, no bit idle, far apart."""

import numpy as np
import pytest

from bridgehash.baselines._class_codes import class_words


@pytest.mark.parametrize(("c", "r"), [(2, 1), (3, 2), (4, 2), (10, 4), (10, 64), (300, 9), (7, 40)])
@pytest.mark.parametrize("seed", range(10))
def test_words_differ_and_every_bit_tells_some_classes_apart(c, r, seed):
    words = class_words(c, r, np.random.RandomState(seed))
    assert words.shape == (c, r)
    assert set(np.unique(words)) == {-1.0, 1.0}
    assert len(np.unique(words, axis=0)) == c
    assert (np.abs(words.sum(axis=0)) < c).all()


def test_too_few_words_are_shared_evenly():
    words = class_words(10, 2, np.random.RandomState(0))
    _, counts = np.unique(words, axis=0, return_counts=True)
    assert sorted(counts) == [2, 2, 3, 3]


def test_words_are_drawn_evenly():
    drawn = np.vstack([class_words(10, 40, np.random.RandomState(seed)) for seed in range(200)])
    assert np.abs(drawn.mean(axis=0)).max() < 0.12


@pytest.mark.parametrize(("c", "r", "apart"), [(10, 16, 6), (10, 64, 26), (65, 64, 24), (7, 8, 3)])
def test_words_are_further_apart_than_random_ones(c, r, apart):
    def nearest(words):
        products = words @ words.T
        np.fill_diagonal(products, -r)
        return (r - products.max()) / 2

    rng = np.random.RandomState(0)
    found = [nearest(class_words(c, r, rng)) for _ in range(5)]
    random = [nearest(np.where(rng.random_sample((c, r)) < 0.5, -1.0, 1.0)) for _ in range(50)]
    assert min(found) >= apart
    assert min(found) > np.mean(random)
