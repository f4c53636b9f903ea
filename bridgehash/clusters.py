"""k-means: from a given start (anchors of a graph, class means), or from one that is drawn."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_info, threadpool_limits

from .linalg import Array


def k_means(X: Array, start: Array, n_iter: int) -> Array:
    """Centres after at most n_iter rounds from the given ones, in their order."""
    if n_iter == 0:
        return start
    model = KMeans(len(start), init=start, n_init=1, max_iter=n_iter, tol=0.0, random_state=0)
    with _two_threads(), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a centre without rows is no harm
        centres: Array = model.fit(X).cluster_centers_
    return centres


def drawn_clusters(
    X: Array, k: int, rng: np.random.RandomState, weights: Array | None = None
) -> NDArray[np.intp]:
    """The cluster of each row, 0 and on, none of them empty, from k centres drawn far apart."""
    seed = int(rng.randint(2**31 - 1))
    model = KMeans(k, n_init=1, max_iter=30, random_state=seed)
    with _two_threads(), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        labels = model.fit_predict(X, sample_weight=weights)
    found: NDArray[np.intp] = np.unique(labels, return_inverse=True)[1]
    return found


def _two_threads() -> threadpool_limits:
    """At most two: the partial sums of more would add up in a random order."""
    pools = [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "openmp"]
    return threadpool_limits(min([2, *pools]), user_api="openmp")
