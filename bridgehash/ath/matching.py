"""Match the rows of two domains by structure alone: no labels, no pairs, no common features.

Features of two models cannot be compared, but similarities inside each domain can, and to a lesser
degree the clearness of single rows. A plan T ≥ 0 assigns the rows of one domain to those of the
other so that similar rows get similar partners and clear rows get clear partners. It minimises a
fused Gromov-Wasserstein loss,
Σ (C_s[i, j] - C_t[k, l])² T[i, k] T[j, l] - 2μ Σ f_s[i] f_t[k] T[i, k] plus a constant.

The loss has many local minima, and the measure of similarity decides how many. The search therefore
uses several views of the data. In each it matches clusters by quadratic assignment and refines the
plan over small cells, then over rows. The result is the mean of the best plans, weighted by their
loss.
Clearness is used only if plans found by structure alone agree with it. The agreement of the plans
estimates the quality of the match without labels.
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
from .._core.linalg import Array, drawn_clusters, pca, sinkhorn, unit_rows
from ..models.feature_maps import drawn_rows
from ..neighbors.graphs import one_hot
from ..neighbors.search import nearest_others

VIEWS = ((None, False), (None, True), (16, True), (32, True))  # (components, ranked)
_CLUSTERS = (6, 8, 10, 12, 16)
_CELLS = 150
_STEP = 0.05  # of the proximal steps, in units of the standardised similarities
_COARSE_STEPS, _FINE_STEPS = 15, 10
_SCALINGS = 12
_ASSIGNMENTS = 4
_SOFT = 1e-2  # weight of pairs outside matched clusters
_LOSS_SCALE = 6e-3  # a loss higher by this has weight 1/e
_CLEARNESS_WEIGHT = 0.3  # weight of clearness, if it is used
_LEAST_ACCORD = 0.1  # correlation from which clearness is used
_CLEARNESS_NEIGHBORS = 10
_TINY = 1e-30
LEAST_AGREEMENT = 0.2


@dataclass(frozen=True)
class SimilarityView:
    """Rows of a domain in some coordinates, and their similarities."""

    Y: Array  # (n, d) unit rows
    C: Array  # (n, n) similarities of mean zero and deviation one
    F: Array  # (n, m) clearness of single rows

    @classmethod
    def of(cls, X: Array, n_components: int | None, ranked: bool) -> SimilarityView:
        """Build a view in all coordinates, or in leading components of square-root variance."""
        F = clearness(X)
        X = unit_rows(X)
        X = X - X.mean(axis=0)
        if n_components is not None:
            V = X @ pca(X, n_components)
            X = V / np.sqrt(np.maximum(np.linalg.norm(V, axis=0), _TINY))
        Y = unit_rows(X).astype(np.float32)
        G = Y @ Y.T
        C = normal_scores(G) if ranked else (G - G.mean()) / max(G.std(), _TINY)
        return cls(Y, C, F)


def normal_scores(G: Array) -> Array:
    """Replace similarities by normal quantiles of their ranks; the diagonal gets the largest.

    Only the order counts then, so differences in scale between two models disappear.

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


def clearness(X: Array) -> Array:
    """Return how peaked each row is, shape (n, 1): a property that is comparable across spaces.

    It is the skewness of the entries, averaged over the row and its nearest neighbours, as normal
    scores. Different networks find the same pictures clear: few strong entries, many weak ones. It
    has no meaning for rotated features.
    """
    unit = unit_rows(X)
    near = nearest_others(unit - unit.mean(axis=0), min(_CLEARNESS_NEIGHBORS, len(X) - 1))[1]
    varied = np.ptp(unit, axis=1) > 1e-6  # a row of equal entries has no peak
    peaks = np.zeros(len(unit))
    peaks[varied] = skew(unit[varied], axis=1)
    ranks = rankdata((peaks + peaks[near].sum(axis=1)) / (1.0 + near.shape[1]))
    scores: Array = np.asarray(ndtri((ranks - 0.5) / len(X)), dtype=np.float32)
    return scores[:, None]


@dataclass(frozen=True)
class MatchingProblem:
    """Similarities and clearness of two domains, and weights: defines the loss of a plan."""

    C_s: Array
    C_t: Array
    F_s: Array  # (n_s, m) clearness
    F_t: Array
    p: Array  # (n_s,) weights that sum to one
    q: Array  # (n_t,)
    mu: float = 0.0  # weight of clearness

    @cached_property
    def _size(self) -> float:
        return float(self.p @ self.C_s**2 @ self.p + self.q @ self.C_t**2 @ self.q)

    def loss(self, T: Array) -> float:
        """Return the fused loss of a plan, relative to that of no match."""
        kept = float(np.vdot(self.C_s @ T, T @ self.C_t)) + self.mu * self.accord(T)
        return 1.0 - 2.0 * kept / max(self._size, _TINY)

    def accord(self, T: Array) -> float:
        """Return the correlation of the clearness of partners: 1 if equal, 0 by chance."""
        return float(np.vdot(self.F_s, T @ self.F_t))

    def improved(self, T: Array, n_steps: int) -> Array:
        """Return the plan after proximal steps T ← T exp(-gradient / step), scaled to p and q."""
        clear = self.F_s @ self.F_t.T * (self.mu / _STEP)
        for _ in range(n_steps):
            gain = self.C_s @ T @ self.C_t * (2.0 / _STEP) + clear
            logs = gain + np.log(np.maximum(T, _TINY))
            T = sinkhorn(np.exp(logs - logs.max(axis=1, keepdims=True)), self.p, self.q, _SCALINGS)
        return sinkhorn(T, self.p, self.q, 2 * _SCALINGS)


class CoarsePair:
    """A coarse view of both domains: small cells instead of rows."""

    def __init__(
        self, source: SimilarityView, target: SimilarityView, rng: np.random.RandomState
    ) -> None:
        self.source, self.target = _coarse(source, rng), _coarse(target, rng)
        s, t = self.source, self.target
        self.problem = MatchingProblem(s.C, t.C, s.F, t.F, s.weights, t.weights)

    def start(self, k: int, mu: float, rng: np.random.RandomState) -> tuple[float, Array]:
        """Match k clusters of each domain; return the loss and the refined plan."""
        problem = replace(self.problem, mu=mu)
        (M_s, A), (M_t, B) = (side.clustered(k, rng) for side in (self.source, self.target))
        K = M_s @ M_t[:, best_assignment(A, B, rng)].T + _SOFT
        plan = sinkhorn(K, problem.p, problem.q, _SCALINGS)
        plan = problem.improved(plan, _COARSE_STEPS)
        return problem.loss(plan), plan

    def lifted(self, T: Array) -> Array:
        """Return the plan of the cells as a plan of their rows."""
        labels_s, labels_t = self.source.labels, self.target.labels
        density = T / np.outer(self.problem.p, self.problem.q)
        return density[labels_s][:, labels_t] / (len(labels_s) * len(labels_t))


@dataclass(frozen=True)
class _CoarseDomain:
    """The cells of one domain."""

    labels: NDArray[np.intp]  # (n,) the cell of each row
    centres: Array  # (m, d)
    C: Array  # (m, m) mean similarities between the rows of cells
    F: Array  # (m, f) mean clearness
    weights: Array  # (m,) shares of the rows

    def clustered(self, k: int, rng: np.random.RandomState) -> tuple[Array, Array]:
        """Group the cells into k clusters; return memberships and mean similarities."""
        labels = drawn_clusters(self.centres, min(k, len(self.centres)), rng, self.weights)
        M: Array = one_hot(labels, k).toarray().astype(self.C.dtype)
        shares = M * self.weights[:, None]
        shares /= np.maximum(shares.sum(axis=0), _TINY)
        return M, shares.T @ self.C @ shares


def _coarse(view: SimilarityView, rng: np.random.RandomState) -> _CoarseDomain:
    labels = drawn_clusters(view.Y, min(_CELLS, len(view.Y)), rng)
    M = one_hot(labels, int(labels.max()) + 1).toarray().astype(view.C.dtype)
    sizes = M.sum(axis=0)
    sums, counts = M.T @ view.C @ M, np.outer(sizes, sizes)
    # Leave out pairs of a row with itself.
    np.fill_diagonal(sums, sums.diagonal() - M.T @ view.C.diagonal())
    np.fill_diagonal(counts, counts.diagonal() - sizes)
    C = sums / np.maximum(counts, 1.0)
    alone = sizes == 1
    if alone.any():  # use the median tightness
        tight = C.diagonal()[~alone]
        C[alone, alone] = np.median(tight) if len(tight) else view.C.max()
    share = M / sizes
    return _CoarseDomain(labels, share.T @ view.Y, C, share.T @ view.F, sizes / sizes.sum())


def best_assignment(A: Array, B: Array, rng: np.random.RandomState) -> NDArray[np.intp]:
    """Return the order o of B that maximises Σ A ∘ B[o][:, o]."""
    best, order = -np.inf, np.arange(len(A))
    A, B = A.astype(float), B.astype(float)
    for _ in range(_ASSIGNMENTS):
        drawn = np.random.default_rng(rng.randint(2**31 - 1))
        first: Any = {"maximize": True, "P0": "randomized", "rng": drawn}
        start = quadratic_assignment(A, B, "faq", first).col_ind
        last: Any = {"maximize": True, "partial_guess": np.column_stack([np.arange(len(A)), start])}
        result = quadratic_assignment(A, B, "2opt", last | {"rng": drawn})
        if result.fun > best:
            best, order = result.fun, result.col_ind
    return order


@dataclass(frozen=True)
class MatchResult:
    """A plan between rows of two domains, and the agreement of independent searches."""

    plan: Array  # (m_s, m_t) sums to one
    rows_s: NDArray[np.intp]  # (m_s,) source rows used
    rows_t: NDArray[np.intp]
    loss: float  # of the best plan; 1: no match
    agreement: float  # mean cosine between the partners that plans of two views assign


def match(
    X_s: Array,
    X_t: Array,
    rng: np.random.RandomState,
    *,
    n_starts: int = 60,
    n_kept: int = 10,
    max_rows: int = 700,
) -> MatchResult:
    """Match rows by structure; warn with `BridgeWarning` if it is no better than chance.

    Parameters
    ----------
    X_s, X_t : arrays of shape (n_s, d_s), (n_t, d_t)
        At least two different rows each.
    rng : RandomState
    n_starts : int
        Clusterings matched in each view of the data.
    n_kept : int
        Number of their plans that are refined over rows.
    max_rows : int
        Rows per domain, drawn at random.
    """
    rows_s, rows_t = drawn_rows(X_s, max_rows, rng), drawn_rows(X_t, max_rows, rng)
    views = [
        (SimilarityView.of(X_s[rows_s], *kind), SimilarityView.of(X_t[rows_t], *kind))
        for kind in VIEWS
    ]
    p = np.full(len(rows_s), 1.0 / len(rows_s), dtype=np.float32)
    q = np.full(len(rows_t), 1.0 / len(rows_t), dtype=np.float32)
    cells = [CoarsePair(*view, rng) for view in views]
    plans_of = [_starts(cell, 0.0, n_starts, rng) for cell in cells]
    pairs = zip(cells, plans_of, strict=True)
    accord = np.mean([cell.problem.accord(plan) for cell, plans in pairs for plan in plans])
    mu = _CLEARNESS_WEIGHT if accord >= _LEAST_ACCORD else 0.0
    if mu > 0:
        plans_of = [_starts(cell, mu, n_starts, rng) for cell in cells]
    plans = [
        c.lifted(T) for c, starts in zip(cells, plans_of, strict=True) for T in starts[:n_kept]
    ]
    judges = [MatchingProblem(s.C, t.C, s.F, t.F, p, q, mu) for s, t in views[1:]]
    losses, improved = zip(*(_judged(plan, judges) for plan in plans), strict=True)
    counts = np.exp(-(np.array(losses) - min(losses)) / _LOSS_SCALE)
    counts /= counts.sum()
    mean = np.tensordot(counts, np.array(improved), axes=1)
    agreement = _agreement(improved, len(views), views[-1][1].Y, views[-1][0].F)
    if agreement < LEAST_AGREEMENT:
        warnings.warn(
            "the two domains could not be matched by structure: independent searches agree by only "
            f"{agreement:.2f} (1 is full agreement, below {LEAST_AGREEMENT} is chance). "
            "Cross-domain search will not work with this model; give labels or pairs for some rows",
            BridgeWarning,
            stacklevel=2,
        )
    return MatchResult(sinkhorn(mean, p, q, 2 * _SCALINGS), rows_s, rows_t, min(losses), agreement)


def _starts(cells: CoarsePair, mu: float, n_starts: int, rng: np.random.RandomState) -> list[Array]:
    """Return plans over cells from many starts, the best first."""
    plans = [cells.start(_CLUSTERS[i % len(_CLUSTERS)], mu, rng) for i in range(n_starts)]
    plans.sort(key=lambda pair: pair[0])
    return [plan for _, plan in plans]


def _judged(plan: Array, judges: list[MatchingProblem]) -> tuple[float, Array]:
    """Return the mean loss after some steps in each view, and the plan of the last view."""
    losses = []
    for problem in judges:
        improved = problem.improved(plan, _FINE_STEPS)
        losses.append(problem.loss(improved))
    return float(np.mean(losses)), improved


def _agreement(plans: Sequence[Array], n_views: int, Y_t: Array, F_s: Array) -> float:
    """Return the mean cosine between the partners that plans of different views assign to a row.

    With S_v the sum of the unit partners over the plans of view v, the sum over pairs of plans from
    different views is ‖Σ S_v‖² - Σ ‖S_v‖². Plans of one view are not compared: they may share an
    error of that view.
    """
    per_view = len(plans) // n_views
    sums = [
        np.sum([_places(plan, Y_t, F_s) for plan in plans[i : i + per_view]], axis=0)
        for i in range(0, len(plans), per_view)
    ]
    pairs = float((np.sum(sums, axis=0) ** 2).sum() - sum((S**2).sum() for S in sums))
    return pairs / (len(sums[0]) * (len(plans) ** 2 - n_views * per_view**2))


def _places(plan: Array, Y_t: Array, F_s: Array) -> Array:
    """Return the mean partner of each source row, centred, at unit norm.

    The part explained by clearness alone is removed, because it is the same for all plans.
    """
    places = plan @ Y_t / np.maximum(plan.sum(axis=1, keepdims=True), _TINY)
    places -= places.mean(axis=0)
    places -= F_s @ (F_s.T @ places) / max(float((F_s**2).sum()), _TINY)
    return unit_rows(places)
