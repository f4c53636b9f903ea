"""Groups of rows without labels, as many as their k-NN graph suggests."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.linalg import eigsh
from sklearn.cluster import KMeans
from sklearn.metrics import silhouette_score

from .._core.linalg import Array, unit_rows
from ..models.training import Ids
from .likeness import N_NEIGHBORS, averaged, modularity
from .spreading import neighbour_graph

_COARSE = 0.4  # resolution of modularity: less than one favours large groups
_SAMPLE = 2000  # rows whose silhouettes are compared
_TRIED = 20  # numbers of groups


def grouped(X: Array, most: int, S: csr_array | None = None) -> Ids:
    """Return groups of rows: spectral clusters of their k-NN graph S, as many as it suggests.

    The number has the largest sum of the modularity and of the mean silhouette of averaged rows:
    modularity alone splits a large class into parts.
    """
    most = min(most, len(X) // (2 * N_NEIGHBORS))
    best = np.zeros(len(X), dtype=np.intp)
    if most < 2:
        return best
    if S is None:
        S = neighbour_graph(X, N_NEIGHBORS)
    V = eigsh(S, most, which="LA", v0=np.ones(len(X)))[1][:, ::-1]
    smooth, score = averaged(S, X), modularity(S, best, _COARSE)
    for k in np.unique(np.linspace(2, most, min(most - 1, _TRIED)).round().astype(int)):
        labels = KMeans(k, n_init=2, random_state=0).fit_predict(unit_rows(V[:, :k]))
        found = modularity(S, labels, _COARSE) + _silhouette(smooth, labels)
        if found > score:
            best, score = np.unique(labels, return_inverse=True)[1], found
    return best


def _silhouette(X: Array, labels: Ids) -> float:
    """Return the mean silhouette of a sample; 0 if that is one group only."""
    some = slice(None, None, -(-len(X) // _SAMPLE))
    if len(np.unique(labels[some])) < 2:
        return 0.0
    return float(silhouette_score(X[some], labels[some], metric="cosine"))
