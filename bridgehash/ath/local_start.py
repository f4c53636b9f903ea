"""A start that keeps neighbours: directions in which near rows of the source agree."""

from __future__ import annotations

from numbers import Integral
from typing import ClassVar

import numpy as np
from scipy.linalg import eigh
from sklearn.base import BaseEstimator

from .._validation import Range, Rules
from ..feature_maps import drawn_rows
from ..linalg import Array, itq_rotation, majority_sign, pca, random_orthonormal
from ..neighbors import nearest_others
from .starts import Scene, Start


def local_directions(X: Array, n_components: int, n_neighbors: int, flatten: float = 0.0) -> Array:
    """Directions P with orthonormal columns that maximise tr(Pᵀ Xᵀ (S + Sᵀ) X P) / 2n, scaled.

    (SX)_i is the mean of the neighbours of row i. PCA has the identity in place of S: noise of
    single rows counts for it, but not here. Only directions of positive value are given, each
    divided by its value to the power of flatten / 2.

    >>> groups = np.array([[-1.0, 0.0]] * 4 + [[2.0, 0.3], [2.0, -0.3]])
    >>> local_directions(groups, n_components=2, n_neighbors=1)  # the pair differs in the second
    array([[1.],
           [0.]])
    """
    neighbours = nearest_others(X, min(n_neighbors, len(X) - 1))[1]
    mean = X[neighbours[:, 0]].copy()  # a column at a time: no array of all neighbours
    for column in neighbours.T[1:]:
        mean += X[column]
    C = X.T @ mean / (len(X) * neighbours.shape[1])
    values, vectors = eigh((C + C.T) / 2.0, check_finite=False)
    values, vectors = values[::-1][:n_components], vectors[:, ::-1][:, :n_components]
    keep = values > values[0] * len(C) * np.finfo(C.dtype).eps
    if not keep.any():  # so few rows that neighbours lie opposite to each other
        return pca(X, n_components)
    P = vectors[:, keep] * values[keep] ** (-flatten / 2.0)
    return P * majority_sign(X @ P)


class LocalStart(BaseEstimator):
    """Directions of the source in which neighbours agree, turned by ITQ, for both domains.

    For domains in one space. Fewer directions than bits, spread over them, leave fewer bits to
    noise.

    Parameters
    ----------
    directions : float, default=0.75
        Number of directions as a part of that of bits.
    n_neighbors : int, default=10
    flatten : float, default=0.05
        Variances are evened out by dividing them by this power of themselves: more helps to find
        the same neighbours, less to find the same class.
    max_rows : int, default=10000
        Rows of the source that are compared with each other, drawn at random.
    """

    _rules: ClassVar[Rules] = {
        "directions": Range(0, above=True),
        "n_neighbors": Range(1, kind=Integral),
        "flatten": Range(0, 1),
        "max_rows": Range(2, kind=Integral),
    }

    def __init__(
        self,
        directions: float = 0.75,
        n_neighbors: int = 10,
        flatten: float = 0.05,
        max_rows: int = 10_000,
    ) -> None:
        self.directions = directions
        self.n_neighbors = n_neighbors
        self.flatten = flatten
        self.max_rows = max_rows

    def begin(self, scene: Scene) -> Start:
        """One projection for both domains; the bipartite graph is left to the solver."""
        if not scene.same_space:
            raise ValueError("LocalStart needs one feature space; carry='pairs' makes one of two")
        X, r = scene.X_s[drawn_rows(scene.X_s, self.max_rows, scene.rng)], scene.n_bits
        P = local_directions(X, max(1, round(self.directions * r)), self.n_neighbors, self.flatten)
        V = scene.X_s @ P
        R = itq_rotation(V, random_orthonormal(P.shape[1], r, scene.rng).astype(V.dtype))
        A = P @ R
        return Start(scene.X_s @ A, scene.X_t @ A, A_s=A, A_t=A)
