"""Match the rows of two domains by structure alone: no labels, no pairs, no common features.

Features of two models cannot be compared, but the similarities between groups of rows can, and so
can the clearness of a group: how peaked its rows are. Both domains are clustered, and the clusters
are matched by quadratic assignment, so that similar clusters get similar partners and clear
clusters get clear partners.

Clusters of the two domains need not correspond: one clustering splits a class that the other one
keeps. So this is done for many clusterings of different sizes, found and compared in several ways.
The result is the mean of their plans. Plans that contradict the others get little weight, because
errors differ from clustering to clustering and the true match does not. The agreement of the plans
estimates the quality of the match without labels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.optimize import quadratic_assignment
from scipy.sparse import csr_array
from scipy.sparse.csgraph import shortest_path
from scipy.special import ndtri
from scipy.stats import kurtosis, rankdata

from .._core.linalg import Array, drawn_clusters, pca, sinkhorn, unit_rows
from ..models.feature_maps import drawn_rows
from ..neighbors.graphs import one_hot
from ..neighbors.search import nearest_others
from .spreading import neighbour_graph

_COMPONENTS = 16  # of rows that are clustered
_MOST_NEIGHBORS, _NEIGHBOR_SHARE = 50, 0.2  # of geodesics: fewer give paths through single rows
_CLUSTERS = tuple(range(6, 17))
_CLUSTERINGS = 4  # tries of k-means, of which the best counts
_ASSIGNMENTS = 10
_CLEARNESS_WEIGHT = 1.0  # a cluster counts as much as a pair of clusters, if clearness is used
_NEIGHBORS = 10  # of means over neighbours, and of the graph that is clustered
_TRIAL_SHARE = 1 / 4  # plans that decide whether clearness is used
_CONTRAST = 4  # power of the weights of plans
_SHARPNESS = 2  # power of the mean plan
_WEIGHT_STEPS = 5
_SCALINGS = 50
_TINY = 1e-30


def roots(X: Array) -> Array:
    """Return square roots of the entries if none is negative, as in activations of a network.

    Few large entries then do not decide alone how similar two rows are. Other rows are returned as
    they are.
    """
    return np.sqrt(X) if X.min() >= 0.0 else X


def plain_cosines(X: Array) -> Array:
    """Cosines of `roots`, not centred. They also say which rows are far from all others."""
    U = unit_rows(roots(X))
    return U @ U.T


def geodesics(X: Array) -> Array:
    """Minus the number of steps between rows on the graph of nearest neighbours.

    For few columns that form a curved band, such as stages of a process. The length of a row
    counts, which among few columns tells as much as its direction.

    >>> geodesics(np.array([[0.0], [1.0], [2.1], [3.3]]))  # a chain
    array([[-0., -1., -2., -3.],
           [-1., -0., -1., -2.],
           [-2., -1., -0., -1.],
           [-3., -2., -1., -0.]])
    """
    n = len(X)
    n_neighbors = min(max(round(_NEIGHBOR_SHARE * n), 1), _MOST_NEIGHBORS)
    near = nearest_others(X - X.mean(axis=0), n_neighbors)[1]
    ends = np.repeat(np.arange(n), n_neighbors), near.ravel()
    edges = csr_array((np.ones(near.size), ends), shape=(n, n))
    steps: Array = shortest_path(edges, directed=False, unweighted=True)
    apart = np.isinf(steps)
    steps[apart] = steps[~apart].max() + 1.0  # farther than any path is long
    return -steps


VIEWS: tuple[Callable[[Array], Array], ...] = (plain_cosines, geodesics)


def normal_scores(G: Array) -> Array:
    """Replace similarities by normal quantiles of their ranks; the diagonal is zero.

    Only the order counts then, so differences in scale between two models disappear.

    >>> normal_scores(np.array([[1.0, 0.2, 0.1], [0.2, 1.0, 0.9], [0.1, 0.9, 1.0]])).round(2)
    array([[ 0.  ,  0.  , -0.97],
           [ 0.  ,  0.  ,  0.97],
           [-0.97,  0.97,  0.  ]])
    """
    upper = np.triu_indices(len(G), 1)
    C = np.zeros_like(G)
    C[upper] = ndtri((rankdata(G[upper]) - 0.5) / len(upper[0]))
    return C + C.T


def smooth_rows(X: Array) -> Array:
    """Return leading components, averaged over each row and its nearest neighbours, as unit rows.

    Each component is divided by the square root of its deviation. The mean moves single rows that
    lie between classes to a class, so that they form no cluster of their own.
    """
    U = _centred(X)
    V = U @ pca(U, _COMPONENTS)
    even = unit_rows(V / np.sqrt(np.maximum(np.linalg.norm(V, axis=0), _TINY)))
    near = nearest_others(unit_rows(U), min(_NEIGHBORS, len(U) - 1))[1]
    return unit_rows(even + even[near].sum(axis=1))


def graph_components(X: Array) -> Array:
    """Return eigenvectors of the normalised graph of nearest neighbours, largest values first.

    The first one, which is a function of the degrees, is left out.
    """
    n = len(X)
    S = neighbour_graph(unit_rows(_centred(roots(X))), _NEIGHBORS).toarray()
    leading = (max(n - 1 - max(_CLUSTERS), 0), n - 2)
    vectors: Array = eigh(S, subset_by_index=leading)[1]
    return vectors[:, ::-1]


def _centred(X: Array) -> Array:
    U = unit_rows(X)
    centred: Array = U - U.mean(axis=0)
    return centred


def clearness(X: Array) -> Array:
    """Return how peaked each row is, shape (n,): a property that is comparable across spaces.

    It is the kurtosis of the entries, averaged over the row and its nearest neighbours, as normal
    scores. Different networks find the same pictures clear: few strong entries, many weak ones. It
    has no meaning for rotated features.
    """
    unit = unit_rows(X)
    near = nearest_others(unit - unit.mean(axis=0), min(_NEIGHBORS, len(X) - 1))[1]
    varied = np.ptp(unit, axis=1) > 1e-6  # a row of equal entries has no peak
    peaks = np.zeros(len(unit))
    peaks[varied] = kurtosis(unit[varied], axis=1)
    ranks = rankdata((peaks + peaks[near].sum(axis=1)) / (1.0 + near.shape[1]))
    scores: Array = ndtri((ranks - 0.5) / len(X))
    return scores


class Way(NamedTuple):
    """How clusters are found and compared. Ways have different errors."""

    by_graph: bool  # spectral clustering, else k-means of smooth rows
    n_views: int  # the first views count


WAYS = tuple(Way(by_graph, n) for n in (1, len(VIEWS)) for by_graph in (False, True))


@dataclass(frozen=True)
class MatchedDomain:
    """What is compared: similarities of rows in several views, and clearness."""

    Y: Array  # (n, d) rows to be clustered
    E: Array  # (n, most clusters) components of the graph, to be clustered too
    views: tuple[Array, ...]  # (n, n) normal scores of similarities
    f: Array  # (n,) clearness

    @classmethod
    def of(cls, X: Array) -> MatchedDomain:
        """Measure the rows of a domain."""
        views = tuple(normal_scores(measure(X).astype(np.float32)) for measure in VIEWS)
        Y, E = (rows(X).astype(np.float32) for rows in (smooth_rows, graph_components))
        return cls(Y, E, views, clearness(X))

    def clustered(self, k: int, way: Way, rng: np.random.RandomState) -> Array:
        """Return memberships of rows in k clusters, one-hot, shape (n, k)."""
        Y = unit_rows(self.E[:, :k]) if way.by_graph else self.Y
        labels = drawn_clusters(Y, min(k, len(Y)), rng, n_init=_CLUSTERINGS)
        return one_hot(labels, k).toarray().astype(np.float32)

    def relations(self, M: Array, way: Way, weight: float) -> Array:
        """Return what is known of clusters, shape (k, k): how they relate, and their clearness.

        Off the diagonal are similarities between clusters, the mean over views, each with mean
        zero and deviation one. How tight clusters are is left out: it differs between models. On
        the diagonal is clearness, whose square counts `weight` times that of a pair.
        """
        sizes = np.maximum(M.sum(axis=0), 1.0)
        pairs = ~np.eye(len(sizes), dtype=bool)
        means = [(M.T @ C @ M / np.outer(sizes, sizes))[pairs] for C in self.views[: way.n_views]]
        A = np.zeros(pairs.shape)
        A[pairs] = _standard(np.mean([_standard(values) for values in means], axis=0))
        np.fill_diagonal(A, np.sqrt(2.0 * weight) * _standard(self.f @ M / sizes))
        return A


def _standard(values: Array) -> Array:
    return (values - values.mean()) / max(float(values.std()), _TINY)


def best_assignment(
    A: Array, B: Array, rng: np.random.RandomState
) -> tuple[float, NDArray[np.intp]]:
    """Return the largest Σ A ∘ B[o][:, o] that was found, and its order o."""
    best, order = -np.inf, np.arange(len(A))
    for _ in range(_ASSIGNMENTS):
        drawn = np.random.default_rng(rng.randint(2**31 - 1))
        first: Any = {"maximize": True, "P0": "randomized", "rng": drawn}
        start = quadratic_assignment(A, B, "faq", first).col_ind
        last: Any = {"maximize": True, "partial_guess": np.column_stack([np.arange(len(A)), start])}
        result = quadratic_assignment(A, B, "2opt", last | {"rng": drawn})
        if result.fun > best:
            best, order = result.fun, result.col_ind
    return best, order


@dataclass(frozen=True)
class ClusterPlan:
    """A plan P Qᵀ between rows that joins matched clusters; it sums to one."""

    P: Array  # (n_s, k)
    Q: Array  # (n_t, k)
    quality: float  # correlation of the relations of matched clusters


def matched_clusters(
    source: MatchedDomain,
    target: MatchedDomain,
    k: int,
    way: Way,
    weight: float,
    rng: np.random.RandomState,
) -> ClusterPlan:
    """Cluster both domains and match the clusters."""
    M_s, M_t = source.clustered(k, way, rng), target.clustered(k, way, rng)
    A, B = source.relations(M_s, way, weight), target.relations(M_t, way, weight)
    kept, order = best_assignment(A, B, rng)
    M_t = M_t[:, order]
    size = max(float(np.linalg.norm(A) * np.linalg.norm(B)), _TINY)
    masses = np.sqrt(M_s.sum(axis=0) * M_t.sum(axis=0))
    scale = 1.0 / np.sqrt(np.maximum(masses, 1.0) * max(masses.sum(), _TINY))
    return ClusterPlan(M_s * scale, M_t * scale, max(kept / size, 0.0))


class Consensus:
    """What many plans have in common.

    Plans are compared without building them: ⟨P Qᵀ, P' Q'ᵀ⟩ is the sum of PᵀP' ∘ QᵀQ'. Less the
    same for a plan that joins all rows, and divided by the norms, it is a correlation: 1 for equal
    plans, 0 for unrelated ones.
    """

    def __init__(self, plans: list[ClusterPlan]) -> None:
        self._plans = plans
        P, Q = (np.hstack([getattr(plan, side) for plan in plans]) for side in "PQ")
        first = np.cumsum([0, *(plan.P.shape[1] for plan in plans[:-1])])
        products = (P.T @ P) * (Q.T @ Q)
        K = np.add.reduceat(np.add.reduceat(products, first, axis=0), first, axis=1)
        K = K.astype(float) - 1.0 / (len(P) * len(Q))
        norms = np.sqrt(np.maximum(K.diagonal(), _TINY))
        self.correlations: Array = K / np.outer(norms, norms)

    @property
    def agreement(self) -> float:
        """Return how far plans agree with each other, and matched clusters in their relations.

        It is the root of the mean correlation of two plans, times the mean share of the relations
        that is explained. Plans of noise do not agree. Plans of domains that are unlike can agree,
        but explain little.
        """
        n = len(self._plans)
        alike = (self.correlations.sum() - np.trace(self.correlations)) / max(n * (n - 1), 1)
        explained = np.mean([plan.quality**2 for plan in self._plans])
        return float(np.sqrt(max(alike, 0.0)) * explained)

    def weights(self) -> Array:
        """Return the weights of plans: larger for good ones that agree with the weighted mean."""
        quality = np.array([plan.quality for plan in self._plans]) ** 2
        support: Array = np.ones(len(quality))
        for _ in range(_WEIGHT_STEPS + 1):
            w = (quality * support) ** _CONTRAST
            w = w / w.sum() if w.sum() > 0 else np.full(len(w), 1.0 / len(w))
            support = np.maximum(self.correlations @ w, 0.0)
        return w

    def plan(self) -> Array:
        """Return the weighted mean of the plans, shape (n_s, n_t)."""
        P = np.hstack([w * plan.P for w, plan in zip(self.weights(), self._plans, strict=True)])
        mean: Array = P @ np.hstack([plan.Q for plan in self._plans]).T
        return mean


def kept_similarity(source: MatchedDomain, target: MatchedDomain, plan: Array) -> float:
    """Return the correlation of similarities of rows with those of their partners: mean of views.

    >>> domain = MatchedDomain.of(np.random.RandomState(0).normal(size=(30, 5)))
    >>> round(kept_similarity(domain, domain, np.eye(30)), 6)
    1.0
    """
    p, q = plan.sum(axis=1), plan.sum(axis=0)
    kept = []
    for C, D in zip(source.views, target.views, strict=True):
        size = np.sqrt((p @ C**2 @ p) * (q @ D**2 @ q))
        kept.append(float(np.sum((plan.T @ C @ plan) * D) / max(float(size), _TINY)))
    return float(np.mean(kept))


@dataclass(frozen=True)
class MatchResult:
    """A plan between rows of two domains, and the agreement of independent searches."""

    plan: Array  # (m_s, m_t) sums to one
    rows_s: NDArray[np.intp]  # (m_s,) source rows used
    rows_t: NDArray[np.intp]
    agreement: float  # of plans from different clusterings; 1 is full agreement, near 0 is chance


def match(
    X_s: Array,
    X_t: Array,
    rng: np.random.RandomState,
    *,
    n_starts: int = 88,
    max_rows: int = 1200,
    progress: Callable[[float], None] | None = None,
) -> MatchResult:
    """Match rows by structure.

    Parameters
    ----------
    X_s, X_t : arrays of shape (n_s, d_s), (n_t, d_t)
        At least two different rows each.
    rng : RandomState
    n_starts : int
        Clusterings that are matched.
    max_rows : int
        Rows per domain, drawn at random.
    progress : callable, optional
        Called with the share of the work that is done, from 0 to 1.

    Returns
    -------
    result : MatchResult
    """
    report = progress or (lambda share: None)
    report(0.0)
    rows_s, rows_t = drawn_rows(X_s, max_rows, rng), drawn_rows(X_t, max_rows, rng)
    source = MatchedDomain.of(X_s[rows_s])
    target = MatchedDomain.of(X_t[rows_t])
    n_trials = max(round(_TRIAL_SHARE * n_starts), 1)

    def plans(n: int, weight: float, done: int) -> Consensus:
        found = []
        for i in range(n):
            k = _CLUSTERS[i % len(_CLUSTERS)]
            way = WAYS[i % len(WAYS)]
            found.append(matched_clusters(source, target, k, way, weight, rng))
            report((done + i + 1) / (n_trials + n_starts))
        return Consensus(found)

    trial = plans(n_trials, 0.0, 0).plan()
    accord = float(source.f @ trial @ target.f)
    error = _standard_error(min(trial.shape))
    clear = not -2.0 * error < accord < error
    consensus = plans(n_starts, _CLEARNESS_WEIGHT if clear else 0.0, n_trials)
    mean = consensus.plan()
    if accord <= -2.0 * error:  # relations and clearness contradict each other: which one is right?
        other = plans(n_starts, 0.0, n_trials)
        if kept_similarity(source, target, other.plan()) > kept_similarity(source, target, mean):
            consensus, mean = other, other.plan()
    sharp = (mean / mean.max()) ** _SHARPNESS + 1e-9
    p, q = (np.full(n, 1.0 / n) for n in mean.shape)
    return MatchResult(sinkhorn(sharp, p, q, _SCALINGS), rows_s, rows_t, consensus.agreement)


def _standard_error(n: int) -> float:
    """Return that of the correlation of clearness between unrelated rows.

    Clearness is a mean over a row and its neighbours, so n rows have fewer independent values.
    """
    return float(np.sqrt((1.0 + _NEIGHBORS) / n))
