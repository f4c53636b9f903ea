"""SDH, supervised discrete hashing (Shen, Shen, Liu & Shen, CVPR 2015)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from .._core.linalg import Array, RidgeSolver, SPDSolver
from .._core.validation import Range, Rules
from ..codes import signs
from ..models.base import About
from ..models.training import Ids
from ..neighbors.graphs import one_hot
from ._kernel import BaseKernelHasher

_MAX_SWEEPS = 10


class SDH(BaseKernelHasher):
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

    _rules: ClassVar[Rules] = {
        **BaseKernelHasher._rules,
        "fit_weight": Range(0),
        "label_ridge": Range(0, above=True),
        "tol": Range(0),
    }

    def __init__(
        self,
        n_bits: int = 64,
        n_anchors: int = 1000,
        sigma: float = 0.4,
        unit_rows: bool = True,
        fit_weight: float = 1e-5,
        label_ridge: float = 1.0,
        ridge: float = 1e-2,
        max_iter: int = 5,
        tol: float = 1e-5,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_bits = n_bits
        self.n_anchors = n_anchors
        self.sigma = sigma
        self.unit_rows = unit_rows
        self.fit_weight = fit_weight
        self.label_ridge = label_ridge
        self.ridge = ridge
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def _learn_projection(self, phi: Array, y: Ids, rng: np.random.RandomState) -> Array:
        return self._alternate(phi, self._start(y, rng), self._term(y))[0]

    def _alternate(self, phi: Array, B: Array, term: ClassifierTerm) -> tuple[Array, Array, Array]:
        """Minimise term(B, W) + ν (‖B - φP‖² + ρ ‖P‖²) in turns from codes B; return P, W and B.

        It stops when φP equals the codes, or P no longer changes, within the tolerance.
        """
        regress = RidgeSolver(phi, self.ridge)
        W, P = term.weights(B), regress(B)
        H = phi @ P
        objective = []
        for _ in range(self.max_iter):
            B = term.codes(B, W, self.fit_weight * H)
            P_before = P
            W, P = term.weights(B), regress(B)
            H = phi @ P
            misfit = float(np.linalg.norm(B - H))
            fit = misfit**2 + self.ridge * float(np.vdot(P, P))
            objective.append(term.loss(B, W) + self.fit_weight * fit)
            if misfit < self.tol * np.linalg.norm(B):
                break
            if np.linalg.norm(P - P_before) < self.tol * np.linalg.norm(P):
                break
        self.objective_ = np.array(objective)
        self.n_iter_ = len(objective)
        return P, W, B

    def _term(self, y: Ids) -> ClassifierTerm:
        """Return the term of the objective that depends on the labels."""
        return ClassifierTerm(y, self.label_ridge)

    def _start(self, y: Ids, rng: np.random.RandomState) -> Array:
        """Draw the first codes, as floats."""
        return signs(rng.standard_normal((len(y), self.n_bits))).astype(np.float64)


class ClassifierTerm:
    """‖Y - BW‖² + λ‖W‖², the term that joins codes and labels: labels regressed on codes."""

    def __init__(self, y: Ids, ridge: float) -> None:
        self._y, self._ridge = y, ridge
        self._Y_T = one_hot(y, int(y.max()) + 1).T.tocsr()

    def weights(self, B: Array) -> Array:
        """Return (BᵀB + λI)⁻¹ BᵀY, of shape (r, c)."""
        return SPDSolver(B.T @ B, self._ridge)((self._Y_T @ B).T)

    def codes(self, B: Array, W: Array, pull: Array) -> Array:
        """Return codes no worse than B at minimising loss(B, W) - 2 tr(Bᵀ pull), bit by bit."""
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
