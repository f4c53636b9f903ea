"""Binary codes, means and pseudo-labels of classes.

Pseudo-labels of target rows combine two predictions from labelled source rows (structured
prediction, Wang & Breckon, AAAI 2020): the nearest class mean of the source, and the nearest
cluster of the target. The clusters start at those means and are matched to the classes.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.special import softmax
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.utils.random import sample_without_replacement

from .._core.linalg import Array, k_means, unit_rows
from ..models.training import Ids
from ..neighbors.graphs import one_hot

_DRAWS = 100
_DISTINCT_BITS = 30  # first bits, at most, in which random codes are drawn without repetition


def class_codes(n_classes: int, n_bits: int, rng: np.random.RandomState) -> Array:
    """Return one row of ±1 per class: the draw whose two nearest codes are farthest apart.

    One draw of random codes is compared with a hundred draws from Hadamard matrices, whose rows
    differ in half of their bits. All codes differ if n_bits allows it, and no bit is the same for
    all classes.

    >>> class_codes(2, 1, np.random.RandomState(0)).sum()
    np.float64(0.0)
    """
    best = _random_codes(n_classes, n_bits, rng)
    for _ in range(_DRAWS):
        codes = _hadamard_codes(n_classes, n_bits, rng)
        if _min_distance(codes) > _min_distance(best):
            best = codes
    constant = np.flatnonzero(np.abs(best.sum(axis=0)) == n_classes)
    best[rng.randint(n_classes, size=len(constant)), constant] *= -1.0
    return best


def _min_distance(codes: Array) -> float:
    """Return the Hamming distance of the two nearest codes."""
    products = codes @ codes.T
    np.fill_diagonal(products, -np.inf)
    return float(codes.shape[1] - products.max()) / 2


def _hadamard_codes(n_classes: int, n_bits: int, rng: np.random.RandomState) -> Array:
    """Draw rows and columns of Sylvester's matrix, H_ij = (-1)^|i & j|, and column signs."""
    order = 1 << max(n_classes, n_bits).bit_length()
    rows, columns = (
        1 + sample_without_replacement(order - 1, n, random_state=rng) for n in (n_classes, n_bits)
    )
    odd = np.bitwise_count(rows[:, None] & columns) % 2
    return (1.0 - 2.0 * odd) * (2.0 * rng.randint(2, size=n_bits) - 1.0)


def _random_codes(n_classes: int, n_bits: int, rng: np.random.RandomState) -> Array:
    n_distinct = min(n_bits, _DISTINCT_BITS)
    n_codes = min(n_classes, 2**n_distinct)
    drawn = sample_without_replacement(2**n_distinct, n_codes, random_state=rng)
    numbers = np.resize(rng.permutation(drawn), n_classes)
    bits = numbers[:, None] >> np.arange(n_distinct) & 1
    more = rng.randint(2, size=(n_classes, n_bits - n_distinct))
    return 2.0 * np.hstack([bits, more]) - 1.0


def class_means(X: Array, y: Ids, n_classes: int) -> Array:
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
    X_source: Array, y_source: Ids, X_target: Array, *, temperature: float
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
