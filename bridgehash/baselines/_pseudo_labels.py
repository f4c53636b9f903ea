"""Pseudo-labels of target rows from labelled source rows.

Two predictions are combined (structured prediction, Wang & Breckon, AAAI 2020): the nearest class
mean of the source, and the nearest cluster of the target. The clusters start at those means and are
matched to the classes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.special import softmax
from sklearn.metrics.pairwise import euclidean_distances

from .._core.linalg import Array, k_means, unit_rows
from ..neighbors.graphs import one_hot


def class_means(X: Array, y: NDArray[np.intp], n_classes: int) -> Array:
    """Return the mean row of each class 0 to n_classes - 1; zero for a class without rows.

    >>> class_means(np.array([[0.0], [2.0], [5.0]]), np.array([0, 0, 1]), n_classes=2)
    array([[1.],
           [5.]])
    """
    Y = one_hot(y, n_classes)
    sizes = np.maximum(np.asarray(Y.sum(axis=0)), 1.0)
    return ((Y.T @ X) / sizes[:, None]).astype(X.dtype)


def target_clusters(X_target: Array, means: Array) -> Array:
    """Return k-means centres of the target, started at class means, in the order of the classes.

    Centres can move to another class. They are matched to the classes by the assignment with the
    smallest total distance from the means.
    """
    if len(X_target) < len(means):
        return means
    clusters = k_means(X_target, means, n_iter=100)
    rows, classes = linear_sum_assignment(euclidean_distances(clusters, means))
    centres = np.empty_like(means)
    centres[classes] = clusters[rows]
    return centres


def class_probabilities(
    X_source: Array, y_source: NDArray[np.intp], X_target: Array, *, temperature: float
) -> Array:
    """Return class scores of the target rows, shape (n_target, c): the larger of two predictions.

    Rows are divided by their norms. A prediction is the softmax of -distance / temperature.
    """
    Z_s, Z_t = unit_rows(X_source), unit_rows(X_target)
    means = unit_rows(class_means(Z_s, y_source, int(y_source.max()) + 1))
    predictions = [
        softmax(euclidean_distances(Z_t, centres) / -temperature, axis=1)
        for centres in (means, target_clusters(Z_t, means))
    ]
    return np.maximum(*predictions)
