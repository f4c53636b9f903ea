"""Nearest rows against loops, with duplicates."""

import numpy as np

from bridgehash.neighbors.search import nearest_others


def squared(x, rows):
    return [float(((x - row) ** 2).sum()) for row in rows]


def test_a_row_is_not_its_own_neighbour():
    X = np.random.default_rng(0).normal(size=(12, 3))
    F, columns = nearest_others(X, 4)
    for i, x in enumerate(X):
        far = squared(x, X)
        expected = sorted((j for j in range(12) if j != i), key=far.__getitem__)[:4]
        np.testing.assert_array_equal(columns[i], expected)
        np.testing.assert_allclose(F[i], [far[j] for j in expected], atol=1e-12)


def test_copies_of_a_row_are_neighbours_at_no_distance():
    F, columns = nearest_others(np.repeat(np.eye(2), 6, axis=0), 3)
    assert columns.shape == (12, 3)
    assert np.abs(F).max() < 1e-12
