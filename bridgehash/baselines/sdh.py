"""SDH, supervised discrete hashing (Shen, Shen, Liu & Shen, CVPR 2015)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from .._core.linalg import Array, SPDSolver
from ..codes import signs
from ..models.base import About, Ids
from ..neighbors.graphs import one_hot
from ._kernel import BaseRegressionHasher

_MAX_SWEEPS = 10


class SDH(BaseRegressionHasher):
    """Codes from which a linear classifier predicts the classes, learned bit by bit.

    min ‖Y - BW‖² + λ‖W‖² + ν (‖B - φP‖² + ρ‖P‖²) over signs B, weights W and P. Y are one-hot
    labels; φ are similarities to anchors and a constant. Each round sweeps over the bits until none
    changes (at most ten times), then solves for W and P. For so small a ν there is in effect one
    code per class, which depends on the random start. Objective, steps and constants follow the
    paper and its public code, DiscretHashing. Ours: the start does not depend on the order of the
    samples, and `unit_rows` is a parameter. Rows without a label are not used.

    Parameters
    ----------
    n_bits : int, default=64
    n_anchors : int, default=1000
        Random rows used as anchors; all rows if there are fewer.
    sigma : float, default=0.4
        Width of the similarities exp(-‖x - χ‖² / 2σ²); the default suits rows of unit norm.
    unit_rows : bool, default=True
        Divide each row by its norm first.
    fit_weight : float, default=1e-5
        ν, the weight of the regression of the codes on φ.
    label_ridge : float, default=1.0
        λ, the ridge of W.
    ridge : float, default=1e-2
        ρ, the ridge of P.
    max_iter : int, default=5
        Maximum number of rounds.
    tol : float, default=1e-5
        Stop if P changes by less than this, relative to its norm.
    random_state : int, RandomState or None
        Draws the anchors and the first codes.

    Attributes
    ----------
    objective_ : array of shape (n_iter_,)
        After each round.
    n_iter_ : int
    """

    about: ClassVar = About("supervised", "Shen, Shen, Liu & Shen, CVPR 2015", ("y",))

    def _term(self, y: Ids) -> ClassifierTerm:
        return ClassifierTerm(y, self.label_ridge)

    def _start(self, y: Ids, rng: np.random.RandomState) -> Array:
        return signs(rng.standard_normal((len(y), self.n_bits))).astype(np.float64)


class ClassifierTerm:
    """‖Y - BW‖² + λ‖W‖², the regression of one-hot labels on codes."""

    def __init__(self, y: Ids, ridge: float) -> None:
        self._y, self._ridge = y, ridge
        self._Y_T = one_hot(y, int(y.max()) + 1).T.tocsr()

    def weights(self, B: Array) -> Array:
        """Return (BᵀB + λI)⁻¹ BᵀY, of shape (r, c)."""
        return SPDSolver(B.T @ B, self._ridge)((self._Y_T @ B).T)

    def codes(self, B: Array, W: Array, pull: Array) -> Array:
        """Update the codes bit by bit, with Q = YWᵀ + pull."""
        return code_sweeps(B, W @ W.T, W.T[self._y] + pull, _MAX_SWEEPS)

    def loss(self, B: Array, W: Array) -> float:
        """Return the value of the term."""
        error = B @ W
        error[np.arange(len(B)), self._y] -= 1.0
        return float(np.vdot(error, error) + self._ridge * np.vdot(W, W))


def code_sweeps(B: Array, G: Array, Q: Array, max_sweeps: int) -> Array:
    """Minimise tr(BGBᵀ) - 2 tr(BᵀQ) over signs B by coordinate descent, one bit of all rows each.

    The best bit k, given the others, is b_k = sign(Q_k - Σ_{j≠k} G_jk b_j). BG is stored, and only
    rows whose bit changes are updated. It stops after a sweep without changes.

    >>> code_sweeps(np.ones((1, 2)), np.array([[1.0, 0.9], [0.9, 1.0]]), np.array([[-1.0, 2]]), 10)
    array([[-1.,  1.]])
    """
    B, BG = B.copy(), B @ G
    for _ in range(max_sweeps):
        n_changed = 0
        for k, g in enumerate(G):
            b = signs(Q[:, k] - BG[:, k] + g[k] * B[:, k])
            rows = np.flatnonzero(b != B[:, k])
            B[rows, k] = b[rows]
            BG[rows] += 2.0 * b[rows, None] * g
            n_changed += len(rows)
        if not n_changed:
            break
    return B
