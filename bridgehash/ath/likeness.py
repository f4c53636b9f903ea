"""Rows of one domain compared with the classes of another, in a space that both have.

Rows are averaged over their neighbourhood first, because single rows are noisy, and compared with
class means by their cosine.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from .._core.linalg import Array, principal, unit_rows
from ..models.training import Ids
from ..neighbors.graphs import one_hot
from ..neighbors.search import nearest
from .spreading import neighbour_graph, settled, spread_labels, votes

N_NEIGHBORS, N_VOTERS = 10, 20
_ALPHA, _STEPS = 0.9, 50
_DIRECTIONS = 128  # principal directions in which rows are averaged
_HARDLY = 0.2  # of an equal share of the votes
_BRIDGED_ALPHA, _ROUNDS, _SHORT = 0.8, 3, 30
_SPLIT = 0.1  # least part of the rows in either of two groups
_TINY = 1e-12


class Space:
    """Rows of two domains in one space; the first have classes."""

    def __init__(self, X: Array, y: Ids, Y: Array, n_classes: int) -> None:
        self.X, self.y, self.Y, self.n_classes = X, y, Y, n_classes
        self.present = np.bincount(y, minlength=n_classes) > 0
        self.S = neighbour_graph(Y, N_NEIGHBORS)
        P = principal(X, min(_DIRECTIONS, X.shape[1]), Y)
        means = unit_rows(one_hot(y, n_classes).T @ (X @ P))
        self.cosines = np.where(self.present, unit_rows(averaged(self.S, Y @ P)) @ means.T, -1.0)
        own = unit_rows(averaged(neighbour_graph(X, N_NEIGHBORS), X @ P)) @ means.T
        sums = np.bincount(y, own[np.arange(len(y)), y], minlength=n_classes)
        self.own = sums / np.maximum(np.bincount(y, minlength=n_classes), 1)

    @cached_property
    def best(self) -> Array:
        """Cosine of each row to the nearest class mean."""
        return np.asarray(self.cosines.max(axis=1))

    @cached_property
    def label(self) -> Ids:
        """Class of the nearest mean."""
        return np.asarray(self.cosines.argmax(axis=1))

    @cached_property
    def likeness(self) -> Array:
        """1: as near to a class as the surest rows are; 0: as near as they are to a wrong class."""
        usual, sure = np.zeros(self.n_classes), np.zeros(len(self.label), dtype=bool)
        for c in np.unique(self.label):  # the surest half of each class
            rows = np.flatnonzero(self.label == c)
            surest = rows[self.best[rows] >= np.median(self.best[rows])]
            usual[c], sure[surest] = np.median(self.best[surest]), True
        wrong = float(np.median(np.partition(self.cosines[sure], -2, axis=1)[:, -2]))
        typical = float(np.median(usual[self.label]))
        return (self.best - wrong) / max(typical - wrong, _TINY)

    @cached_property
    def spread_votes(self) -> Array:
        """Shares of the classes among the nearest labelled rows, averaged over the graph."""
        V = averaged(self.S, votes(self.X, self.y, self.Y, N_VOTERS, self.n_classes))
        return V / np.maximum(V.sum(axis=1, keepdims=True), _TINY)

    @cached_property
    def chosen(self) -> Array:
        """How often labelled rows choose each row as a near one, averaged over the graph; mean 1.

        All classes choose equally often.
        """
        columns = nearest(self.X, self.Y, min(N_VOTERS, len(self.Y)))[1]
        weights = 1.0 / np.bincount(self.y, minlength=self.n_classes)[self.y]
        counts = np.zeros((len(self.Y), 1))
        np.add.at(counts[:, 0], columns, weights[:, None])
        often = averaged(self.S, counts)[:, 0]
        return np.asarray(often / max(float(often.mean()), _TINY))

    @cached_property
    def hardly_voted(self) -> NDArray[np.bool_]:
        """Mark classes that no row chooses, and with few votes in all."""
        V = self.spread_votes
        chosen = np.bincount(V.argmax(axis=1), minlength=self.n_classes)
        few = V.mean(axis=0) < _HARDLY / max(int(self.present.sum()), 1)
        return np.asarray((chosen == 0) & few)


def averaged(S: csr_array, V: Array) -> Array:
    """Return rows averaged over their neighbourhood in the graph."""
    ones = spread_labels(S, np.ones((len(V), 1)), _ALPHA, _STEPS)
    return spread_labels(S, V, _ALPHA, _STEPS) / np.maximum(ones, _TINY)


def short_spread(S: csr_array, V: Array) -> Array:
    """Spread evidence over few steps, as after a bridge."""
    return spread_labels(S, V, _BRIDGED_ALPHA, _SHORT)


def settled_labels(S: csr_array, evidence: Array) -> Ids:
    """Return the classes that the evidence gives to the rows of a graph."""
    seen = evidence.sum(axis=0) > 0
    M = settled(
        S,
        evidence,
        seen / seen.sum(),
        alpha=_BRIDGED_ALPHA,
        n_rounds=_ROUNDS,
        estimated=True,
        n_steps=_SHORT,
    )
    return np.asarray(np.where(seen, M, -1.0).argmax(axis=1))


def modularity(W: csr_array, labels: Ids, resolution: float = 1.0) -> float:
    """Return the part of the edges inside classes, minus what is expected by chance (Newman).

    A resolution below one favours few, large classes.

    >>> W = csr_array(np.kron(np.eye(2), np.ones((3, 3))))
    >>> modularity(W, np.array([0, 0, 0, 1, 1, 1])), modularity(W, np.zeros(6, dtype=int))
    (0.5, 0.0)
    """
    Y = one_hot(labels, int(labels.max()) + 1)
    E = np.asarray((Y.T @ (W @ Y)).toarray())
    E /= E.sum()
    return float(np.trace(E) - resolution * (E.sum(axis=1) ** 2).sum())


class Groups(NamedTuple):
    """Numbers in two groups."""

    low: float  # mean of the lower group
    high: float
    limit: float  # between them


def two_groups(values: Array) -> Groups:
    """Split numbers into two groups with the least variance (Otsu), each of a tenth at least.

    >>> two_groups(np.array([0.1, 0.1, 0.2, 0.9, 0.8, 0.9])).limit
    0.5
    """
    v = np.sort(values)
    n = np.arange(1, len(v))
    sums = np.cumsum(v)
    low, high = sums[:-1] / n, (sums[-1] - sums[:-1]) / (len(v) - n)
    between = n * (len(v) - n) * (high - low) ** 2
    allowed = (n >= _SPLIT * len(v)) & (n <= (1.0 - _SPLIT) * len(v))
    k = int(np.argmax(np.where(allowed, between, -1.0)))
    return Groups(float(low[k]), float(high[k]), float((v[k] + v[k + 1]) / 2.0))
