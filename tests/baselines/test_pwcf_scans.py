"""Scans of PWCF for near and far rows against loops, with ties and small tiles."""

import numpy as np

from bridgehash.baselines import pwcf
from bridgehash.baselines.pwcf import class_extremes, nearest_whole_others


def whole_numbers(seed, n=17, d=3, high=4):
    return np.random.default_rng(seed).integers(0, high, (n, d)).astype(float)


def distances(x, rows):
    return [float(((x - row) ** 2).sum()) for row in rows]


def test_equal_distances_of_whole_numbers_are_ordered_by_position(monkeypatch):
    for tile in (1 << 22, 20):
        monkeypatch.setattr(pwcf, "_DISTANCES", tile)
        for seed in range(5):
            H = whole_numbers(seed)
            for k in (1, 6, 16):
                F, columns = nearest_whole_others(H, k)
                for i, x in enumerate(H):
                    D = distances(x, H)
                    others = (j for j in range(len(H)) if j != i)
                    expected = sorted(others, key=lambda j: (D[j], j))[:k]
                    assert sorted(columns[i]) == sorted(expected)
                    np.testing.assert_array_equal(F[i], [D[j] for j in columns[i]])


def test_the_first_farthest_of_the_class_and_the_first_nearest_of_another_are_found(monkeypatch):
    for tile in (1 << 22, 20):
        monkeypatch.setattr(pwcf, "_DISTANCES", tile)
        for seed in range(5):
            queries, rows = whole_numbers(seed), whole_numbers(seed + 100, n=14)
            rng = np.random.default_rng(seed)
            y = rng.integers(0, 3, 17)
            y_rows = np.concatenate([np.arange(3), rng.integers(0, 3, 11)])
            far, near = class_extremes(queries, y, rows, y_rows)
            for i, x in enumerate(queries):
                D = distances(x, rows)
                same = [j for j in range(14) if y_rows[j] == y[i]]
                other = [j for j in range(14) if y_rows[j] != y[i]]
                assert far[i] == max(same, key=D.__getitem__)
                assert near[i] == min(other, key=D.__getitem__)
