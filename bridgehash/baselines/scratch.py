"""SCRATCH, scalable discrete matrix factorisation hashing (Li et al., ACM MM 2018)."""

from __future__ import annotations

from numbers import Integral
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from .._core.errors import InputError
from .._core.linalg import Array, RidgeSolver, SPDSolver, random_orthonormal, turned
from .._core.validation import Range, Rules
from ..codes import signs
from ..models.base import N_BITS, About
from ..models.feature_maps import AnchorKernel, BaseFeatureMap
from ..models.training import Ids
from ..neighbors.graphs import one_hot
from ._views import BasePairedHasher, Learned, Views, squared_norm

Known = NDArray[np.bool_]


class SCRATCH(BasePairedHasher):
    """Factors of labels and of both kernel maps, rotated to the codes of the pairs.

    min Σ_k (λ_k ‖φ_k - V U_k‖² + μ ‖V - φ_k W_k‖² + γ ‖U_k‖² + γ ‖W_k‖²) + α ‖Y - V G‖² +
    ‖B - V R‖² + γ (‖V‖² + ‖G‖²) over factors V of the pairs, codes B, a rotation R, bases U_k and
    G, and regressions W_k. φ_k are centred similarities to anchors, Y one-hot classes. The code of
    a new row is sign(φ W_k R). All steps are exact, so the objective never rises. Objective, steps
    and constants follow the paper and the public code of its authors. Ours: pairs without a label
    take part in all terms but that of the labels. Rows without a partner are not used.

    The paper searches the learned codes of the training items, `codes_`, which depend on their
    labels. `encode` applies the hash function, which does not see them.

    Parameters
    ----------
    n_bits : int, default=64
    n_anchors : int, default=500
        Random rows used as anchors; all rows if there are fewer.
    source_weight : float, default=0.5
        λ of the source; that of the target is one minus it.
    fit_weight : float, default=1000.0
        μ, the weight of the regressions of V on φ.
    label_weight : float, default=500.0
        α, the weight of the labels.
    ridge : float, default=5.0
        γ.
    max_iter : int, default=20
        Number of rounds; there is no stopping test.
    random_state : int, RandomState or None
        Draws the anchors, the first factors and the first rotation.

    Attributes
    ----------
    codes_ : array of shape (p, ceil(n_bits / 8))
        Learned codes of the pairs, packed.
    objective_ : array of shape (n_iter_,)
        After each round.
    n_iter_ : int
    """

    about: ClassVar = About(
        "supervised", "Li, Chen, Zhang, Luo, Nie, Zhang & Xu, ACM MM 2018", ("y_source", "pairs")
    )
    _rules: ClassVar[Rules] = {
        "n_bits": N_BITS,
        "n_anchors": Range(1, kind=Integral),
        "source_weight": Range(0, 1),
        "fit_weight": Range(0, above=True),
        "label_weight": Range(0),
        "ridge": Range(0, above=True),
        "max_iter": Range(1, kind=Integral),
    }

    def __init__(
        self,
        n_bits: int = 64,
        n_anchors: int = 500,
        source_weight: float = 0.5,
        fit_weight: float = 1000.0,
        label_weight: float = 500.0,
        ridge: float = 5.0,
        max_iter: int = 20,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_bits = n_bits
        self.n_anchors = n_anchors
        self.source_weight = source_weight
        self.fit_weight = fit_weight
        self.label_weight = label_weight
        self.ridge = ridge
        self.max_iter = max_iter
        self.random_state = random_state

    def _feature_maps(self, rng: np.random.RandomState) -> list[BaseFeatureMap]:
        return [AnchorKernel(self.n_anchors, "twice-mean", rng.randint(2**31 - 1))]

    def _learn_codes(
        self, X: Array, Y: Array, y: Ids | None, rng: np.random.RandomState
    ) -> Learned:
        if y is None:
            raise InputError("missing; SCRATCH needs labels of the paired rows", "y_source")
        if len(np.unique(y[y >= 0])) < 2:
            problem = "fewer than two classes among the paired rows; SCRATCH needs at least two"
            raise InputError(problem, "y_source")
        V = rng.standard_normal((len(X), self.n_bits))
        return self._alternate((X, Y), y, V, random_orthonormal(self.n_bits, self.n_bits, rng))

    def _alternate(self, views: Views, y: Ids, V: Array, R: Array) -> Learned:
        """Minimise the objective in turns from factors V and a rotation R."""
        known, Y = y >= 0, one_hot(y, int(y.max()) + 1).toarray()
        regress = [RidgeSolver(X, self.ridge / self.fit_weight) for X in views]
        objective: list[float] = []
        for _ in range(self.max_iter):
            B = signs(V @ R).astype(np.float64)
            Us = [self._basis(X, V, weight) for X, weight in zip(views, self._weights, strict=True)]
            G = self._basis(Y[known], V[known], self.label_weight)
            Ws = [solve(V) for solve in regress]
            V = self._factors(views, Us, Ws, self.label_weight * Y @ G.T + B @ R.T, known, G)
            R = turned(R, V.T @ B)
            loss = squared_norm(B - V @ R)
            loss += self.label_weight * squared_norm(Y[known] - V[known] @ G)
            loss += self.ridge * (squared_norm(V) + squared_norm(G))
            objective.append(loss + self._view_loss(views, V, Us, Ws))
        return Learned(Ws[0] @ R, Ws[1] @ R, B, objective)

    @property
    def _weights(self) -> tuple[float, float]:
        return self.source_weight, 1.0 - self.source_weight

    def _basis(self, X: Array, V: Array, weight: float) -> Array:
        """U-step: minimise weight ‖X - V U‖² + γ ‖U‖²."""
        return SPDSolver(weight * V.T @ V, self.ridge)(weight * V.T @ X)

    def _factors(
        self, views: Views, Us: list[Array], Ws: list[Array], Q: Array, known: Known, G: Array
    ) -> Array:
        """V-step: each row solves a linear system, with another matrix if its class is unknown."""
        C = np.eye(self.n_bits)  # R Rᵀ
        for weight, X, U, W in zip(self._weights, views, Us, Ws, strict=True):
            C += weight * U @ U.T
            Q += X @ (weight * U.T + self.fit_weight * W)
        ridge, V = 2.0 * self.fit_weight + self.ridge, np.empty_like(Q)
        V[known] = SPDSolver(C + self.label_weight * G @ G.T, ridge)(Q[known].T).T
        V[~known] = SPDSolver(C, ridge)(Q[~known].T).T
        return V

    def _view_loss(self, views: Views, V: Array, Us: list[Array], Ws: list[Array]) -> float:
        total = 0.0
        for weight, X, U, W in zip(self._weights, views, Us, Ws, strict=True):
            total += weight * squared_norm(X - V @ U) + self.fit_weight * squared_norm(V - X @ W)
            total += self.ridge * (squared_norm(U) + squared_norm(W))
        return total
