"""CMFH, collective matrix factorisation hashing (Ding, Guo & Zhou, CVPR 2014)."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import ClassVar

import numpy as np

from .._core.linalg import Array, SPDSolver, row_space
from .._core.validation import Flag, Range, Rules
from ..models.base import N_BITS, About
from ..models.training import Ids
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
        (X, back_s), (Y, back_t) = row_space(X), row_space(Y)
        V = rng.uniform(size=(len(X), self.n_bits))
        learned = self._alternate((X, Y), V)
        return learned._replace(
            P_source=back_s(learned.P_source), P_target=back_t(learned.P_target)
        )

    def _alternate(self, views: Views, V: Array, Ps: Sequence[Array] | None = None) -> Learned:
        """Minimise the objective in turns from factors V, and projections P_k if given.

        After one step V = X_s T_s + X_t T_t, so XᵀV and VᵀV follow from the Gram matrix of both
        domains, and the cost of a round does not depend on the number of pairs.
        """
        Z, cut = np.hstack(views), views[0].shape[1]
        K = Z.T @ Z
        parts = slice(0, cut), slice(cut, None)
        solvers = [SPDSolver(K[part, part].copy(), self.ridge / self.fit_weight) for part in parts]
        M, N = Z.T @ V, V.T @ V
        Ps = Ps or [solve(M[part]) for solve, part in zip(solvers, parts, strict=True)]
        objective: list[float] = []
        for _ in range(self.max_iter):
            U = SPDSolver(N.copy(), self.ridge)(M.T)
            Us = [U[:, part] for part in parts]
            T = self._factors(Us, Ps)
            M = K @ T
            N = T.T @ M
            Ps = [solve(M[part]) for solve, part in zip(solvers, parts, strict=True)]
            moments = [(K[part, part], M[part]) for part in parts]
            objective.append(self._objective(moments, N, Us, Ps))
            if len(objective) > 1 and objective[-2] - objective[-1] < self.tol * objective[-2]:
                break
        return Learned(Ps[0], Ps[1], Z @ T, objective)

    @property
    def _weights(self) -> tuple[float, float]:
        return self.source_weight, 1.0 - self.source_weight

    def _factors(self, Us: Sequence[Array], Ps: Sequence[Array]) -> Array:
        """V-step: V (Σ λ_k U_kU_kᵀ + (μ + γ) I) = Σ λ_k X_k(U_kᵀ + μP_k); return T of V = ZT."""
        C, Q = np.zeros((self.n_bits, self.n_bits)), []
        for weight, U, P in zip(self._weights, Us, Ps, strict=True):
            C += weight * U @ U.T
            Q.append(weight * (U.T + self.fit_weight * P))
        return SPDSolver(C, self.fit_weight + self.ridge)(np.vstack(Q).T).T

    def _objective(
        self,
        moments: Sequence[tuple[Array, Array]],
        N: Array,
        Us: Sequence[Array],
        Ps: Sequence[Array],
    ) -> float:
        """Return the objective from XᵀX and XᵀV of each domain, and N = VᵀV."""
        total = self.ridge * float(np.trace(N))
        for weight, (K, M), U, P in zip(self._weights, moments, Us, Ps, strict=True):
            rebuilt = np.trace(K) - 2.0 * np.vdot(U, M.T) + np.vdot(U, N @ U)
            fit = np.trace(N) - 2.0 * np.vdot(M, P) + np.vdot(P, K @ P)
            loss = float(rebuilt + self.fit_weight * fit)
            total += weight * (loss + self.ridge * (squared_norm(U) + squared_norm(P)))
        return total
