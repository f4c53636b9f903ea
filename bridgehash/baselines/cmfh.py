"""CMFH, collective matrix factorisation hashing (Ding, Guo & Zhou, CVPR 2014)."""

from __future__ import annotations

from numbers import Integral
from typing import ClassVar

import numpy as np

from .._core.linalg import Array, RidgeSolver, SPDSolver
from .._core.validation import Flag, Range, Rules
from ..models.base import N_BITS, About, Ids
from ._views import BasePairedHasher, Learned, Views, squared_norm


class CMFH(BasePairedHasher):
    """Both rows of a pair are factored by one vector, which linear functions of them predict.

    min Σ_k λ_k (‖X_k - V U_k‖² + μ ‖V - X_k P_k‖² + γ (‖U_k‖² + ‖P_k‖² + ‖V‖²)) over factors V of
    the pairs, bases U_k and projections P_k of both domains. The codes of the pairs are the signs
    of V, those of new rows the signs of X P_k. All steps are exact, so the objective never rises.
    Objective, steps and constants follow the paper and code by its authors. Ours: the step for P_k
    minimises the objective (the code divides by μ where it should multiply), P_k starts as the
    regression of the first V, rows may have unit norm, and the stopping test is relative. Rows
    without a partner are not used.

    Parameters
    ----------
    n_bits : int, default=64
    source_weight : float, default=0.5
        λ of the source; that of the target is one minus it.
    fit_weight : float, default=100.0
        μ, the weight of the regression of V on the rows.
    ridge : float, default=0.01
        γ.
    max_iter : int, default=100
        Maximum number of rounds.
    tol : float, default=1e-5
        Stop if the objective falls by less than this part of it.
    unit_rows : bool, default=True
        Divide each row by its norm first.
    random_state : int, RandomState or None
        Draws the first factors.

    Attributes
    ----------
    codes_ : array of shape (p, ceil(n_bits / 8))
        Learned codes of the pairs, packed.
    objective_ : array of shape (n_iter_,)
        After each round.
    n_iter_ : int
    """

    about: ClassVar = About("paired", "Ding, Guo & Zhou, CVPR 2014", ("pairs",))
    _rules: ClassVar[Rules] = {
        "n_bits": N_BITS,
        "source_weight": Range(0, 1),
        "fit_weight": Range(0, above=True),
        "ridge": Range(0, above=True),
        "max_iter": Range(1, kind=Integral),
        "tol": Range(0),
        "unit_rows": Flag(),
    }

    def __init__(
        self,
        n_bits: int = 64,
        source_weight: float = 0.5,
        fit_weight: float = 100.0,
        ridge: float = 0.01,
        max_iter: int = 100,
        tol: float = 1e-5,
        unit_rows: bool = True,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_bits = n_bits
        self.source_weight = source_weight
        self.fit_weight = fit_weight
        self.ridge = ridge
        self.max_iter = max_iter
        self.tol = tol
        self.unit_rows = unit_rows
        self.random_state = random_state

    def _learn_codes(
        self, X: Array, Y: Array, y: Ids | None, rng: np.random.RandomState
    ) -> Learned:
        V = rng.uniform(size=(len(X), self.n_bits))
        regress = [RidgeSolver(Z, self.ridge / self.fit_weight) for Z in (X, Y)]
        return self._alternate((X, Y), V, [solve(V) for solve in regress], regress)

    def _alternate(
        self, views: Views, V: Array, Ps: list[Array], regress: list[RidgeSolver]
    ) -> Learned:
        """Minimise the objective in turns from factors V and projections P_k."""
        objective: list[float] = []
        for _ in range(self.max_iter):
            factor = SPDSolver(V.T @ V, self.ridge)
            Us = [factor(V.T @ X) for X in views]
            V = self._factors(views, Us, Ps)
            Ps = [solve(V) for solve in regress]
            objective.append(self._objective(views, V, Us, Ps))
            if len(objective) > 1 and objective[-2] - objective[-1] < self.tol * objective[-2]:
                break
        return Learned(Ps[0], Ps[1], V - V.mean(axis=0), objective)

    @property
    def _weights(self) -> tuple[float, float]:
        return self.source_weight, 1.0 - self.source_weight

    def _factors(self, views: Views, Us: list[Array], Ps: list[Array]) -> Array:
        """V-step: Σ λ_k X_k(U_kᵀ + μP_k) = V (Σ λ_k U_kU_kᵀ + (μ + γ) I)."""
        C, Q = np.zeros((self.n_bits, self.n_bits)), np.zeros((len(views[0]), self.n_bits))
        for weight, X, U, P in zip(self._weights, views, Us, Ps, strict=True):
            C += weight * U @ U.T
            Q += weight * X @ (U.T + self.fit_weight * P)
        return SPDSolver(C, self.fit_weight + self.ridge)(Q.T).T

    def _objective(self, views: Views, V: Array, Us: list[Array], Ps: list[Array]) -> float:
        total = self.ridge * squared_norm(V)
        for weight, X, U, P in zip(self._weights, views, Us, Ps, strict=True):
            loss = squared_norm(X - V @ U) + self.fit_weight * squared_norm(V - X @ P)
            total += weight * (loss + self.ridge * (squared_norm(U) + squared_norm(P)))
        return total
