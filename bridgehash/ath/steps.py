"""The steps of Algorithm 1 as pure functions, one equation each.

Letters are those of the paper, rows are samples: `X` is (n, m), `H = X @ A` the projections, `B`
the codes, `W` the bipartite graph seen from the domain at hand. Each step is the exact minimiser
of `objective` in its own variable, the others held fixed. docs/maths.md has the derivations.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np

from .._core.arrays import array_namespace, balanced_signs, like, row_squares, to_numpy
from .._core.linalg import Array, SPDSolver, as_double, product, row_parts, symmetric_product
from ..neighbors.graphs import Graph, laplacian
from ..streaming.operator import BlockRows


@dataclass(frozen=True)
class Domain:
    """What stays fixed for one domain while the solver runs."""

    X: Any  # (n, m) centred features φ(x), one row per sample: an array, or a BlockRows
    graph: Graph  # (n, n) affinity inside the domain
    alpha: float  # weight of T1
    beta: float  # weight of T3
    held: Array | None = None  # (m, n_bits) what the ridge pulls A towards; None: zero
    lower: bool = False  # X is zero above its diagonal
    weights: Array | None = None  # (n,) of the rows in T1; None: all one
    frozen: bool = False  # its projections stay as they are; only they count then

    @cached_property
    def smoothed(self) -> Array:
        """β W X: the most expensive part of Φ, which stays the same in all iterations."""
        return self.beta * (self.graph @ self.X)

    def weighted(self, M: Array) -> Array:
        """Multiply the rows of M by their weight in T1: α, times the weight of the row."""
        if self.weights is None:
            return self.alpha * M
        return self.alpha * like(self.weights, M, M.dtype)[:, None] * M

    def products(self, parts: list[slice]) -> Iterator[Array]:
        """Rows of β W X, for each of the parts."""
        if len(parts) == 1:
            yield self.smoothed
        else:
            yield from (self.beta * WX for WX in self.graph.products(self.X, parts))


def normal_matrix(domain: Domain, degrees: Array, *, lam: float) -> Array:
    """Return Φ = Xᵀ(αI + βL + λD)X of Eq. 17; D holds the degrees in the bipartite graphs.

    Summed over parts of the rows, so that no temporary is as large as X.
    """
    X = domain.X
    if isinstance(X, BlockRows):
        Phi: Any = X.gram(_row_weights(domain, to_numpy(degrees), lam))
        if domain.beta:
            Phi += domain.beta * domain.graph.smoothness(X)
        return Phi.astype(X.dtype)
    weights = _row_weights(domain, like(degrees, X, X.dtype), lam)
    parts = row_parts(X)
    smoothed: Iterable[Any] = repeat(0.0)
    if domain.beta:
        weights = weights + domain.beta * like(domain.graph.degrees, X, X.dtype)
        smoothed = domain.products(parts)
    Phi = 0.0
    for part, WX in zip(parts, smoothed, strict=False):
        Y = weights[part, None] * X[part, :]
        Y -= WX
        Phi = symmetric_product(X[part, :], Y, lower=domain.lower) + Phi
    return Phi


def _row_weights(domain: Domain, degrees: Array, lam: float) -> Array:
    """Return the diagonal of αI + λD, with the weights of the rows in T1."""
    ones = array_namespace(degrees).ones_like(degrees)
    return domain.weighted(ones[:, None])[:, 0] + lam * degrees


def projection_step(
    domain: Domain,
    solver: SPDSolver,
    B: Array,
    bridges: Sequence[tuple[Graph, Array]],
    *,
    lam: float,
    ridge: float = 0.0,
) -> Array:
    """A-step (Eq. 17): the projection that minimises Eq. 16, given the factored Φ.

    A bridge is a bipartite graph W, with the rows of this domain first, and the projections of the
    other domain. If the ridge pulls towards a projection, it is also part of the right-hand side.
    """
    wanted = domain.weighted(B)
    if lam:
        for W, H_other in bridges:
            wanted = wanted + lam * (W @ H_other)
    right = product(domain.X.T, wanted)
    if domain.held is not None:
        right += ridge * domain.held
    return solver(right)


def ridge_distance(domain: Domain, A: Array) -> float:
    """Return ‖A - held‖², the quantity that the ridge penalises."""
    return _square(A if domain.held is None else A - domain.held)


def code_step(H: Array, decorrelation: float = 0.0) -> Array:
    """B-step (Eq. 19): in each column +1 for the larger half, -1 for the rest.

    With a `decorrelation` above 0, of partly whitened projections: not the step of the paper.
    """
    return balanced_signs(decorrelated(H, decorrelation) if decorrelation else H)


_LEAST_VARIANCE = 0.1  # relative to the largest one: weaker directions are not raised further


def decorrelated(H: Array, strength: float) -> Array:
    """Return H V diag(w / w_max)^-strength Vᵀ with w, V the eigenpairs of HᵀH.

    A strength of 0 changes nothing, 0.5 is whitening. Values below 0.1 w_max count as 0.1 w_max.

    >>> H = np.array([[2.0, 0.0], [-2.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    >>> decorrelated(H, 0.5)
    array([[ 2.,  0.],
           [-2.,  0.],
           [ 0.,  2.],
           [ 0., -2.]])
    """
    xp = array_namespace(H)
    w, V = xp.linalg.eigh(as_double(H.T @ H))
    largest = float(w[-1])
    if not largest > 0:
        return H
    factors = (xp.clip(w, min=_LEAST_VARIANCE * largest) / largest) ** -strength
    return H @ xp.astype((V * factors) @ V.T, H.dtype)


def graph_step(F_sorted: Array) -> Array:
    """W-step (Eq. 21 with γ_i of Eq. 28): weights of the η nearest targets, summing to one.

    Each source row spreads one unit of weight over its nearest target rows, more on the nearer
    ones. With γ_i of Eq. 28 both λ and γ cancel, so neither is an argument. If the η + 1 distances
    of a row are all equal, the weights are equal too.

    Parameters
    ----------
    F_sorted : array of shape (n_source, η + 1)
        Squared distances to the nearest target rows, ascending.

    Returns
    -------
    weights : array of shape (n_source, η)
        Non-negative, each row sums to one.

    Examples
    --------
    >>> graph_step(np.array([[0.0, 1.0, 3.0]]))
    array([[0.6, 0.4]])
    """
    slack = F_sorted[:, -1:] - F_sorted[:, :-1]
    xp = array_namespace(slack)
    total = xp.sum(slack, axis=1, keepdims=True)
    even = xp.full_like(slack, 1.0 / slack.shape[1])
    return xp.where(total > 0, slack / xp.where(total > 0, total, xp.ones_like(total)), even)


def graph_gamma(F_sorted: Array) -> Array:
    """Return γ_i / λ of Eq. 28 for each row: the value that leaves exactly η non-zero entries."""
    eta = F_sorted.shape[1] - 1
    xp = array_namespace(F_sorted)
    return 0.5 * (eta * F_sorted[:, -1] - xp.sum(F_sorted[:, :-1], axis=1))


def simplex_projection(V: Array) -> Array:
    """Project each row of V onto the probability simplex (Eq. 20 with V = -λF/2γ).

    >>> simplex_projection(np.array([[0.0, -0.2, -3.0]]))
    array([[0.6, 0.4, 0. ]])
    """
    xp = array_namespace(V)
    ordered = xp.sort(V, axis=1, descending=True)
    excess = (xp.cumulative_sum(ordered, axis=1) - 1.0) / like(
        np.arange(1, V.shape[1] + 1), V, V.dtype
    )
    n_positive = xp.count_nonzero(ordered > excess, axis=1)
    return xp.clip(V - xp.take_along_axis(excess, n_positive[:, None] - 1, axis=1), min=0.0)


class Objective(NamedTuple):
    """The terms of the objective of Eq. 10, and the ridge term that Φ̃ adds."""

    quantisation: float  # T1
    bridge: float  # T2
    structure: float  # T3
    ridge: float

    @property
    def total(self) -> float:
        return sum(self)


def objective(
    domains: Sequence[Domain],
    H: Sequence[Array],
    B: Sequence[Array],
    bridges: Sequence[tuple[int, int, Graph]],
    *,
    lam: float,
) -> tuple[float, float, float]:
    """Return T1, T2 and T3 of Eqs. 4, 6 and 9 for the projections and codes of all domains.

    A bridge (i, j, W) joins rows of domain i with rows of domain j. T1 and T3 of a frozen domain
    are constant and left out.
    """
    t1 = t2 = t3 = 0.0
    for domain, H_k, B_k in zip(domains, H, B, strict=True):
        if not domain.frozen:
            t1 += _dot(B_k - H_k, domain.weighted(B_k - H_k))
            t3 += domain.beta * _dot(H_k, laplacian(domain.graph, H_k))
    for i, j, W in bridges:
        H_s, H_t = H[i], H[j]
        distances = (
            _dot(like(W.degrees, H_s, H_s.dtype), row_squares(H_s))
            + _dot(like(W.T.degrees, H_t, H_t.dtype), row_squares(H_t))
            - 2.0 * _dot(H_s, W @ H_t)
        )
        t2 += lam * (distances + W.penalty)
    return t1, t2, t3


def _dot(a: Array, b: Array) -> float:
    return float(array_namespace(a).sum(a * b))  # no BLAS, see linalg.product


def _square(a: Array) -> float:
    return _dot(a, a)
