"""Bipartite graphs W_st: how the rows of the source know those of the target.

Each class is a choice with its parameters. `rule(y_source, y_target)` gives the function of the
current projections that the solver calls: learned anew each time, or always the same graph.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral
from typing import Any, ClassVar, Literal, cast

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse
from sklearn.base import BaseEstimator

from .._validation import OneOf, Range, Rules
from .._xp import array_namespace
from ..base import TrainingData
from ..graphs import Graph, SparseGraph, label_graph
from ..linalg import Array
from ..near import N_PROBE, NProbe, near
from ..sparse import from_rows
from .steps import graph_gamma, graph_step, simplex_projection

Rule = Callable[[Array, Array], Graph]
Labels = NDArray[np.intp] | None


class AdaptiveBipartite(BaseEstimator):
    """The learned graph of the paper: each source row shares one unit over its nearest targets.

    Parameters
    ----------
    n_neighbors : int, default=10
        η: targets kept per source row; lowered to n_target - 1 where there are fewer.
    gamma : "row" or "mean", default="row"
        One γ_i per row (Eq. 28), or their mean for all (Eq. 29). With the mean a row may spread
        over fewer than η targets; it never spreads over more.
    n_probe : int, "auto" or None, default="auto"
        None searches all targets, a number so many cells of an inverted file over their
        projections; "auto" does the first up to 2.5e9 pairs of rows and finds a number for 90 % of
        the nearest targets beyond (`bridgehash.near`).
    """

    _rules: ClassVar[Rules] = {
        "n_neighbors": Range(1, kind=Integral),
        "gamma": OneOf(("row", "mean")),
        "n_probe": N_PROBE,
    }

    def __init__(
        self,
        n_neighbors: int = 10,
        gamma: Literal["row", "mean"] = "row",
        n_probe: NProbe = "auto",
    ) -> None:
        self.n_neighbors = n_neighbors
        self.gamma = gamma
        self.n_probe = n_probe

    def rule(self, y_source: Labels = None, y_target: Labels = None) -> Rule:
        """The W-step; labels are ignored."""
        return self._learn

    def _learn(self, H_s: Array, H_t: Array) -> Graph:
        xp, n_t = array_namespace(H_t), H_t.shape[0]
        eta = min(self.n_neighbors, n_t - 1)
        F, columns = near(H_s, H_t, eta + 1, self.n_probe)
        gamma = graph_gamma(F)
        if self.gamma == "mean":
            gamma = xp.full_like(gamma, float(xp.mean(gamma)))
            beyond = F[:, :eta] - F[:, :1]  # a constant a row does not move the projection
            width = xp.clip(2.0 * gamma, min=float(xp.finfo(F.dtype).smallest_normal))
            weights = simplex_projection(-beyond / width[:, None])
        else:
            weights = graph_step(F)
        W = from_rows(weights, columns[:, :eta], n_t)
        penalty = float(xp.sum(gamma * xp.sum(weights**2, axis=1)))
        return SparseGraph(W, degrees=xp.ones_like(F[:, 0]), penalty=penalty)


class LabelBipartite(BaseEstimator):
    """The semantic graph of the supervised realisations: weight one inside a class (Eq. 12)."""

    def rule(self, y_source: Labels = None, y_target: Labels = None) -> Rule:
        """Always the graph of the labels."""
        if y_source is None or y_target is None:
            missing = "y_source" if y_source is None else "y_target"
            raise ValueError(f"bipartite='labels' needs {missing}")
        W = label_graph(y_source, y_target)
        return lambda H_s, H_t: W


class PairBipartite(BaseEstimator):
    """The graph of known pairs: weight one between rows that show the same thing."""

    def rule(self, y_source: Labels = None, y_target: Labels = None) -> Rule:
        """Labels say nothing of pairs; `of` makes the graph."""
        raise ValueError("bipartite='pairs' needs pairs")

    @staticmethod
    def of(pairs: NDArray[np.intp], n_source: int, n_target: int) -> GivenBipartite:
        """Always the graph of the pairs; one that is named twice counts twice."""
        ones = np.ones(len(pairs))
        return GivenBipartite(csr_array((ones, tuple(pairs.T)), shape=(n_source, n_target)))


class GivenBipartite(BaseEstimator):
    """A graph known beforehand, kept as it is: pairs, memberships, another method's match.

    Parameters
    ----------
    W : sparse or dense array of shape (n_source, n_target), or a Graph
        Non-negative weights.
    """

    def __init__(self, W: Any) -> None:
        self.W = W

    def rule(self, y_source: Labels = None, y_target: Labels = None) -> Rule:
        """Always the given graph."""
        W = as_graph(self.W)

        def given(H_s: Array, H_t: Array) -> Graph:
            check_shape(W, H_s.shape[0], H_t.shape[0])
            return W

        return given


def rule_for(bipartite: Any, data: TrainingData) -> Rule:
    """The rule of a choice for given data: by its pairs if the choice is about them, or labels."""
    if isinstance(bipartite, PairBipartite) and data.pairs is not None:
        bipartite = bipartite.of(data.pairs, data.X_source.shape[0], data.X_target.shape[0])
    rule: Rule = bipartite.rule(data.y_source, data.y_target)
    return rule


def check_shape(W: Graph, n_source: int, n_target: int) -> None:
    """A given graph must join all rows of the source with all rows of the target."""
    if W.shape != (n_source, n_target):
        raise ValueError(f"W has shape {W.shape}; ({n_source}, {n_target}) is needed")


def as_graph(W: Any) -> Graph:
    """A graph operator from a graph, a sparse matrix or a dense array."""
    if not issparse(W) and not isinstance(W, np.ndarray):
        graph: Graph = W
        return graph
    matrix: csr_array = csr_array(cast(Any, W))
    if not np.isfinite(matrix.data).all() or matrix.data.min(initial=0.0) < 0:
        raise ValueError("the weights of a bipartite graph are finite and not negative")
    return SparseGraph(matrix)
