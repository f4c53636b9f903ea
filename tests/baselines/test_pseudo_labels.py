"""Guessed classes: means, clusters in the order of the classes, probabilities."""

import numpy as np
import pytest

from bridgehash.baselines._classes import class_means, class_probabilities, target_clusters


@pytest.fixture
def domains():
    """Four classes on a circle; the target is turned by half the way to the next class."""
    rng = np.random.default_rng(0)
    y_s, y_t = rng.integers(0, 4, 80), rng.integers(0, 4, 60)

    def rows(y, turn):
        angle = (y + turn) * np.pi / 2
        return np.column_stack([np.cos(angle), np.sin(angle)]) + 0.1 * rng.normal(size=(len(y), 2))

    return rows(y_s, 0.0), y_s, rows(y_t, 0.45), y_t


def test_means_are_those_of_a_loop(domains):
    X, y, _, _ = domains
    expected = [X[y == k].mean(axis=0) for k in range(4)]
    np.testing.assert_allclose(class_means(X, y, 4), expected)
    np.testing.assert_array_equal(class_means(X, y, 5)[4], [0.0, 0.0])


def test_clusters_keep_the_order_of_the_classes(domains):
    X_s, y_s, X_t, y_t = domains
    centres = target_clusters(X_t, class_means(X_s, y_s, 4))
    np.testing.assert_allclose(centres, class_means(X_t, y_t, 4), atol=0.05)


def test_fewer_rows_than_classes_leave_the_means(domains):
    X_s, y_s, X_t, _ = domains
    means = class_means(X_s, y_s, 4)
    np.testing.assert_array_equal(target_clusters(X_t[:3], means), means)


def test_clusters_find_what_the_nearest_mean_misses(domains):
    X_s, y_s, X_t, y_t = domains
    P = class_probabilities(X_s, y_s, X_t, temperature=0.1)
    assert P.shape == (60, 4)
    assert ((P > 0) & (P <= 1)).all()
    by_mean = ((X_t[:, None] - class_means(X_s, y_s, 4)) ** 2).sum(axis=2).argmin(axis=1)
    assert (P.argmax(axis=1) == y_t).mean() > (by_mean == y_t).mean()
    assert (P.argmax(axis=1) == y_t).mean() > 0.95


def test_a_low_temperature_is_sure(domains):
    X_s, y_s, X_t, _ = domains
    low, high = (class_probabilities(X_s, y_s, X_t, temperature=t) for t in (0.01, 10.0))
    assert low.max(axis=1).mean() > 0.99
    assert high.max(axis=1).mean() < 0.4
