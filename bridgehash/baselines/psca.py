"""PSCA, prototype-based semantic consistency alignment (Hu et al., AAAI 2026)."""

from __future__ import annotations

from numbers import Integral
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from sklearn.utils.validation import check_random_state

from .._core.linalg import Array, RidgeSolver, pca, procrustes, random_orthonormal
from .._core.validation import Flag, OneOf, Range, Rules
from ..codes import signs
from ..models.base import N_BITS, About
from ..models.contents import Contents, Values
from ..models.encoder import LinearEncoder
from ..models.feature_maps import AnchorKernel
from ..models.training import Ids, TrainingData
from ..neighbors.graphs import one_hot
from ._classes import class_probabilities
from .shared import BaseSharedHasher, StackedDomains

_TINY = 1e-12


class PSCA(BaseSharedHasher):
    """Both domains regressed on class prototypes, then codes of the rebuilt rows.

    First, P maps rows close to orthogonal prototypes o_j of their classes. Target rows are mapped
    to a mixture R that weighs geometry against pseudo-labels:

    Σ_s ‖Pᵀx - o_y‖² + Σ_t Σ_j r_j² ‖Pᵀx - o_j‖² - ψ_j log r_j + λ₁ ‖Pᵀ(x̄_s - x̄_t)‖² + λ₂ ‖P‖₂,₁

    Then memberships and projections D are quantised, ‖D_s W_s - B_s‖² + ‖D_t W_t - B_t‖² +
    λ₃ ‖W_s - W_t‖², and a hash function of x is regressed on the codes.

    The two objectives and ψ follow the paper. No code is public, so the updates are derived here:
    at the best P the step for the prototypes does not change them, so they are the unit vectors.
    Ours: exact steps in r², the temperature of the pseudo-labels, few rounds (with more of them the
    solution drifts), D centred and reduced to its leading directions, λ₃ in units of rows, and a
    kernel in the hash function. The hash function of the paper is linear; its scores are reached
    only with the learned codes of the training rows, which new rows do not have.

    Parameters
    ----------
    n_bits : int, default=64
    lam_means : float, default=10
        λ₁, weight of the distance between the means of the domains.
    lam_sparse : float, default=1
        λ₂, weight of the sparsity over features.
    lam_agree : float, default=1
        λ₃ divided by the mean number of rows per domain: weight of the distance between the two
        quantisers.
    max_iter : int, default=3
        Number of rounds of the first stage.
    quantise_iter : int, default=20
        Number of rounds of the second stage.
    temperature : float, default=0.4
        Temperature of the pseudo-label probabilities.
    out_of_sample : "kernel" or "linear", default="kernel"
        Hash function: linear in similarities to anchors, or in the features.
    n_anchors : int, default=1000
        Anchors of the kernel.
    ridge : float, default=0.1
        β, ridge of the hash function.
    unit_rows : bool, default=True
        Divide each row by its norm first.
    random_state : int, RandomState or None
        Draws the first quantiser and the anchors.

    Attributes
    ----------
    memberships_ : array of shape (n_target, c)
        R, the class memberships of the target rows.
    objective_ : array of shape (max_iter,)
        Objective of the first stage after each round.
    """

    about: ClassVar = About("semi-supervised", "Hu et al., AAAI 2026", ("y_source",))
    _rules: ClassVar[Rules] = {
        "n_bits": N_BITS,
        "lam_means": Range(0),
        "lam_sparse": Range(0, above=True),
        "lam_agree": Range(0),
        "max_iter": Range(1, kind=Integral),
        "quantise_iter": Range(1, kind=Integral),
        "temperature": Range(0, above=True),
        "out_of_sample": OneOf(("kernel", "linear")),
        "n_anchors": Range(1, kind=Integral),
        "ridge": Range(0, above=True),
        "unit_rows": Flag(),
    }
    _contents: ClassVar[Contents] = BaseSharedHasher._contents | {"memberships_": Values("n c")}

    def __init__(
        self,
        n_bits: int = 64,
        lam_means: float = 10.0,
        lam_sparse: float = 1.0,
        lam_agree: float = 1.0,
        max_iter: int = 3,
        quantise_iter: int = 20,
        temperature: float = 0.4,
        out_of_sample: Literal["kernel", "linear"] = "kernel",
        n_anchors: int = 1000,
        ridge: float = 0.1,
        unit_rows: bool = True,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_bits = n_bits
        self.lam_means = lam_means
        self.lam_sparse = lam_sparse
        self.lam_agree = lam_agree
        self.max_iter = max_iter
        self.quantise_iter = quantise_iter
        self.temperature = temperature
        self.out_of_sample = out_of_sample
        self.n_anchors = n_anchors
        self.ridge = ridge
        self.unit_rows = unit_rows
        self.random_state = random_state

    def _learn_shared(self, data: TrainingData) -> LinearEncoder:
        rng = check_random_state(self.random_state)
        X_s, y_s = data.labelled_source("PSCA")
        rows = StackedDomains.build(X_s, data.X_target, unit_rows=self.unit_rows)
        X_s, X_t = rows.domains
        P, R = self._align(X_s, y_s, X_t)
        Y = np.vstack([one_hot(y_s, R.shape[1]).toarray().astype(R.dtype), R])
        D = np.hstack([Y, rows.X @ P])
        D = D - D.mean(axis=0)
        D = D @ pca(D, self.n_bits)
        W = random_orthonormal(D.shape[1], self.n_bits, rng).astype(D.dtype)
        n, lam = rows.n_source, self.lam_agree * len(D) / 2
        B = np.vstack(quantise(D[:n], D[n:], W, lam, self.quantise_iter))
        return self._regress(rows, B, rng)

    def _align(self, X_s: Array, y_s: Ids, X_t: Array) -> tuple[Array, Array]:
        """Run the first stage; return the projection and the memberships of the target."""
        c = int(y_s.max()) + 1
        probabilities = class_probabilities(X_s, y_s, X_t, temperature=self.temperature)
        R = np.eye(c, dtype=X_s.dtype)[probabilities.argmax(axis=1)]
        problem = AlignmentProblem(X_s, y_s, X_t, self.lam_means, self.lam_sparse)
        P, objectives = None, []
        for _ in range(self.max_iter):
            P = projection_step(problem, R, P)
            probabilities = class_probabilities(X_s @ P, y_s, X_t @ P, temperature=self.temperature)
            F = prototype_distances(X_t @ P)
            psi = consistency(F, probabilities)
            R = membership_step(F, psi)
            objectives.append(objective(problem, P, R, psi))
        assert P is not None
        self.memberships_: Array = R
        self.objective_ = np.array(objectives)
        self.n_iter_ = self.max_iter
        return P, R

    def _regress(self, rows: StackedDomains, B: Array, rng: np.random.RandomState) -> LinearEncoder:
        """Return the hash function: a ridge regression of the codes."""
        if self.out_of_sample == "linear":
            return rows.encoder(RidgeSolver(rows.X, self.ridge)(B))
        kernel = AnchorKernel(self.n_anchors, random_state=rng.randint(2**31 - 1))
        phi = kernel.fit_transform(rows.X + rows.mean)
        centre = phi.mean(axis=0)
        phi -= centre
        return LinearEncoder(RidgeSolver(phi, self.ridge)(B), centre, maps=[*rows.maps, kernel])


class AlignmentProblem(NamedTuple):
    """Inputs of the first stage."""

    X_s: Array
    y_s: Ids
    X_t: Array
    lam_means: float
    lam_sparse: float


def projection_step(problem: AlignmentProblem, R: Array, P: Array | None) -> Array:
    """P-step: weighted ridge regression of prototypes, with ‖P‖₂,₁ majorised at the last P.

    In the first step (P is None) all features have the same weight. Target rows have weight
    Σ_j r_j². The distance of the means is one more row, with target zero.
    """
    X_s, y_s, X_t, lam_means, lam_sparse = problem
    c, dtype = R.shape[1], X_s.dtype
    weight = (R**2).sum(axis=1)
    gap = X_s.mean(axis=0) - X_t.mean(axis=0)
    size = np.ones(X_s.shape[1], dtype) if P is None else 2.0 * np.linalg.norm(P, axis=1) + _TINY
    scale = np.sqrt(size / lam_sparse)
    root = np.sqrt(weight)[:, None]
    A = np.vstack([X_s, root * X_t, np.sqrt(lam_means) * gap[None]]) * scale
    goal = np.vstack(
        [one_hot(y_s, c).toarray().astype(dtype), R**2 / root, np.zeros((1, c), dtype)]
    )
    return scale[:, None] * RidgeSolver(A, 1.0)(goal)


def prototype_distances(H: Array) -> Array:
    """Return squared distances of projections to the prototypes, which are the unit vectors."""
    return np.maximum((H**2).sum(axis=1, keepdims=True) - 2.0 * H + 1.0, 0.0)


def consistency(F: Array, probabilities: Array) -> Array:
    """Return ψ: the weight of each row's pseudo-label, in its column; zero elsewhere.

    If the nearest prototype agrees with the pseudo-label, ψ is the margin of the probabilities
    divided by that of the distances. Otherwise it is the probability of the pseudo-label, reduced
    by its difference from that of the nearest prototype.
    """
    rows = np.arange(len(F))
    by_label, by_distance = probabilities.argmax(axis=1), F.argmin(axis=1)
    second, best = np.partition(probabilities, -2, axis=1)[:, -2:].T
    near, next_near = np.partition(F, 1, axis=1)[:, :2].T
    margin = (best - second) / (next_near - near + _TINY)
    doubt = best * (1.0 - np.abs(probabilities[rows, by_distance] - best))
    psi = np.zeros_like(F)
    psi[rows, by_label] = np.where(by_label == by_distance, margin, doubt)
    return psi


def membership_step(F: Array, psi: Array) -> Array:
    """R-step: the exact minimiser of Σ_j r_j² f_j - ψ_j log r_j on the simplex.

    The multiplier η of the simplex solves a quadratic equation (docs/maths.md).
    """
    rows, k = np.arange(len(F)), psi.argmax(axis=1)
    F = np.maximum(F, _TINY)
    f, alpha = F[rows, k], psi[rows, k]
    inverse = 0.5 / F
    a = inverse.sum(axis=1) - 0.25 / f  # Σ_{j≠k} 1 / (2 f_j) + 1 / (4 f_k)
    free = 16.0 * f**2 - 8.0 * f * alpha
    half = 16.0 * f**2 * a
    root = np.sqrt(np.maximum(half**2 - (16.0 * (f * a) ** 2 - 1.0) * free, 0.0))
    eta = np.maximum(free, 0.0) / (half + root)
    R = eta[:, None] * inverse
    R[rows, k] = np.where(free > 0, (eta + np.sqrt(eta**2 + 8.0 * f * alpha)) / (4.0 * f), 1.0)
    return R / R.sum(axis=1, keepdims=True)


def objective(problem: AlignmentProblem, P: Array, R: Array, psi: Array) -> float:
    """Return the objective of the first stage."""
    X_s, y_s, X_t, lam_means, lam_sparse = problem
    F_s, F_t = prototype_distances(X_s @ P), prototype_distances(X_t @ P)
    fit = F_s[np.arange(len(y_s)), y_s].sum() + (R**2 * F_t).sum()
    log_r = np.log(np.maximum(R, np.finfo(R.dtype).tiny))
    gap = (X_s.mean(axis=0) - X_t.mean(axis=0)) @ P
    sparse = np.linalg.norm(P, axis=1).sum()
    return float(fit - (psi * log_r).sum() + lam_means * gap @ gap + lam_sparse * sparse)


def quantise(D_s: Array, D_t: Array, W: Array, lam: float, n_iter: int) -> tuple[Array, Array]:
    """Return codes of both domains by two coupled orthogonal maps that start at W.

    D has no more columns than bits, so the rows of W are orthonormal, ‖DW‖ is constant and
    every step is exact.
    """
    W_s = W_t = W
    for _ in range(n_iter):
        B_s, B_t = (signs(D @ V).astype(D.dtype) for D, V in ((D_s, W_s), (D_t, W_t)))
        W_s = procrustes(D_s.T @ B_s + lam * W_t)
        W_t = procrustes(D_t.T @ B_t + lam * W_s)
    return signs(D_s @ W_s).astype(D_s.dtype), signs(D_t @ W_t).astype(D_t.dtype)
