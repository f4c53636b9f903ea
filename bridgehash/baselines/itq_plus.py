"""ITQ+ and LapITQ+, transfer hashing with privileged information.

Zhou et al., IJCAI 2016; TNNLS 29(12), 2018. LapITQ+ adds a graph over the source.
"""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from sklearn.utils.validation import check_random_state

from .._core.arrays import balanced_signs
from .._core.errors import InputError
from .._core.linalg import Array, pca, procrustes, random_orthonormal
from .._core.validation import OneOf, Range, Rules
from ..codes import signs
from ..models.base import N_BITS, About
from ..models.encoder import LinearEncoder
from ..models.feature_maps import outward
from ..models.training import Ids, TrainingData
from ..neighbors.graphs import KNNGraph, SparseGraph, laplacian
from ..neighbors.search import nearest
from .itq import itq_projection
from .shared import BaseSharedHasher, StackedDomains

# Parameters that turn ITQ+ into LapITQ+.
LAPITQ_PLUS: Mapping[str, Any] = {"laplacian": 0.003, "pairing": "nearest"}
_ITQ_ROUNDS = 50
_BOX_STEPS = 20


class ITQPlus(BaseSharedHasher):
    """ITQ on the target with a quantisation error that paired source rows explain.

    With E = B - XR: min ‖E‖² + λ ‖E - CP‖² + μ tr(BᵀLB) over balanced signs B and rotations R, P.
    X are principal components of the target, C those of the paired source rows, and L is the
    Laplacian of the k-NN graph of the ITQ codes of those source rows in Hamming distance. μ = 0 is
    ITQ+, μ > 0 is LapITQ+. R encodes both domains; pairs are used in training only.

    Objective, steps and λ follow the papers (no code is public). As in the papers, the signs of
    LapITQ+ come from a relaxed problem over the box [-1, 1] and may be unbalanced. Ours: the
    pairing if no pairs are given; the principal components, which make the steps for R and P exact;
    k and μ; a graph of the paired rows only; projected gradient for the box; the stopping test;
    codes longer than the rank of the data, for which R has orthonormal rows.

    Parameters
    ----------
    n_bits : int, default=64
    lam : float, default=0.01
        λ, weight of the source rows (the privileged information).
    laplacian : float, default=0.0
        μ. `ITQPlus(n_bits, **LAPITQ_PLUS)` is LapITQ+ with the best μ and pairing on digits; a
        graph over rows paired at random has no information about the target.
    n_neighbors : int, default=10
        Neighbours per row in the graph.
    pairing : {"random", "nearest"}, default="random"
        How target rows are paired if `fit` gets no pairs: with random source rows (each used once
        if there are enough) or with the nearest one. If pairs are given, target rows without a
        partner are used for the principal components only.
    max_iter : int, default=50
        Maximum number of rounds; it stops if the codes do not change.
    random_state : int, RandomState or None
        Draws the pairing and the first rotations.

    Attributes
    ----------
    objective_ : array of shape (n_iter_,)
        After each round; for ITQ+ it never rises.
    n_iter_ : int
    """

    about: ClassVar = About(
        "unsupervised", "Zhou et al., IJCAI 2016; TNNLS 29(12), 2018", uses=("pairs",)
    )
    _rules: ClassVar[Rules] = {
        "n_bits": N_BITS,
        "lam": Range(0),
        "laplacian": Range(0),
        "n_neighbors": Range(1, kind=Integral),
        "pairing": OneOf(("random", "nearest")),
        "max_iter": Range(1, kind=Integral),
    }

    def __init__(
        self,
        n_bits: int = 64,
        lam: float = 0.01,
        laplacian: float = 0.0,
        n_neighbors: int = 10,
        pairing: Literal["random", "nearest"] = "random",
        max_iter: int = 50,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_bits = n_bits
        self.lam = lam
        self.laplacian = laplacian
        self.n_neighbors = n_neighbors
        self.pairing = pairing
        self.max_iter = max_iter
        self.random_state = random_state

    def _learn_shared(self, data: TrainingData) -> LinearEncoder:
        rng = check_random_state(self.random_state)
        rows = StackedDomains.build(data.X_source, data.X_target, scaled=True)
        X_s, X_t = rows.domains
        in_source, in_target = self._pairs(data.pairs, X_s, X_t, rng)
        C, basis = X_s[in_source], pca(X_t, self.n_bits)
        C, X = C @ pca(C, self.n_bits), X_t[in_target] @ basis
        smooth = self._smoothness(X_s, in_source, rng) if self.laplacian > 0 else None
        R, P = (random_orthonormal(Z.shape[1], self.n_bits, rng).astype(Z.dtype) for Z in (X, C))
        rotation, self.objective_ = solve(
            X, C, R, P, lam=self.lam, smooth=smooth, max_iter=self.max_iter
        )
        self.n_iter_ = len(self.objective_)
        return rows.encoder(basis @ rotation)

    def _pairs(
        self, given: Ids | None, X_s: Array, X_t: Array, rng: np.random.RandomState
    ) -> tuple[Ids, Ids]:
        """Return the row numbers of the pairs in the source and in the target."""
        if given is not None:
            if len(given) < 2:
                raise InputError(f"{len(given)} given; use at least 2, or None", "pairs")
            return given[:, 0], given[:, 1]
        in_target = outward(X_t)
        if self.pairing == "nearest":
            return nearest(X_t[in_target], X_s, 1)[1][:, 0], in_target
        drawn = rng.choice(len(X_s), len(X_t), replace=len(X_s) < len(X_t))
        return outward(X_s)[drawn], in_target

    def _smoothness(self, X_s: Array, in_source: Ids, rng: np.random.RandomState) -> Smoothness:
        """Build the k-NN graph of ITQ codes of the source rows, in Hamming distance."""
        Z = X_s - X_s.mean(axis=0)
        codes = signs(Z @ itq_projection(Z, self.n_bits, _ITQ_ROUNDS, rng))[in_source]
        # Squared Euclidean distances of ±1 codes are four times their Hamming distances.
        graph = KNNGraph(self.n_neighbors).build(codes.astype(X_s.dtype))
        return Smoothness(graph, self.laplacian)


class Smoothness(NamedTuple):
    """μ tr(BᵀLB), the additional term of LapITQ+."""

    graph: SparseGraph
    weight: float

    def __call__(self, B: Array) -> float:
        return self.weight * float(np.vdot(B, laplacian(self.graph, B)))


def solve(
    X: Array,
    C: Array,
    R: Array,
    P: Array,
    *,
    lam: float,
    smooth: Smoothness | None = None,
    max_iter: int = 50,
) -> tuple[Array, Array]:
    """Alternate B, R and P from given rotations; return R and the objective per round."""
    XR, CP, B = X @ R, C @ P, np.zeros((len(X), R.shape[1]), X.dtype)
    values = []
    for _ in range(max_iter):
        B_before, B = B, code_step(XR, CP, lam, smooth)
        R = procrustes(X.T @ (B - lam / (1 + lam) * CP))
        XR = X @ R
        P = procrustes(C.T @ (B - XR))
        CP = C @ P
        values.append(loss(B, XR, CP, lam, smooth))
        if np.array_equal(B, B_before):
            break
    return R, np.array(values)


def code_step(XR: Array, CP: Array, lam: float, smooth: Smoothness | None) -> Array:
    """B-step: exact over balanced signs without a graph, relaxed with one."""
    K = (1 + lam) * XR + lam * CP
    if smooth is None:
        return balanced_signs(K)
    return signs(box_minimum(K, smooth)).astype(K.dtype)


def box_minimum(K: Array, smooth: Smoothness, n_steps: int = _BOX_STEPS) -> Array:
    """Approximate argmin -2 tr(BᵀK) + μ tr(BᵀLB) over -1 ≤ B ≤ 1 by projected gradient from 0.

    L = D - W is at most 2D, so row i can use the step 1 / (4μ d_i) and the value never rises.
    """
    graph, weight = smooth
    step = (0.5 / (weight * graph.degrees))[:, None].astype(K.dtype)
    B = np.zeros_like(K)
    for _ in range(n_steps):
        B += step * (K - weight * laplacian(graph, B))
        np.clip(B, -1.0, 1.0, out=B)
    return B


def loss(B: Array, XR: Array, CP: Array, lam: float, smooth: Smoothness | None) -> float:
    """Return the objective of ITQ+ and LapITQ+."""
    E = B - XR
    value = float(np.vdot(E, E))
    E -= CP
    value += lam * float(np.vdot(E, E))
    return value + (smooth(B) if smooth else 0.0)
