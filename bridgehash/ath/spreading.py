"""Label spreading over the k-NN graph of a domain, with votes, balanced shares and known labels."""

from __future__ import annotations

from copy import copy

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array

from .._core.linalg import Array, sinkhorn, unit_rows
from ..models.training import Ids
from ..neighbors.graphs import one_hot
from ..neighbors.search import nearest, nearest_others

_STEPS = 100  # of label spreading; at alpha = 0.9 the change is 1e-5 after them
_BALANCES = 30
_CERTAIN = 0.3  # most certain part of a class
_LEAST_SHARE = 0.2  # relative to an equal share: no class disappears
_TINY = 1e-12


def neighbour_graph(X: Array, n_neighbors: int) -> csr_array:
    """Return D^(-1/2) W D^(-1/2) of the k-NN graph; weights exp(-d² / median d² to the k-th)."""
    n, k = len(X), min(n_neighbors, len(X) - 1)
    F, columns = nearest_others(X, k)
    weights = np.exp(-F / max(float(np.median(F[:, -1])), _TINY))
    W = csr_array((weights.ravel(), columns.ravel(), np.arange(0, n * k + 1, k)), shape=(n, n))
    W = W.maximum(W.T)
    D = diags_array(1.0 / np.sqrt(np.maximum(W.sum(axis=1), _TINY)))
    return csr_array(D @ W @ D)


def spread_labels(S: csr_array, Y: Array, alpha: float, n_steps: int = _STEPS) -> Array:
    """Label spreading: F ← α S F + (1 - α) Y, from F = Y."""
    F = Y
    for _ in range(n_steps):
        F = alpha * (S @ F) + (1.0 - alpha) * Y
    return F


def balanced(M: Array, shares: Array) -> Array:
    """Return memberships whose rows sum to one and whose columns have the given shares.

    >>> balanced(np.array([[0.9, 0.1], [0.8, 0.2]]), np.array([0.5, 0.5])).argmax(axis=1)
    array([0, 1])
    """
    M = np.maximum(M, _TINY)
    return sinkhorn(M.T, shares * len(M), np.ones(len(M)), _BALANCES).T


def votes(X_known: Array, y: Ids, X: Array, n_voters: int, n_classes: int) -> Array:
    """Return the shares of the classes among the nearest labelled rows."""
    k = min(n_voters, len(X_known))
    columns = nearest(X, X_known, k)[1]
    counts = np.zeros((len(X), n_classes))
    np.add.at(counts, (np.arange(len(X))[:, None], y[columns]), 1.0 / k)
    return counts


def most_certain(M: Array, part: float) -> NDArray[np.bool_]:
    """Mark the given part of each class, the rows with the largest margin; at least one row."""
    two = np.partition(M, -2, axis=1)[:, -2:]
    first, ahead = M.argmax(axis=1), two[:, 1] - two[:, 0]
    chosen = np.zeros(len(M), dtype=bool)
    for j in np.unique(first):
        rows = np.flatnonzero(first == j)
        order = np.argsort(-ahead[rows], kind="stable")
        chosen[rows[order[: int(np.ceil(part * len(rows)))]]] = True
    return chosen


def reached_shares(S: csr_array, M: Array, alpha: float, n_steps: int = _STEPS) -> Array:
    """Return the class shares if each class spreads one unit of heat from its most certain rows."""
    cores = most_certain(M, _CERTAIN)[:, None] * one_hot(M.argmax(axis=1), M.shape[1]).toarray()
    heat = spread_labels(S, cores / np.maximum(cores.sum(axis=0), 1.0), alpha, n_steps)
    return np.bincount(heat.argmax(axis=1), minlength=M.shape[1]) / len(M)


def settled(
    S: csr_array,
    evidence: Array,
    shares: Array,
    rows: Rows | None = None,
    *,
    alpha: float,
    n_rounds: int,
    estimated: bool,
    n_steps: int = _STEPS,
) -> Array:
    """Return memberships: evidence that is balanced, sharpened and spread in turn.

    Parameters
    ----------
    S : sparse array of shape (n, n)
        Graph of the rows: see `neighbour_graph`.
    evidence : array of shape (n, n_classes)
    shares : array of shape (n_classes,)
        Share of each class; 0 for classes without evidence.
    rows : Rows, optional
        Their known labels stay as they are.
    estimated : bool
        Estimate the shares anew in each round.
    """
    seen = evidence.sum(axis=0) > 0
    clamped = _as_it_is if rows is None else rows.with_known
    M = clamped(balanced(evidence, shares))
    for _ in range(n_rounds):
        if estimated:
            mixed = (shares + reached_shares(S, M, alpha, n_steps)) / 2.0
            mixed = np.where(seen, np.maximum(mixed, _LEAST_SHARE / seen.sum()), 0.0)
            shares = mixed / mixed.sum()
        sharp = clamped(balanced(M**2, shares))
        M = clamped(balanced(spread_labels(S, sharp, alpha, n_steps), shares))
    return M


def _as_it_is(M: Array) -> Array:
    return M


class Rows:
    """Unit rows of a domain, the same centred, and their labels."""

    def __init__(self, X: Array, y: Ids | None) -> None:
        self.unit = unit_rows(X)
        self.centred = unit_rows(self.unit - self.unit.mean(axis=0))
        self.y: Ids = np.full(len(X), -1) if y is None else y
        self._graphs: dict[int, csr_array] = {}

    def graph(self, n_neighbors: int) -> csr_array:
        """Return the k-NN graph of the centred rows: see `neighbour_graph`."""
        if n_neighbors not in self._graphs:
            self._graphs[n_neighbors] = neighbour_graph(self.centred, n_neighbors)
        return self._graphs[n_neighbors]

    def joined_with(self, X: Array) -> Rows:
        """Return rows that are compared by their features and by X together."""
        return Rows(np.hstack([self.centred, unit_rows(X)]), self.y)

    def taken(self, which: NDArray[np.bool_]) -> Rows:
        """Return some of the rows, centred by their own mean."""
        return Rows(self.unit[which], self.y[which])

    def present(self, n_classes: int) -> NDArray[np.bool_]:
        """Mark the classes with a labelled row."""
        return np.bincount(self.y[self.y >= 0], minlength=n_classes) > 0

    def labelled(self, y: Ids) -> Rows:
        """Return the same rows with other labels."""
        rows = copy(self)
        rows.y = y
        return rows

    def unlabelled(self) -> Rows:
        """Return the same rows without labels."""
        return self.labelled(np.full_like(self.y, -1))

    def with_known(self, M: Array) -> Array:
        """Return memberships in which labelled rows have their class."""
        known = self.y >= 0
        M = np.where(known[:, None], 0.0, M)
        M[known, self.y[known]] = 1.0
        return M
