"""Match the rows of two domains by structure alone: no labels, no pairs, no common features.

Features of two models cannot be compared, but similarities inside each domain can, and to a lesser
degree the clearness of single rows. A plan T ≥ 0 assigns the rows of one domain to those of the
other so that similar rows get similar partners and clear rows get clear partners. It minimises a
fused Gromov-Wasserstein loss,
Σ (C_s[i, j] - C_t[k, l])² T[i, k] T[j, l] - 2μ Σ f_s[i] f_t[k] T[i, k] plus a constant.

The loss has many local minima, and the measure of similarity decides how many. The search therefore
uses several views of the data. In each it matches clusters by quadratic assignment and refines the
plan over small cells, then over rows. Losses of different views are comparable, because only ranks
of similarities count. So the view with the lowest loss, in which the domains are most alike, judges
all plans. They are refined in rounds that halve their number. The result is the mean of the last
ones, weighted by their loss; plans that contradict the best one are left out, because the mean of
two solutions is none.
Clearness is used only if plans found by structure alone agree with it. The agreement of the plans
estimates the quality of the match without labels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import quadratic_assignment
from scipy.sparse import csr_array
from scipy.sparse.csgraph import shortest_path
from scipy.special import ndtri
from scipy.stats import rankdata, skew

from .._core.linalg import Array, drawn_clusters, pca, sinkhorn, unit_rows
from ..models.feature_maps import drawn_rows
from ..neighbors.graphs import one_hot
from ..neighbors.search import nearest_others

_COMPONENTS = 16  # of the evened view
_MOST_NEIGHBORS, _NEIGHBOR_SHARE = 50, 0.2  # of geodesics: fewer give paths through single rows
_CLUSTERS = (6, 8, 10, 12, 16)
_CELLS = 150
_COARSE_STEPS, _COARSE_SIZE = 15, 0.05  # sizes in units of the standardised similarities
_ROUNDS = (10, 20, 40)  # steps over rows; half of the plans enter the next round
_FINE_SIZE = 0.5  # sharper steps over rows miss the sums of the plan and end in worse minima
_SCALINGS = 12
_ASSIGNMENTS = 4
_SOFT = 1e-2  # weight of pairs outside matched clusters
_LOSS_SCALE = 6e-3  # a loss higher by this has weight 1/e
_CLEARNESS_WEIGHT = 0.3  # weight of clearness, if it is used
_CLEARNESS_NEIGHBORS = 10
_TINY = 1e-30
LEAST_AGREEMENT = 0.2


Measured = tuple[
    Array, Array
]  # coordinates (n, d) in which rows are clustered; similarities (n, n)


def centred_cosines(X: Array) -> Measured:
    """Cosines about the mean of the unit rows: by which features a row differs from the others."""
    Y = unit_rows(_centred(unit_rows(X)))
    return Y, Y @ Y.T


def plain_cosines(X: Array) -> Measured:
    """Cosines as they are. Unlike centred ones they say which rows are far from all others."""
    U = unit_rows(X)
    return unit_rows(_centred(U)), U @ U.T


def evened_cosines(X: Array) -> Measured:
    """Cosines in leading components, each divided by the square root of its deviation."""
    U = _centred(unit_rows(X))
    V = U @ pca(U, _COMPONENTS)
    Y = unit_rows(V / np.sqrt(np.maximum(np.linalg.norm(V, axis=0), _TINY)))
    return Y, Y @ Y.T


def geodesics(X: Array) -> Measured:
    """Minus the number of steps between rows on the graph of nearest neighbours.

    For few columns that form a curved band, such as stages of a process. The length of a row
    counts, which among few columns tells as much as its direction.

    >>> geodesics(np.array([[0.0], [1.0], [2.1], [3.3]]))[1]  # a chain
    array([[-0., -1., -2., -3.],
           [-1., -0., -1., -2.],
           [-2., -1., -0., -1.],
           [-3., -2., -1., -0.]], dtype=float32)
    """
    n = len(X)
    n_neighbors = min(max(round(_NEIGHBOR_SHARE * n), 1), _MOST_NEIGHBORS)
    X = _centred(X)
    near = nearest_others(X, n_neighbors)[1]
    ends = np.repeat(np.arange(n), n_neighbors), near.ravel()
    edges = csr_array((np.ones(near.size), ends), shape=(n, n))
    steps = shortest_path(edges, directed=False, unweighted=True)
    apart = np.isinf(steps)
    steps[apart] = steps[~apart].max() + 1.0  # farther than any path is long
    return unit_rows(X), -steps.astype(np.float32)


def _centred(X: Array) -> Array:
    return X - X.mean(axis=0)


VIEWS: tuple[Callable[[Array], Measured], ...] = (
    centred_cosines,
    plain_cosines,
    evened_cosines,
    geodesics,
)


@dataclass(frozen=True)
class SimilarityView:
    """Rows of a domain in some coordinates, and their similarities."""

    Y: Array  # (n, d) unit rows
    C: Array  # (n, n) ranked similarities of mean zero and deviation one
    F: Array  # (n, m) clearness of single rows

    @classmethod
    def of(cls, X: Array, measure: Callable[[Array], Measured]) -> SimilarityView:
        """Build the view of a measure of similarity."""
        Y, G = measure(X)
        C = normal_scores(G.astype(np.float32))
        C = (C - C.mean()) / max(C.std(), _TINY)  # ties have made them smaller
        return cls(Y.astype(np.float32), C, clearness(X))


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
        if self._size <= _TINY:  # all rows are equally similar
            return 1.0
        kept = float(np.vdot(self.C_s @ T, T @ self.C_t)) + self.mu * self.accord(T)
        return 1.0 - 2.0 * kept / self._size

    def accord(self, T: Array) -> float:
        """Return the correlation of the clearness of partners: 1 if equal, 0 by chance."""
        return float(np.vdot(self.F_s, T @ self.F_t))

    def improved(self, T: Array, n_steps: int, size: float) -> Array:
        """Return the plan after proximal steps T ← T exp(-gradient / size), scaled to p and q."""
        clear = self.F_s @ self.F_t.T * (self.mu / size)
        for _ in range(n_steps):
            gain = self.C_s @ T @ self.C_t * (2.0 / size) + clear
            logs = gain + np.log(np.maximum(T, _TINY))
            T = sinkhorn(np.exp(logs - logs.max(axis=1, keepdims=True)), self.p, self.q, _SCALINGS)
        return sinkhorn(T, self.p, self.q, 2 * _SCALINGS)

    def refined(self, T: Array, n_steps: int) -> tuple[float, Array]:
        """Return the loss and the plan after steps over rows.

        Scaling ends before the sums are exact, and errors in them would look like a better or worse
        loss. So the loss is that of the plan with exact sums.
        """
        T = self.improved(T, n_steps, _FINE_SIZE)
        return self.loss(with_exact_sums(T, self.p, self.q)), T


def with_exact_sums(T: Array, p: Array, q: Array) -> Array:
    """Lower rows and columns to the sums p and q; fill up those below with the mass that is left.

    >>> with_exact_sums(np.array([[0.6, 0.0], [0.1, 0.3]]), np.full(2, 0.5), np.full(2, 0.5))
    array([[0.41666667, 0.08333333],
           [0.08333333, 0.41666667]])
    """
    T = T * np.minimum(p / np.maximum(T.sum(axis=1), _TINY), 1.0)[:, None]
    T = T * np.minimum(q / np.maximum(T.sum(axis=0), _TINY), 1.0)
    left_s = np.maximum(p - T.sum(axis=1), 0.0)  # rounding can make them negative
    left_t = np.maximum(q - T.sum(axis=0), 0.0)
    exact: Array = T + np.outer(left_s, left_t) / max(float(left_s.sum()), _TINY)
    return exact


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
        plan = problem.improved(plan, _COARSE_STEPS, _COARSE_SIZE)
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
    """Match rows by structure.

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
        (SimilarityView.of(X_s[rows_s], measure), SimilarityView.of(X_t[rows_t], measure))
        for measure in VIEWS
    ]
    p = np.full(len(rows_s), 1.0 / len(rows_s), dtype=np.float32)
    q = np.full(len(rows_t), 1.0 / len(rows_t), dtype=np.float32)
    cells = [CoarsePair(*view, rng) for view in views]
    plans_of = [_starts(cell, 0.0, n_starts, rng) for cell in cells]
    pairs = zip(cells, plans_of, strict=True)
    accord = np.mean([cell.problem.accord(plan) for cell, plans in pairs for plan in plans])
    mu = _CLEARNESS_WEIGHT if accord >= _least_accord(min(len(p), len(q))) else 0.0
    if mu > 0:
        plans_of = [_starts(cell, mu, n_starts, rng) for cell in cells]
    plans = [
        [cell.lifted(T) for T in starts[:n_kept]]
        for cell, starts in zip(cells, plans_of, strict=True)
    ]
    problems = [MatchingProblem(s.C, t.C, s.F, t.F, p, q, mu) for s, t in views]
    lowest = [
        min(problem.refined(T, _ROUNDS[0])[0] for T in found)
        for problem, found in zip(problems, plans, strict=True)
    ]
    best = int(np.argmin(lowest))
    Y_t, F_s = views[best][1].Y, views[best][0].F
    refined = [problems[best].refined(T, _ROUNDS[0]) for found in plans for T in found]
    agreement = _agreement(refined, len(views), Y_t, F_s)
    refined = _finalists(refined, problems[best])
    plan = sinkhorn(mean_of_one_solution(refined, Y_t, F_s), p, q, 2 * _SCALINGS)
    return MatchResult(plan, rows_s, rows_t, refined[0][0], agreement)


def _starts(cells: CoarsePair, mu: float, n_starts: int, rng: np.random.RandomState) -> list[Array]:
    """Return plans over cells from many starts, the best first."""
    plans = [cells.start(_CLUSTERS[i % len(_CLUSTERS)], mu, rng) for i in range(n_starts)]
    plans.sort(key=lambda pair: pair[0])
    return [plan for _, plan in plans]


def _least_accord(n: int) -> float:
    """Return the accord from which clearness is used: one standard error of a chance correlation.

    Clearness is a mean over a row and its neighbours, so n rows have fewer independent values.
    """
    return float(np.sqrt((1.0 + _CLEARNESS_NEIGHBORS) / n))


def _finalists(
    refined: list[tuple[float, Array]], judge: MatchingProblem
) -> list[tuple[float, Array]]:
    """Refine the better half of the plans again and again; return the last ones, the best first."""
    for n_steps in _ROUNDS[1:]:
        refined.sort(key=lambda pair: pair[0])
        refined = [judge.refined(T, n_steps) for _, T in refined[: (len(refined) + 1) // 2]]
    return sorted(refined, key=lambda pair: pair[0])


def mean_of_one_solution(refined: list[tuple[float, Array]], Y_t: Array, F_s: Array) -> Array:
    """Return the mean of the plans that agree with the first one, the best, weighted by loss."""
    wanted = _places(refined[0][1], Y_t, F_s)
    alike = [
        (loss, T)
        for loss, T in refined
        if np.vdot(_places(T, Y_t, F_s), wanted) / len(wanted) >= LEAST_AGREEMENT
    ] or refined[:1]
    weights = np.exp([(refined[0][0] - loss) / _LOSS_SCALE for loss, _ in alike])
    mean: Array = np.tensordot(weights / weights.sum(), np.array([T for _, T in alike]), axes=1)
    return mean


def _agreement(refined: list[tuple[float, Array]], n_views: int, Y_t: Array, F_s: Array) -> float:
    """Return the mean cosine between the partners that plans of different views assign to a row.

    Only the better half of the plans of each view counts. With S_v the sum of their unit partners,
    the sum over pairs of plans from different views is ‖Σ S_v‖² - Σ ‖S_v‖². Plans of one view are
    not compared: they may share an error of that view.
    """
    per_view = len(refined) // n_views
    half = (per_view + 1) // 2
    sums = []
    for first in range(0, len(refined), per_view):
        found = sorted(refined[first : first + per_view], key=lambda pair: pair[0])
        sums.append(np.sum([_places(T, Y_t, F_s) for _, T in found[:half]], axis=0))
    pairs = float((np.sum(sums, axis=0) ** 2).sum() - sum((S**2).sum() for S in sums))
    return pairs / (len(sums[0]) * half**2 * n_views * (n_views - 1))


def _places(plan: Array, Y_t: Array, F_s: Array) -> Array:
    """Return the mean partner of each source row, centred, at unit norm.

    The part explained by clearness alone is removed, because it is the same for all plans.
    """
    places = plan @ Y_t / np.maximum(plan.sum(axis=1, keepdims=True), _TINY)
    places -= places.mean(axis=0)
    places -= F_s @ (F_s.T @ places) / max(float((F_s**2).sum()), _TINY)
    return unit_rows(places)
