"""DPLM, discrete proximal linearised minimisation (Shen et al., TIP 25(12), 2016)."""

from __future__ import annotations

from numbers import Integral
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_random_state

from .._core.arrays import balanced_signs
from .._core.linalg import Array, RidgeSolver
from .._core.validation import OneOf, Range, Rules
from ..models.base import N_BITS, About, BaseHasher
from ..models.encoder import LinearEncoder
from ..neighbors.graphs import Graph, laplacian
from ._anchor_graph import AnchorGraphMap, anchor_graph
from .itq import itq_projection
from .shared import standardised

_ITQ_ROUNDS = 50
# Thresholds tried in a round. Values below one do not help: a flip lowers the objective only if the
# slope against the bit exceeds its curvature, which is close to two in large graphs.
_THRESHOLDS = 1.5 ** np.arange(14)


class DPLM(BaseHasher):
    """Codes that are smooth over an anchor graph, optimised directly as signs.

    min tr(BᵀLB) + μ/(4nr) ‖BᵀB - nI‖² + ρ/(2n) ‖1ᵀB‖² over signs B of n rows and r bits, with L the
    Laplacian of the graph. A round replaces B by sign(B - ∇f(B)/t): a bit flips if the slope
    against it exceeds the threshold t. The problem and the step follow the paper.

    No public code is known; the rest is ours. The start is balanced ITQ codes: the final objective
    is mostly lower than from the eigenvectors of the graph, and codes of two domains stay
    comparable. The threshold of a round is one, multiplied by 1.5 until the objective falls; the
    rounds stop if it does not. New rows are encoded by a function fitted to B: oos="linear" is
    a ridge regression on rows of root-mean-square norm one, oos="anchor" uses the mean code around
    each anchor. Codes may be longer than the rank of the data, as in ITQ.

    Parameters
    ----------
    n_bits : int, default=64
    n_anchors, n_neighbors : int, default=300 and 3
        Parameters of the graph (see `AnchorGraphMap`).
    mu : float, default=5.0
        μ, the weight of uncorrelated bits.
    rho : float, default=1.0
        ρ, the weight of balanced bits.
    max_iter : int, default=50
        Maximum number of rounds.
    oos : "linear" or "anchor", default="linear"
        How rows are encoded, training rows included.
    ridge : float, default=1.0
        Ridge of the regression.
    random_state : int, RandomState or None
        Draws the first anchors and the first rotation of ITQ.
    """

    about: ClassVar = About("unsupervised", "Shen et al., TIP 25(12), 2016")
    _rules: ClassVar[Rules] = {
        "n_bits": N_BITS,
        "n_anchors": Range(2, kind=Integral),
        "n_neighbors": Range(1, kind=Integral),
        "mu": Range(0),
        "rho": Range(0),
        "max_iter": Range(0, kind=Integral),
        "oos": OneOf(("linear", "anchor")),
        "ridge": Range(0, above=True),
    }

    def __init__(
        self,
        n_bits: int = 64,
        n_anchors: int = 300,
        n_neighbors: int = 3,
        mu: float = 5.0,
        rho: float = 1.0,
        max_iter: int = 50,
        oos: Literal["linear", "anchor"] = "linear",
        ridge: float = 1.0,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_bits = n_bits
        self.n_anchors = n_anchors
        self.n_neighbors = n_neighbors
        self.mu = mu
        self.rho = rho
        self.max_iter = max_iter
        self.oos = oos
        self.ridge = ridge
        self.random_state = random_state

    def _learn(self, X: Array, y: NDArray[Any] | None) -> LinearEncoder:
        rng = check_random_state(self.random_state)
        seed = rng.randint(np.iinfo(np.int32).max)  # an integer can be saved with the model
        anchors = AnchorGraphMap(self.n_anchors, self.n_neighbors, random_state=seed).fit(X)
        graph = anchor_graph(anchors.memberships(X))
        X, mean, scale = standardised(X)
        B = balanced_signs(X @ itq_projection(X, self.n_bits, _ITQ_ROUNDS, rng))
        mu, rho = self.mu / B.size, self.rho / len(B)
        B, self.objective_ = minimise(graph, B, mu, rho, self.max_iter)
        self.n_iter_ = len(self.objective_) or min(self.max_iter, 1)  # one that lowers nothing
        if self.oos == "anchor":
            A: Array = (graph.left.T @ B).astype(X.dtype, copy=False)
            return LinearEncoder(A, np.zeros(len(A), X.dtype), maps=[anchors])
        return LinearEncoder(RidgeSolver(X, self.ridge)(B), mean, scale)


def objective(graph: Graph, B: Array, mu: float, rho: float) -> float:
    """Return f(B) = tr(BᵀLB) + μ/4 ‖BᵀB - nI‖² + ρ/2 ‖1ᵀB‖²."""
    smooth = np.vdot(B, laplacian(graph, B))
    return float(
        smooth + mu / 4 * np.square(_overlaps(B)).sum() + rho / 2 * np.square(B.sum(axis=0)).sum()
    )


def gradient(graph: Graph, B: Array, mu: float, rho: float) -> Array:
    """Return ∇f(B) = 2LB + μ B(BᵀB - nI) + ρ 11ᵀB."""
    G = laplacian(graph, B)
    G *= 2.0
    G += B @ (mu * _overlaps(B))
    G += rho * B.sum(axis=0)
    return G


def _overlaps(B: Array) -> Array:
    """Return BᵀB - nI."""
    C = B.T @ B
    C.flat[:: len(C) + 1] -= len(B)
    return C


def minimise(graph: Graph, B: Array, mu: float, rho: float, max_iter: int) -> tuple[Array, Array]:
    """Lower f from B in rounds; return the codes, and f after each round.

    A round replaces B by sign(B - ∇f/t) at the first threshold t at which f falls.
    """
    values: list[float] = []
    f = objective(graph, B, mu, rho)
    for _ in range(max_iter):
        G = gradient(graph, B, mu, rho)
        for t in _THRESHOLDS:
            B_new = np.where(G / t <= B, 1.0, -1.0).astype(B.dtype)
            if np.array_equal(B_new, B):  # no bit flips at this or any larger threshold
                return B, np.array(values)
            f_new = objective(graph, B_new, mu, rho)
            if f_new < f:
                break
        else:
            break
        B, f = B_new, f_new
        values.append(f)
    return B, np.array(values)
