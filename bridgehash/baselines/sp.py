"""SP, sparse projections (Xia, He, Kohli, Sun, CVPR 2015)."""

from __future__ import annotations

from math import ceil
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_random_state

from .._core.linalg import Array, pca, procrustes
from .._core.validation import Range, Rules
from ..codes import signs
from ..models.base import N_BITS, About, BaseHasher
from ..models.encoder import LinearEncoder
from .shared import standardised


class SP(BaseHasher):
    """ITQ with a sparse projection, so that encoding is fast.

    min ‖XQ - B‖² + β ‖XQ - XR‖² over signs B, Q with orthonormal columns, and R with at most
    (1 - sparsity) n_bits d non-zero weights. Objective, steps, β, sparsity and the 50 rounds follow
    the paper and its public code: Q stays in the space of the leading principal directions, R is Q
    without its small weights (not the exact minimiser, so the objective may rise). Codes are
    signs of XR.

    Ours: rows are scaled to root-mean-square norm one, so that their scale does not matter; every
    bit keeps its largest weight (in the public code a bit can become constant); codes longer than
    the rank of the data, for which Q has orthonormal rows.

    Parameters
    ----------
    n_bits : int, default=64
    sparsity : float, default=0.9
        Share of the weights that are zero.
    beta : float, default=1.0
        β, weight of the second term.
    max_iter : int, default=50
        Number of rounds; there is no stopping test.
    random_state : int, RandomState or None
        Draws the first R.
    """

    about: ClassVar = About("unsupervised", "Xia, He, Kohli & Sun, CVPR 2015")
    _rules: ClassVar[Rules] = {
        "n_bits": N_BITS,
        "sparsity": Range(0, 1),
        "beta": Range(0),
        "max_iter": Range(1, kind=Integral),
    }

    def __init__(
        self,
        n_bits: int = 64,
        sparsity: float = 0.9,
        beta: float = 1.0,
        max_iter: int = 50,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_bits = n_bits
        self.sparsity = sparsity
        self.beta = beta
        self.max_iter = max_iter
        self.random_state = random_state

    def _learn(self, X: Array, y: NDArray[Any] | None) -> LinearEncoder:
        rng = check_random_state(self.random_state)
        X, mean, scale = standardised(X)
        R = rng.standard_normal((X.shape[1], self.n_bits)).astype(X.dtype)
        n_weights = ceil((1 - self.sparsity) * R.size)
        R, _, self.objective_ = sparse_projections(
            X, pca(X, self.n_bits), R, n_weights, self.beta, self.max_iter
        )
        self.n_iter_ = self.max_iter
        return LinearEncoder(R, mean, scale)


def sparse_projections(
    X: Array, P: Array, R: Array, n_weights: int, beta: float, n_iter: int
) -> tuple[Array, Array, Array]:
    """Alternate Q, R and B; return R, Q and the objective after each round.

    X is centred. P holds its leading principal directions; Q stays in the space that they span.
    """
    V = X @ P
    XR = X @ R
    B = signs(XR).astype(X.dtype)
    objective = np.empty(n_iter)
    for i in range(n_iter):
        rotation = procrustes(V.T @ (B + beta * XR))  # proportional to the mean of B and XR
        Q = P @ rotation
        R = largest_weights(Q, n_weights)
        XQ, XR = V @ rotation, X @ R
        B = signs(XQ).astype(X.dtype)
        objective[i] = np.square(XQ - B).sum() + beta * np.square(XQ - XR).sum()
    return R, Q, objective


def largest_weights(Q: Array, n_weights: int) -> Array:
    """Keep the n_weights largest weights of Q and the largest of each column; zero the others.

    >>> largest_weights(np.array([[5.0, 1.0], [-4.0, 2.0]]), 2)
    array([[ 5.,  0.],
           [-4.,  2.]])
    """
    size = np.abs(Q)
    n_zero = Q.size - n_weights
    cut = np.partition(size, n_zero, axis=None)[n_zero] if n_weights else np.inf
    return np.where(size >= np.minimum(cut, size.max(axis=0)), Q, 0.0).astype(Q.dtype)
