"""Rows of two domains matched by structure alone: no labels, no pairs, no common features.

What two models say of the same kind of things cannot be compared, but how similar each finds two of
its own things can, and a little how clear it finds one. A plan T ≥ 0 shares the rows of one
domain out over those of the other so that similar rows get similar partners and clear ones clear
partners: it minimises a fused Gromov-Wasserstein loss,
Σ (C_s[i, j] - C_t[k, l])² T[i, k] T[j, l] - 2μ Σ f_s[i] f_t[k] T[i, k] and a constant. That has
many local minima, and how similarities are measured decides how many. So the search goes over
several views of the data: it begins at clusters matched by quadratic assignment, goes on over small
cells and then over rows, and at the end takes the mean of the best plans, each counting by its
loss. Clearness counts only where what structure alone finds is in accord with it. What the plans
agree on stays, what they disagree on fades; and how far they agree says, without any label, how
much the match is worth.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import quadratic_assignment
from scipy.special import ndtri
from scipy.stats import rankdata, skew

from .._core.errors import BridgeWarning
from .._core.linalg import Array, drawn_clusters, pca
from ..models.feature_maps import UnitRows, drawn_rows
from ..neighbors.graphs import one_hot
from ..neighbors.search import nearest_others

VIEWS = ((None, False), (None, True), (16, True), (32, True))  # (components, ranked)
_CLUSTERS = (6, 8, 10, 12, 16)
_CELLS = 150
_STEP = 0.05  # of the proximal steps, in units of the standardised similarities
_COARSE_STEPS, _FINE_STEPS = 15, 10
_SCALINGS = 12
_ASSIGNMENTS = 4
_SOFT = 1e-2  # what a plan made of clusters leaves to pairs outside them
_SPREAD = 6e-3  # by how much a loss may be higher for its plan to count 1/e
_MARK_WEIGHT = 0.3  # of clearness beside similarities, where it counts
_LEAST_ACCORD = 0.1  # with what structure alone finds, for clearness to count
_MARK_NEIGHBORS = 10
_TINY = 1e-30
LEAST_AGREEMENT = 0.2


@dataclass(frozen=True)
class View:
    """Rows of a domain in some coordinates, and how similar they are there."""

    Y: Array  # (n, d) unit rows
    C: Array  # (n, n) similarities of mean zero and deviation one
    F: Array  # (n, m) marks of single rows

    @classmethod
    def of(cls, X: Array, n_components: int | None, ranked: bool) -> View:
        """Centred rows in all coordinates, or in leading components of half-evened variance."""
        F = clearness(X)
        X = UnitRows().fit_transform(X)
        X = X - X.mean(axis=0)
        if n_components is not None:
            V = X @ pca(X, n_components)
            X = V / np.sqrt(np.maximum(np.linalg.norm(V, axis=0), _TINY))
        Y = UnitRows().fit_transform(X).astype(np.float32)
        G = Y @ Y.T
        C = normal_scores(G) if ranked else (G - G.mean()) / max(G.std(), _TINY)
        return cls(Y, C, F)


def normal_scores(G: Array) -> Array:
    """Similarities replaced by the quantiles of a normal distribution at their ranks.

    The diagonal gets the largest. Only the order counts then, so that what one model spreads and
    another one squeezes looks the same.

    >>> normal_scores(np.array([[1.0, 0.2, 0.1], [0.2, 1.0, 0.9], [0.1, 0.9, 1.0]])).round(2)
    array([[ 0.97,  0.  , -0.97],
           [ 0.  ,  0.97,  0.97],
           [-0.97,  0.97,  0.97]])
    """
    upper = np.triu_indices(len(G), 1)
    scores = ndtri((rankdata(G[upper]) - 0.5) / len(upper[0])).astype(G.dtype)
    C = np.zeros_like(G)
    C[upper] = scores
    C += C.T
    np.fill_diagonal(C, scores.max())
    return C


def scaled(K: Array, p: Array, q: Array, n_rounds: int) -> Array:
    """K with its rows and columns scaled so that they sum to p and q (Sinkhorn)."""
    v = np.ones_like(q)
    for _ in range(n_rounds):
        u = p / np.maximum(K @ v, _TINY)
        v = q / np.maximum(u @ K, _TINY)
    plan: Array = u[:, None] * K * v
    return plan


def clearness(X: Array) -> Array:
    """How peaked each row is, shape (n, 1): all that a single row says in any space.

    The skewness of its entries, as the mean over the row and its nearest others, as normal scores.
    Networks of different make find the same pictures clear: few strong entries, many weak ones.
    Where columns are not those of a network but turned, it says nothing.
    """
    unit = UnitRows().fit_transform(X)
    near = nearest_others(unit - unit.mean(axis=0), min(_MARK_NEIGHBORS, len(X) - 1))[1]
    peaks = np.nan_to_num(skew(unit, axis=1))
    ranks = rankdata((peaks + peaks[near].sum(axis=1)) / (1.0 + near.shape[1]))
    return ndtri((ranks - 0.5) / len(X)).astype(np.float32)[:, None]


@dataclass(frozen=True)
class Problem:
    """Similarities inside two domains, marks of their rows, and weights: what measures a plan."""

    C_s: Array
    C_t: Array
    F_s: Array  # (n_s, m) marks
    F_t: Array
    p: Array  # (n_s,) weights that sum to one
    q: Array  # (n_t,)
    mu: float = 0.0  # weight of the marks

    @cached_property
    def _size(self) -> float:
        return float(self.p @ self.C_s**2 @ self.p + self.q @ self.C_t**2 @ self.q)

    def loss(self, T: Array) -> float:
        """The fused loss of a plan, as a part of what no match at all would cost."""
        kept = float(np.vdot(self.C_s @ T, T @ self.C_t)) + self.mu * self.accord(T)
        return 1.0 - 2.0 * kept / max(self._size, _TINY)

    def accord(self, T: Array) -> float:
        """How far marks of partners go together: 1 if they are the same, 0 if by chance."""
        return float(np.vdot(self.F_s, T @ self.F_t))

    def improved(self, T: Array, n_steps: int) -> Array:
        """The plan after proximal steps: T ← T exp(-gradient / step), scaled to p and q."""
        marked = self.F_s @ self.F_t.T * (self.mu / _STEP)
        for _ in range(n_steps):
            gain = self.C_s @ T @ self.C_t * (2.0 / _STEP) + marked
            logs = gain + np.log(np.maximum(T, _TINY))
            T = scaled(np.exp(logs - logs.max(axis=1, keepdims=True)), self.p, self.q, _SCALINGS)
        return scaled(T, self.p, self.q, 2 * _SCALINGS)


class Cells:
    """A view of both domains, coarse: small clusters in place of rows.

    Parameters
    ----------
    source, target : View
    rng : RandomState
    """

    def __init__(self, source: View, target: View, rng: np.random.RandomState) -> None:
        self.source, self.target = _coarse(source, rng), _coarse(target, rng)
        s, t = self.source, self.target
        self.problem = Problem(s.C, t.C, s.F, t.F, s.weights, t.weights)

    def start(self, k: int, mu: float, rng: np.random.RandomState) -> tuple[float, Array]:
        """A plan from k clusters of either side matched with each other, and its loss."""
        problem = replace(self.problem, mu=mu)
        (M_s, A), (M_t, B) = (side.clustered(k, rng) for side in (self.source, self.target))
        K = M_s @ M_t[:, best_assignment(A, B, rng)].T + _SOFT
        plan = scaled(K, problem.p, problem.q, _SCALINGS)
        plan = problem.improved(plan, _COARSE_STEPS)
        return problem.loss(plan), plan

    def lifted(self, T: Array) -> Array:
        """The plan of the cells as one of their rows."""
        labels_s, labels_t = self.source.labels, self.target.labels
        density = T / np.outer(self.problem.p, self.problem.q)
        rows: Array = density[labels_s][:, labels_t] / (len(labels_s) * len(labels_t))
        return rows


@dataclass(frozen=True)
class _Coarse:
    """Cells of one domain."""

    labels: NDArray[np.intp]  # (n,) the cell of each row
    centres: Array  # (m, d)
    C: Array  # (m, m) mean similarities between the rows of cells
    F: Array  # (m, f) mean marks
    weights: Array  # (m,) shares of the rows

    def clustered(self, k: int, rng: np.random.RandomState) -> tuple[Array, Array]:
        """Cells put into k clusters: memberships, and mean similarities between clusters."""
        labels = drawn_clusters(self.centres, min(k, len(self.centres)), rng, self.weights)
        M: Array = one_hot(labels, k).toarray().astype(self.C.dtype)
        shares = M * self.weights[:, None]
        shares /= np.maximum(shares.sum(axis=0), _TINY)
        return M, shares.T @ self.C @ shares


def _coarse(view: View, rng: np.random.RandomState) -> _Coarse:
    labels = drawn_clusters(view.Y, min(_CELLS, len(view.Y)), rng)
    M = one_hot(labels, int(labels.max()) + 1).toarray().astype(view.C.dtype)
    sizes = M.sum(axis=0)
    sums, counts = M.T @ view.C @ M, np.outer(sizes, sizes)
    np.fill_diagonal(sums, sums.diagonal() - M.T @ view.C.diagonal())  # a row and itself: no pair
    np.fill_diagonal(counts, counts.diagonal() - sizes)
    C = sums / np.maximum(counts, 1.0)
    alone = sizes == 1
    if alone.any():  # as tight as a cell usually is
        tight = C.diagonal()[~alone]
        C[alone, alone] = np.median(tight) if len(tight) else view.C.max()
    share = M / sizes
    return _Coarse(labels, share.T @ view.Y, C, share.T @ view.F, sizes / sizes.sum())


def best_assignment(A: Array, B: Array, rng: np.random.RandomState) -> NDArray[np.intp]:
    """The order of B's rows and columns in which it is most like A: max Σ A ∘ B[o][:, o]."""
    best, found = -np.inf, np.arange(len(A))
    A, B = A.astype(float), B.astype(float)
    for _ in range(_ASSIGNMENTS):
        drawn = np.random.default_rng(rng.randint(2**31 - 1))
        first: Any = {"maximize": True, "P0": "randomized", "rng": drawn}
        start = quadratic_assignment(A, B, "faq", first).col_ind
        last: Any = {"maximize": True, "partial_guess": np.column_stack([np.arange(len(A)), start])}
        result = quadratic_assignment(A, B, "2opt", last | {"rng": drawn})
        if result.fun > best:
            best, found = result.fun, result.col_ind
    return found


@dataclass(frozen=True)
class Match:
    """A plan between rows of two domains, and how far independent searches agree on it."""

    plan: Array  # (m_s, m_t) sums to one
    rows_s: NDArray[np.intp]  # (m_s,) rows of the source that took part
    rows_t: NDArray[np.intp]
    loss: float  # of the best plan, 1: no match at all
    agreement: float  # mean cosine of where plans of two views send a row; 1: all agree


def match(
    X_s: Array,
    X_t: Array,
    rng: np.random.RandomState,
    *,
    n_starts: int = 60,
    n_kept: int = 10,
    max_rows: int = 700,
) -> Match:
    """Match rows by structure.

    Parameters
    ----------
    X_s, X_t : arrays of shape (n_s, d_s), (n_t, d_t)
        At least two different rows each.
    rng : RandomState
    n_starts : int
        Clusterings that are matched, in each view of the data.
    n_kept : int
        Of their plans that go on to rows.
    max_rows : int
        Rows of a domain that take part, drawn at random.
    """
    rows_s, rows_t = drawn_rows(X_s, max_rows, rng), drawn_rows(X_t, max_rows, rng)
    views = [(View.of(X_s[rows_s], *kind), View.of(X_t[rows_t], *kind)) for kind in VIEWS]
    p = np.full(len(rows_s), 1.0 / len(rows_s), dtype=np.float32)
    q = np.full(len(rows_t), 1.0 / len(rows_t), dtype=np.float32)
    cells = [Cells(*view, rng) for view in views]
    found = [_starts(cell, 0.0, n_starts, rng) for cell in cells]
    mu = _MARK_WEIGHT if _accord(cells, found) >= _LEAST_ACCORD else 0.0
    if mu > 0:
        found = [_starts(cell, mu, n_starts, rng) for cell in cells]
    plans = [c.lifted(T) for c, starts in zip(cells, found, strict=True) for T in starts[:n_kept]]
    judges = [Problem(s.C, t.C, s.F, t.F, p, q, mu) for s, t in views[1:]]
    losses, improved = zip(*(_judged(plan, judges) for plan in plans), strict=True)
    counts = np.exp(-(np.array(losses) - min(losses)) / _SPREAD)
    counts /= counts.sum()
    mean = np.tensordot(counts, np.array(improved), axes=1)
    agreement = _agreement(improved, len(views), views[-1][1].Y, views[-1][0].F)
    if agreement < LEAST_AGREEMENT:
        warnings.warn(
            "the two domains could not be matched by their structure: independent searches agree "
            f"by {agreement:.2f} (1: fully, below {LEAST_AGREEMENT}: no better than chance), so "
            "codes of one do not find their like in the other; give labels of some rows of both, "
            "or pairs",
            BridgeWarning,
            stacklevel=2,
        )
    return Match(scaled(mean, p, q, 2 * _SCALINGS), rows_s, rows_t, min(losses), agreement)


def _starts(cells: Cells, mu: float, n_starts: int, rng: np.random.RandomState) -> list[Array]:
    """Plans over cells from many starts, the best first."""
    found = [cells.start(_CLUSTERS[i % len(_CLUSTERS)], mu, rng) for i in range(n_starts)]
    found.sort(key=lambda pair: pair[0])
    return [plan for _, plan in found]


def _accord(cells: Sequence[Cells], found: Sequence[list[Array]]) -> float:
    """Do plans that structure alone has found go together with clearness, on the average?"""
    pairs = zip(cells, found, strict=True)
    return float(np.mean([cell.problem.accord(plan) for cell, plans in pairs for plan in plans]))


def _judged(plan: Array, judges: list[Problem]) -> tuple[float, Array]:
    """Mean loss after some steps in each view, and the plan of the last one."""
    losses = []
    for problem in judges:
        improved = problem.improved(plan, _FINE_STEPS)
        losses.append(problem.loss(improved))
    return float(np.mean(losses)), improved


def _agreement(plans: Sequence[Array], n_views: int, Y_t: Array, F_s: Array) -> float:
    """Mean cosine between the places where plans from different views send a row of the source.

    With S_v the sum of a row's unit places over the plans of view v, the sum over pairs of plans
    from different views is ‖Σ S_v‖² - Σ ‖S_v‖². Plans of one view may share an error of that view.
    """
    per_view = len(plans) // n_views
    sums = [
        np.sum([_places(plan, Y_t, F_s) for plan in plans[i : i + per_view]], axis=0)
        for i in range(0, len(plans), per_view)
    ]
    pairs = float((np.sum(sums, axis=0) ** 2).sum() - sum((S**2).sum() for S in sums))
    return pairs / (len(sums[0]) * (len(plans) ** 2 - n_views * per_view**2))


def _places(plan: Array, Y_t: Array, F_s: Array) -> Array:
    """The mean partner of each row of the source around that of all, at unit norm.

    What clearness alone would say of it is taken away: that is the same for all plans.
    """
    places = plan @ Y_t / np.maximum(plan.sum(axis=1, keepdims=True), _TINY)
    places -= places.mean(axis=0)
    places -= F_s @ (F_s.T @ places) / max(float((F_s**2).sum()), _TINY)
    units: Array = UnitRows().fit_transform(places)
    return units
