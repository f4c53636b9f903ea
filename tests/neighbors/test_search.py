"""Scans for near and far rows against loops, with ties, duplicates and small tiles."""

import numpy as np
import pytest

from bridgehash.neighbors.search import class_extremes, nearest_others, nearest_whole_others
from bridgehash.neighbors.search import search as neighbors


@pytest.fixture(params=[1 << 22, 20], ids=["one tile", "small tiles"], autouse=True)
def _tiles(request, monkeypatch):
    monkeypatch.setattr(neighbors, "_TILE", request.param)


def whole_numbers(seed, n=17, d=3, high=4):
    return np.random.default_rng(seed).integers(0, high, (n, d)).astype(float)


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


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("k", [1, 6, 16])
def test_equal_distances_of_whole_numbers_go_by_position(seed, k):
    H = whole_numbers(seed)
    F, columns = nearest_whole_others(H, k)
    for i, x in enumerate(H):
        far = squared(x, H)
        expected = sorted((j for j in range(len(H)) if j != i), key=lambda j: (far[j], j))[:k]
        assert sorted(columns[i]) == sorted(expected)
        np.testing.assert_array_equal(F[i], [far[j] for j in columns[i]])


@pytest.mark.parametrize("seed", range(5))
def test_extremes_are_the_first_farthest_of_a_class_and_the_first_nearest_of_another(seed):
    queries, rows = whole_numbers(seed), whole_numbers(seed + 100, n=14)
    rng = np.random.default_rng(seed)
    y, y_rows = rng.integers(0, 3, 17), np.concatenate([np.arange(3), rng.integers(0, 3, 11)])
    far, near = class_extremes(queries, y, rows, y_rows)
    for i, x in enumerate(queries):
        D = squared(x, rows)
        same = [j for j in range(14) if y_rows[j] == y[i]]
        other = [j for j in range(14) if y_rows[j] != y[i]]
        assert far[i] == max(same, key=D.__getitem__)
        assert near[i] == min(other, key=D.__getitem__)
