"""Classes guessed for unlabelled rows of the target from labelled rows of the source.

Two guesses meet (structured prediction, Wang & Breckon, AAAI 2020): by the nearest class mean of
the source, and by clusters of the target itself, grown from those means and matched to the classes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.special import softmax
from sklearn.metrics.pairwise import euclidean_distances

from .._core.linalg import Array, k_means
from ..models.feature_maps import UnitRows
from ..neighbors.graphs import one_hot


def class_means(X: Array, y: NDArray[np.intp], n_classes: int) -> Array:
    """Mean row of each class 0..n_classes-1; zero for a class without rows.

    >>> class_means(np.array([[0.0], [2.0], [5.0]]), np.array([0, 0, 1]), n_classes=2)
    array([[1.],
           [5.]])
    """
    Y = one_hot(y, n_classes)
    sizes = np.maximum(np.asarray(Y.sum(axis=0)), 1.0)
    return ((Y.T @ X) / sizes[:, None]).astype(X.dtype)


def target_clusters(X_target: Array, means: Array) -> Array:
    """Centres of k-means on the target, started at class means and put in their order.

    Centres may wander; the assignment that moves them least in all says which class each is.
    """
    if len(X_target) < len(means):
        return means
    found = k_means(X_target, means, n_iter=100)
    rows, classes = linear_sum_assignment(euclidean_distances(found, means))
    centres = np.empty_like(means)
    centres[classes] = found[rows]
    return centres


def class_probabilities(
    X_source: Array, y_source: NDArray[np.intp], X_target: Array, *, temperature: float
) -> Array:
    """Likely classes of the target, shape (n_target, c): the surer of the two guesses.

    Rows are brought to unit norm; a guess is the softmax of -distance / temperature.
    """
    unit = UnitRows().fit(X_source)
    Z_s, Z_t = unit.transform(X_source), unit.transform(X_target)
    means = unit.transform(class_means(Z_s, y_source, int(y_source.max()) + 1))
    centres = target_clusters(Z_t, means)
    guesses = [
        softmax(euclidean_distances(Z_t, places) / -temperature, axis=1)
        for places in (means, centres)
    ]
    return np.maximum(*guesses)
