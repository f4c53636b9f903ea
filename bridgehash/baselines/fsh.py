"""FSH, fusion similarity hashing (Liu, Ji, Wu, Huang & Zhang, CVPR 2017)."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import ClassVar

import numpy as np
from scipy.sparse import csr_array

from .._core.linalg import Array, RidgeSolver, principal
from .._core.validation import Flag, Range, Rules
from ..codes import signs
from ..models.base import N_BITS, About
from ..models.training import Ids
from ..neighbors.search import nearest
from ._views import BasePairedHasher, Learned, Views, squared_norm


class FSH(BasePairedHasher):
    """Codes that preserve similarities fused from both domains, predicted by linear functions.

    max tr(BᵀSA) - λ Σ_k ‖B - X_k P_k‖² over codes B of the pairs, codes A of some pairs used as
    anchors, and projections P_k. S = η S_s + (1 - η) S_t are similarities of pairs and anchors: the
    mean similarity in one domain of the anchors near the one and near the other. B, A and P_k
    are exact steps; η follows from the traces of both domains. Objective, steps and constants, and
    the formula for η, follow the public code of the authors. Ours: a small ridge. Rows without a
    partner are not used.

    Parameters
    ----------
    n_bits : int, default=64
    n_anchors : int, default=50
        Random pairs used as anchors; all pairs if there are fewer.
    n_neighbors : int, default=10
        Nearest anchors of a row, at most `n_anchors`.
    fit_weight : float, default=300.0
        λ, the weight of the regressions.
    ridge : float, default=1e-6
        Of P_k.
    max_iter : int, default=100
        Maximum number of rounds; it stops if no code changes.
    unit_rows : bool, default=True
        Divide each row by its norm first.
    random_state : int, RandomState or None
        Draws the anchors and the first projections.

    Attributes
    ----------
    codes_ : array of shape (p, ceil(n_bits / 8))
        Learned codes of the pairs, packed.
    objective_ : array of shape (n_iter_,)
        After each round, with the η of the round; smaller is better.
    n_iter_ : int
    """

    about: ClassVar = About("paired", "Liu, Ji, Wu, Huang & Zhang, CVPR 2017", ("pairs",))
    _rules: ClassVar[Rules] = {
        "n_bits": N_BITS,
        "n_anchors": Range(1, kind=Integral),
        "n_neighbors": Range(1, kind=Integral),
        "fit_weight": Range(0, above=True),
        "ridge": Range(0, above=True),
        "max_iter": Range(1, kind=Integral),
        "unit_rows": Flag(),
    }

    def __init__(
        self,
        n_bits: int = 64,
        n_anchors: int = 50,
        n_neighbors: int = 10,
        fit_weight: float = 300.0,
        ridge: float = 1e-6,
        max_iter: int = 100,
        unit_rows: bool = True,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_bits = n_bits
        self.n_anchors = n_anchors
        self.n_neighbors = n_neighbors
        self.fit_weight = fit_weight
        self.ridge = ridge
        self.max_iter = max_iter
        self.unit_rows = unit_rows
        self.random_state = random_state

    def _learn_codes(
        self, X: Array, Y: Array, y: Ids | None, rng: np.random.RandomState
    ) -> Learned:
        anchors = np.sort(rng.permutation(len(X))[: self.n_anchors])
        # A Gaussian matrix in principal coordinates: a rotation of the features changes nothing.
        bases = (principal(Z, Z.shape[1]) for Z in (X, Y))
        P_s, P_t = (basis @ rng.standard_normal((basis.shape[1], self.n_bits)) for basis in bases)
        return self._alternate((X, Y), anchors, P_s, P_t)

    def _alternate(self, views: Views, anchors: Ids, P_s: Array, P_t: Array) -> Learned:
        """Minimise the negative objective in turns from given projections."""
        (X, Y), weight = views, self.fit_weight
        similarity = FusedSimilarity.build(X, Y, anchors, self.n_neighbors)
        regress = [RidgeSolver(Z, self.ridge) for Z in views]
        H, A, eta = X @ P_s + Y @ P_t, Y[anchors] @ P_t, 0.5
        state: tuple[bytes, bytes, float] | None = None
        objective: list[float] = []
        for _ in range(self.max_iter):
            S = similarity.fused(eta)
            B = signs(S @ A + 2.0 * weight * H).astype(np.float64)
            A = signs(S.T @ B).astype(np.float64)
            P_s, P_t = (solve(B) for solve in regress)
            H_s, H_t = X @ P_s, Y @ P_t
            H = H_s + H_t
            fit = squared_norm(B - H_s) + squared_norm(B - H_t)
            fit += self.ridge * (squared_norm(P_s) + squared_norm(P_t))
            objective.append(weight * fit - float(np.vdot(B, S @ A)))
            eta = similarity.weight(B, A)
            before, state = state, (B.tobytes(), A.tobytes(), eta)
            if state == before:
                break
        return Learned(P_s, P_t, B, objective)


@dataclass(frozen=True)
class FusedSimilarity:
    """Similarities of n pairs to m anchors in each domain."""

    S_source: Array  # (n, m)
    S_target: Array
    n_anchors: int

    @classmethod
    def build(cls, X: Array, Y: Array, anchors: Ids, n_neighbors: int) -> FusedSimilarity:
        """Compare the anchors near a pair in one domain with those near an anchor in the other."""
        k = min(n_neighbors, len(anchors))
        K_x, K_y = (similarities(Z[anchors]) for Z in (X, Y))
        N_x, N_y = (near(Z, Z[anchors], k) for Z in (X, Y))
        S_source, S_target = N_x @ K_x @ N_y[anchors].T, N_y @ K_y @ N_x[anchors].T
        return cls(S_source, S_target, len(anchors))

    def fused(self, eta: float) -> Array:
        """Return S = η S_s + (1 - η) S_t."""
        return eta * self.S_source + (1.0 - eta) * self.S_target

    def weight(self, B: Array, A: Array) -> float:
        """Return η = p_s² / (p_s + p_t)², where p_k = m - tr(BᵀS_kA)."""
        p_s, p_t = (
            self.n_anchors - float(np.vdot(B, S @ A)) for S in (self.S_source, self.S_target)
        )
        return (p_s / (p_s + p_t)) ** 2 if p_s + p_t else 0.25


def similarities(X: Array) -> Array:
    """Return exp(-‖x - x'‖ / 2) of all pairs of rows."""
    D = np.linalg.norm(X[:, None] - X[None], axis=2)
    return np.exp(-0.5 * D)


def near(X: Array, anchors: Array, k: int) -> csr_array:
    """Return 1 / k for the k nearest anchors of each row, else 0."""
    columns = nearest(X, anchors, k)[1]
    values = np.full(columns.size, 1.0 / k)
    starts = np.arange(0, columns.size + 1, k)
    return csr_array((values, columns.ravel(), starts), shape=(len(X), len(anchors)))
