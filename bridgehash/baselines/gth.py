"""GTH, optimal projection guided transfer hashing (Liu & Zhang, AAAI 2019)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Integral
from typing import ClassVar, Literal

import numpy as np
from scipy.special import expit
from sklearn.utils.validation import check_random_state

from .._core.linalg import Array, pca, random_orthonormal
from .._core.validation import OneOf, Range, Rules
from ..codes import signs
from ..models.base import N_BITS, About
from ..models.encoder import LinearEncoder
from ..models.feature_maps import outward
from ..models.training import TrainingData
from ._stiefel import Objective, cayley_curve
from .shared import BaseSharedHasher, StackedDomains

_SHARPNESS = 10.0  # of the half-quadratic weights
_HALVINGS = 30
_TINY = 1e-300

Weights = Callable[[Array], Array]  # M² for a given Wₜ - Wₛ
Step = Callable[[Array, Objective], Array]


class GTH(BaseSharedHasher):
    """Principal components of target and source, rotated towards their codes and each other.

    min ‖M ∘ (Wₜ - Wₛ)‖² + λₜ ‖Bₜ - Xₜ Wₜ‖² + λₛ ‖Bₛ - Xₛ Wₛ‖² over signs B and projections W with
    orthonormal columns. GTH-g has M = 1; GTH-h draws weights that are small where the two
    projections differ most. A round rotates Wₜ and then Wₛ by some steps along a Cayley curve,
    W ← WQ, and computes new signs. W stays in its first subspace: GTH is ITQ with a coupling.

    Objective, weights, constants and the order of the steps follow the paper and its public code,
    GTH. As there, Wₜ encodes both domains: nothing aligns the columns of Wₛ with those of Wₜ, and
    codes by Wₛ score at chance level. Ours: the mean of both domains and a common scale instead of
    the mean of the target; first signs that do not depend on the order of the samples; the safe
    step; codes longer than the rank of the data, which start at principal components spread over
    all bits by random orthonormal rows. The weights of GTH-h belong to single features: unlike
    GTH-g it depends on a rotation of the features.

    Parameters
    ----------
    n_bits : int, default=64
    weights : {"uniform", "half_quadratic"}, default="uniform"
        M of GTH-g or of GTH-h.
    step : {"safe", "fixed"}, default="safe"
        "safe" starts with a rotation of at most one radian and halves it until the objective
        falls. "fixed" always uses `tau`, on rows that are not scaled, as the public code does; for
        features of unit norm this step is so long that the objective rises.
    lam_target, lam_source : float, default=0.1 and 1.0
        λₜ and λₛ.
    tau : float, default=0.1
        The fixed step.
    quantile : float, default=0.8
        Share of the entries of Wₜ - Wₛ with a weight above one half in GTH-h.
    max_iter : int, default=20
        Number of rounds; there is no stopping test. The public code uses 5 with a fixed step.
    inner_iter : int, default=5
        Rotations of each projection per round.
    random_state : int, RandomState or None
        Draws the first signs, the weights of GTH-h, and the rows that spread components over long
        codes.

    Attributes
    ----------
    objective_ : array of shape (n_iter_,)
        After each round, with the weights of that round. With the safe step and
        uniform weights it never rises.
    n_iter_ : int
    """

    about: ClassVar = About("unsupervised", "Liu & Zhang, AAAI 2019")
    _rules: ClassVar[Rules] = {
        "n_bits": N_BITS,
        "weights": OneOf(("uniform", "half_quadratic")),
        "step": OneOf(("safe", "fixed")),
        "lam_target": Range(0),
        "lam_source": Range(0),
        "tau": Range(0, above=True),
        "quantile": Range(0, 1, above=True),
        "max_iter": Range(0, kind=Integral),
        "inner_iter": Range(1, kind=Integral),
    }

    def __init__(
        self,
        n_bits: int = 64,
        weights: Literal["uniform", "half_quadratic"] = "uniform",
        step: Literal["safe", "fixed"] = "safe",
        lam_target: float = 0.1,
        lam_source: float = 1.0,
        tau: float = 0.1,
        quantile: float = 0.8,
        max_iter: int = 20,
        inner_iter: int = 5,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_bits = n_bits
        self.weights = weights
        self.step = step
        self.lam_target = lam_target
        self.lam_source = lam_source
        self.tau = tau
        self.quantile = quantile
        self.max_iter = max_iter
        self.inner_iter = inner_iter
        self.random_state = random_state

    def _learn_shared(self, data: TrainingData) -> LinearEncoder:
        rng = check_random_state(self.random_state)
        rows = StackedDomains.build(data.X_source, data.X_target, scaled=self.step == "safe")
        X_s, X_t = rows.domains
        W_s, W_t = first_projections(X_s, X_t, self.n_bits, rng)
        source = GTHDomain(X_s, W_s, random_signs(X_s, self.n_bits, rng), self.lam_source)
        target = GTHDomain(X_t, W_t, random_signs(X_t, self.n_bits, rng), self.lam_target)

        def weights(gap: Array) -> Array:
            if self.weights == "uniform":
                return np.ones_like(gap)
            return half_quadratic(gap, rng.uniform(size=gap.shape), self.quantile)

        step = safe_step if self.step == "safe" else fixed_step(self.tau)
        target, _, self.objective_ = solve(
            target, source, weights, step, self.max_iter, self.inner_iter
        )
        self.n_iter_ = self.max_iter
        return rows.encoder(target.W)


@dataclass(frozen=True)
class GTHDomain:
    """One domain: its rows, projection, codes and weight."""

    X: Array  # (n, d)
    W: Array  # (d, r)
    B: Array  # (n, r)
    lam: float


def first_projections(
    X_s: Array, X_t: Array, n_bits: int, rng: np.random.RandomState
) -> tuple[Array, Array]:
    """Return principal directions of each domain; if too few, spread equally over all bits."""
    P_s, P_t = pca(X_s, n_bits), pca(X_t, n_bits)
    p_s, p_t = P_s.shape[1], P_t.shape[1]
    if min(p_s, p_t) == n_bits:
        return P_s, P_t
    R = random_orthonormal(max(p_s, p_t), n_bits, rng).astype(X_s.dtype)
    return P_s @ R[:p_s], P_t @ R[:p_t]


def random_signs(X: Array, n_bits: int, rng: np.random.RandomState) -> Array:
    """Draw signs for the rows of X; the draw does not depend on the order of the rows."""
    B = np.empty((len(X), n_bits), X.dtype)
    B[outward(X)] = signs(rng.standard_normal(B.shape))
    return B


def half_quadratic(gap: Array, U: Array, quantile: float) -> Array:
    """Return M² of GTH-h: about one where the gap is small, about zero where it is large.

    M² = 1 / (1 + exp(β (E - δ))) with E = (U ∘ gap)², δ the given quantile of E and β = 10 / δ; U
    is uniform in (0, 1).
    """
    E = (U * gap) ** 2
    rank = int(np.ceil(quantile * E.size)) - 1
    delta = max(float(np.partition(E, rank, axis=None)[rank]), _TINY)
    return expit(_SHARPNESS * (1.0 - E / delta)).astype(gap.dtype)


def rotation_objective(domain: GTHDomain, W_other: Array, M2: Array) -> Objective:
    """Return the part of the objective that changes under W ← WQ, with its gradient.

    ‖M ∘ (W - W')‖² - 2λ tr(WᵀXᵀB); ‖B‖² and ‖XWQ‖² = ‖XW‖² are constant for orthogonal Q.
    """
    XB = domain.lam * (domain.X.T @ domain.B)

    def value_and_gradient(W: Array) -> tuple[float, Array]:
        gap = W - W_other
        weighted = M2 * gap
        return float(np.vdot(weighted, gap) - 2.0 * np.vdot(W, XB)), 2.0 * (weighted - XB)

    return value_and_gradient


def fixed_step(tau: float) -> Step:
    """Return a step of fixed length along the curve, whether the objective falls or not."""

    def step(W: Array, objective: Objective) -> Array:
        _, G = objective(W)
        return cayley_curve(W.T, G.T)(tau).T

    return step


def safe_step(W: Array, objective: Objective) -> Array:
    """Rotate W by at most one radian, halved until the objective falls.

    ‖K‖ / √2 is at least the spectral norm of K = WᵀG - GᵀW: its singular values come in pairs.
    """
    value, G = objective(W)
    K = W.T @ G
    K = K - K.T
    curve = cayley_curve(W.T, G.T)
    tau = float(np.sqrt(2.0)) / max(float(np.linalg.norm(K)), _TINY)
    for _ in range(_HALVINGS):
        rotated = curve(tau).T
        if objective(rotated)[0] < value:
            return rotated
        tau /= 2
    return W


def solve(
    target: GTHDomain, source: GTHDomain, weights: Weights, step: Step, n_iter: int, inner_iter: int
) -> tuple[GTHDomain, GTHDomain, Array]:
    """Alternate rotations and signs; return both domains and the objective after each round."""
    values = []
    for _ in range(n_iter):
        M2 = weights(target.W - source.W)
        target = projection_step(target, source.W, M2, step, inner_iter)
        source = projection_step(source, target.W, M2, step, inner_iter)
        target, source = code_step(target), code_step(source)
        values.append(loss(target, source, M2))
    return target, source, np.array(values)


def projection_step(
    domain: GTHDomain, W_other: Array, M2: Array, step: Step, n_steps: int
) -> GTHDomain:
    """W-step of one domain."""
    objective, W = rotation_objective(domain, W_other, M2), domain.W
    for _ in range(n_steps):
        W = step(W, objective)
    return replace(domain, W=W)


def code_step(domain: GTHDomain) -> GTHDomain:
    """B-step of one domain."""
    return replace(domain, B=signs(domain.X @ domain.W).astype(domain.B.dtype))


def loss(target: GTHDomain, source: GTHDomain, M2: Array) -> float:
    """Return the objective of GTH."""
    gap = target.W - source.W
    value = float(np.vdot(M2 * gap, gap))
    for domain in (target, source):
        error = domain.B - domain.X @ domain.W
        value += domain.lam * float(np.vdot(error, error))
    return value
