"""Bipartite graphs W_st: which target rows each source row is joined with.

Each class is a choice with its parameters. `rule(data)` returns the function of the current
projections that the solver calls in every iteration: it learns the graph, or returns a fixed one.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from numbers import Integral
from typing import Any, ClassVar, Literal, cast

import numpy as np
from scipy.sparse import csr_array, issparse
from sklearn.base import BaseEstimator

from .._core.arrays import array_namespace, like, row_squares, take_rows
from .._core.errors import InputError
from .._core.linalg import Array, unit_rows
from .._core.validation import Flag, OneOf, Range, Rules
from ..models.contents import Contents, Given
from ..models.training import TrainingData
from ..neighbors.graphs import Graph, SparseGraph, from_rows, label_graph, row_shares
from ..neighbors.search import N_PROBE, NProbe, find_neighbors
from .abstaining import TakingPart, taking_part
from .steps import graph_gamma, graph_step, simplex_projection

Rule = Callable[[Array, Array], Graph]


class AdaptiveBipartite(BaseEstimator):
    """The learned graph of the paper: each source row spreads one unit over its nearest targets.

    Parameters
    ----------
    n_neighbors : int, default=10
        η: targets per source row, at most n_target - 1.
    gamma : "row" or "mean", default="row"
        One γ_i per row (Eq. 28), or their mean for all rows (Eq. 29). With the mean, the weights
        are the best ones on the η nearest targets: a row may use fewer of them, and never others.
    metric : "euclidean" or "cosine", default="euclidean"
        Distance between projections. "cosine" compares them at unit norm, because rows of one
        domain may have longer projections than rows of the other.
    both_ways : bool, default=False
        False: each source row chooses targets, as in the paper. True: each target row also chooses
        η sources, so that no target is left out; the sum is scaled to one unit per source row.
    n_probe : int, "auto" or None, default="auto"
        None compares all pairs of rows. A number searches this many cells of an inverted file.
        "auto" compares all pairs up to 2.5e9 of them, and otherwise chooses a number of cells that
        finds 90 % of the nearest targets.
    abstaining : bool, default=False
        True: rows of either domain take no part if the first projections say clearly that the
        other domain has none like them, see `ath.abstaining`. Their degree is zero. If that is not
        clear, all rows take part.
    """

    for_any_rows = True
    _rules: ClassVar[Rules] = {
        "n_neighbors": Range(1, kind=Integral),
        "gamma": OneOf(("row", "mean")),
        "metric": OneOf(("euclidean", "cosine")),
        "both_ways": Flag(),
        "abstaining": Flag(),
        "n_probe": N_PROBE,
    }

    def __init__(
        self,
        n_neighbors: int = 10,
        gamma: Literal["row", "mean"] = "row",
        metric: Literal["euclidean", "cosine"] = "euclidean",
        both_ways: bool = False,
        n_probe: NProbe = "auto",
        abstaining: bool = False,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.gamma = gamma
        self.metric = metric
        self.both_ways = both_ways
        self.n_probe = n_probe
        self.abstaining = abstaining

    def rule(self, data: TrainingData) -> Rule:
        """Return the W-step; labels are ignored.

        The first projections decide which rows abstain.
        """
        if not self.abstaining:
            return self._learn
        decided: list[TakingPart] = []

        def learn(H_s: Array, H_t: Array) -> Graph:
            if not decided:
                decided.append(taking_part(H_s, H_t))
            return self._learn(H_s, H_t, None if decided[0].all else decided[0])

        return learn

    def _learn(self, H_s: Array, H_t: Array, part: TakingPart | None = None) -> Graph:
        if self.metric == "cosine":
            H_s, H_t = unit_rows(H_s), unit_rows(H_t)
        W, penalty = self._choices(H_s, H_t, part)
        if self.both_ways:
            back = None if part is None else TakingPart(part.target, part.source)
            W = row_shares(W, self._choices(H_t, H_s, back)[0])
        if self.both_ways or self.metric != "euclidean":
            penalty = 0.0  # W is not the minimiser of Eq. 6, so its γ has no place in the objective
        degrees = array_namespace(H_s).ones_like(H_s[:, 0])
        if part is not None:
            degrees = like(part.source, H_s, H_s.dtype)
        return SparseGraph(W, degrees=degrees, penalty=penalty)

    def _choices(self, H_s: Array, H_t: Array, part: TakingPart | None = None) -> tuple[Any, float]:
        """Return the weights of the nearest targets of each source row, and Σ γ_i ‖w_i‖² / λ."""
        xp, n_t = array_namespace(H_t), H_t.shape[0]
        candidates = None if part is None else np.flatnonzero(part.target)
        if candidates is not None:
            H_t = take_rows(H_t, candidates)
        eta = min(self.n_neighbors, H_t.shape[0] - 1)
        F, columns = find_neighbors(H_s, H_t, eta + 1, self.n_probe)
        gamma = graph_gamma(F)
        if self.gamma == "mean":
            gamma = xp.full_like(gamma, float(xp.mean(gamma)))
            weights = _spread(F[:, :eta], float(gamma[0]))
        else:
            weights = graph_step(F)
        if part is not None and candidates is not None:
            weights = like(part.source, weights, weights.dtype)[:, None] * weights
            columns = like(candidates, columns)[columns]
        penalty = float(xp.sum(gamma * xp.sum(weights**2, axis=1)))
        return from_rows(weights, columns[:, :eta], n_t), penalty


class AuthorsBipartite(BaseEstimator):
    """The learned graph as in the script `ATH_U.m` of the authors.

    It differs from the paper: the nearest target of a source row is left out (ranks 2 to η + 1);
    one γ for all rows, the mean of Eq. 29 at the start; and the targets of a row stay those of the
    start for some iterations, while their weights follow the current distances.

    Parameters
    ----------
    n_neighbors : int, default=10
        η: targets per source row.
    frozen : int, default=5
        Iterations that keep the targets of the start.
    n_probe : int, "auto" or None, default="auto"
        As in `AdaptiveBipartite`.
    """

    _rules: ClassVar[Rules] = {
        "n_neighbors": Range(1, kind=Integral),
        "frozen": Range(0, kind=Integral),
        "n_probe": N_PROBE,
    }

    def __init__(self, n_neighbors: int = 10, frozen: int = 5, n_probe: NProbe = "auto") -> None:
        self.n_neighbors = n_neighbors
        self.frozen = frozen
        self.n_probe = n_probe

    def rule(self, data: TrainingData) -> Rule:
        """Return the W-step of one fit, which counts its iterations."""
        rounds = count()
        gamma = 0.0
        columns: Any = None

        def learn(H_s: Array, H_t: Array) -> Graph:
            nonlocal gamma, columns
            iteration, n_t = next(rounds), H_t.shape[0]
            if iteration == 0 or iteration >= self.frozen:
                eta = max(1, min(self.n_neighbors, n_t - 2))
                F, ranked = find_neighbors(H_s, H_t, min(eta + 2, n_t), self.n_probe)
                columns = ranked[:, 1 : eta + 1]
                if iteration == 0:
                    gamma = float(array_namespace(F).mean(graph_gamma(F[:, 1:])))
            return _joined(H_s, H_t, columns, gamma)

        return learn


def _joined(H_s: Array, H_t: Array, columns: Any, gamma: float) -> Graph:
    """Join source rows with given targets, with the weights that one γ gives to the distances."""
    xp = array_namespace(H_s)
    targets = (take_rows(H_t, columns[:, j]) for j in range(columns.shape[1]))
    F = xp.stack([row_squares(H_s - H) for H in targets], axis=1)
    weights = _spread(F, gamma)
    W = from_rows(weights, columns, H_t.shape[0])
    penalty = gamma * float(xp.sum(weights**2))
    return SparseGraph(W, degrees=xp.ones_like(F[:, 0]), penalty=penalty)


def _spread(F: Array, gamma: float) -> Array:
    """Return the weights of Eq. 20 for γ / λ and the distances to some targets."""
    xp = array_namespace(F)
    beyond = F - xp.min(F, axis=1, keepdims=True)  # does not change the projection
    width = max(2.0 * gamma, float(xp.finfo(F.dtype).smallest_normal))
    return simplex_projection(-beyond / width)


class LabelBipartite(BaseEstimator):
    """The semantic graph of the supervised variants: weight one inside a class (Eq. 12)."""

    needs_labels = True

    def rule(self, data: TrainingData) -> Rule:
        """Always return the graph of the labels."""
        if data.y_source is None or data.y_target is None:
            missing = "y_source" if data.y_source is None else "y_target"
            raise InputError("missing; bipartite='labels' needs it", missing)
        W = label_graph(data.y_source, data.y_target)
        return lambda H_s, H_t: W


class PairBipartite(BaseEstimator):
    """The graph of known pairs: weight one between rows that show the same thing."""

    needs_pairs = True

    def rule(self, data: TrainingData) -> Rule:
        """Always return the graph of the pairs; a pair given twice counts twice."""
        if data.pairs is None:
            raise InputError("missing; bipartite='pairs' needs it", "pairs")
        shape = (data.X_source.shape[0], data.X_target.shape[0])
        ones = np.ones(len(data.pairs))
        return GivenBipartite(csr_array((ones, tuple(data.pairs.T)), shape=shape)).rule(data)


class GivenBipartite(BaseEstimator):
    """A fixed graph given by the user: pairs, memberships, a match of another method.

    Parameters
    ----------
    W : sparse or dense array of shape (n_source, n_target), or a Graph
        Non-negative weights.
    """

    _contents: ClassVar[Contents] = {"W": Given("n_source n_target")}

    def __init__(self, W: Any) -> None:
        self.W = W

    def rule(self, data: TrainingData) -> Rule:
        """Always return the given graph."""
        W = as_graph(self.W, (data.X_source.shape[0], data.X_target.shape[0]))
        return lambda H_s, H_t: W


def as_graph(W: Any, shape: tuple[int, int]) -> Graph:
    """Return a graph, a sparse matrix or a dense array as a graph of the given shape."""
    if issparse(W) or isinstance(W, np.ndarray):
        matrix: csr_array = csr_array(cast(Any, W))
        if not np.isfinite(matrix.data).all() or matrix.data.min(initial=0.0) < 0:
            raise InputError("weights must be finite and non-negative", "W")
        W = SparseGraph(matrix)
    if W.shape != shape:
        raise InputError(f"shape {W.shape}; {shape} is needed", "W")
    return W
