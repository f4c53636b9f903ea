"""Classes for all rows from those of a few: votes, spreading over a graph, balance.

Known classes give evidence: to rows of their own domain by heat that spreads over its k-NN
graph, to rows of the other one by votes: of the nearest, where the two can be compared, else of
those that a match by structure (`matching`) makes their partners. Evidence is spread, balanced to
the shares that the classes have, sharpened, and spread again. The shares need not be known: heat
from the surest rows of each class, one unit a class, shows how far each class reaches.
"""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, diags_array
from sklearn.base import BaseEstimator

from .._core.errors import InputError
from .._core.linalg import Array
from .._core.validation import Range, Rules
from ..models.base import Ids, TrainingData
from ..models.feature_maps import UnitRows
from ..neighbors.graphs import one_hot
from ..neighbors.search import nearest, nearest_others
from .matching import match

_STEPS = 100  # of spreading; at alpha = 0.9 what is left after them is 1e-5 of the beginning
_BALANCES = 30
_SEED_ALPHA = 0.99  # heat of few rows has far to go
_SEED_STEPS = 200
_SUREST = 0.3  # part of a class that is taken as its core
_LEAST_SHARE = 0.2  # of an even one: no class dies out
_TINY = 1e-12


def neighbour_graph(X: Array, n_neighbors: int) -> csr_array:
    """D^(-1/2) W D^(-1/2) of the k-NN graph, weights exp(-d² / s), s the median d² to the k-th."""
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
    """Memberships whose rows sum to one and whose columns have given shares (Sinkhorn).

    >>> balanced(np.array([[0.9, 0.1], [0.8, 0.2]]), np.array([0.5, 0.5])).argmax(axis=1)
    array([0, 1])
    """
    M = np.maximum(M, _TINY)
    for _ in range(_BALANCES):
        M = M * (shares * len(M) / np.maximum(M.sum(axis=0), _TINY))
        M = M / M.sum(axis=1, keepdims=True)
    return M


def votes(X_known: Array, y: Ids, X: Array, n_voters: int, n_classes: int) -> Array:
    """Shares of the classes among the nearest known rows."""
    k = min(n_voters, len(X_known))
    columns = nearest(X, X_known, k)[1]
    counts = np.zeros((len(X), n_classes))
    np.add.at(counts, (np.arange(len(X))[:, None], y[columns]), 1.0 / k)
    return counts


def margins(M: Array) -> Array:
    """How far the first class of a row is ahead of its second."""
    two = np.partition(M, -2, axis=1)[:, -2:]
    return two[:, 1] - two[:, 0]


def surest(M: Array, part: float) -> NDArray[np.bool_]:
    """The given part of the rows of each class, those furthest ahead; at least one."""
    first, ahead = M.argmax(axis=1), margins(M)
    chosen = np.zeros(len(M), dtype=bool)
    for j in np.unique(first):
        rows = np.flatnonzero(first == j)
        order = np.argsort(-ahead[rows], kind="stable")
        chosen[rows[order[: int(np.ceil(part * len(rows)))]]] = True
    return chosen


def reached_shares(S: csr_array, M: Array, alpha: float) -> Array:
    """Shares of the classes when each spreads one unit of heat from its surest rows."""
    cores = surest(M, _SUREST)[:, None] * one_hot(M.argmax(axis=1), M.shape[1]).toarray()
    heat = spread_labels(S, cores / np.maximum(cores.sum(axis=0), 1.0), alpha)
    return np.bincount(heat.argmax(axis=1), minlength=M.shape[1]) / len(M)


class Propagation(BaseEstimator):
    """Completes the classes of both domains from known ones in either.

    Parameters
    ----------
    n_neighbors : int, default=10
        Of the graph inside a domain.
    n_voters : int, default=20
        Known rows of the other domain that vote, where both have one feature space.
    alpha : float, default=0.9
        Part of a row's membership that comes from its neighbours.
    n_rounds : int, default=5
        Of sharpening, balancing and spreading.
    shares : "estimated", "uniform" or array of shape (n_classes,), default="estimated"
        How many rows of a domain each class has, in the order of the classes.
    keep : float, default=0.9
        The surest part of each class; the rest stays unknown.
    """

    _rules: ClassVar[Rules] = {
        "n_neighbors": Range(1, kind=Integral),
        "n_voters": Range(1, kind=Integral),
        "alpha": Range(0, 1),
        "n_rounds": Range(0, kind=Integral),
        "keep": Range(0, 1, above=True),
    }

    def __init__(
        self,
        n_neighbors: int = 10,
        n_voters: int = 20,
        alpha: float = 0.9,
        n_rounds: int = 5,
        shares: Literal["estimated", "uniform"] | ArrayLike = "estimated",
        keep: float = 0.9,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.n_voters = n_voters
        self.alpha = alpha
        self.n_rounds = n_rounds
        self.shares = shares
        self.keep = keep

    def complete(
        self, data: TrainingData, *, same_space: bool, rng: np.random.RandomState
    ) -> TrainingData:
        """The same data with classes for nearly all rows."""
        domains = [_Rows.of(data.X_source, data.y_source), _Rows.of(data.X_target, data.y_target)]
        n_classes = 1 + max(int(rows.y.max()) for rows in domains)
        if n_classes < 2:
            raise InputError("missing; labels of some rows are needed", "y_source")
        found = []
        for here, there in zip(domains, domains[::-1], strict=True):
            if (here.y >= 0).all():
                found.append(here.y)
                continue
            needed = same_space or not (here.y >= 0).any()
            counted = self._votes(here, there, n_classes, same_space, rng) if needed else None
            M = self._members(here, counted, n_classes)
            found.append(np.where(surest(M, self.keep) | (here.y >= 0), M.argmax(axis=1), -1))
        return replace(data, y_source=found[0], y_target=found[1])

    def _members(self, here: _Rows, counted: Array | None, n_classes: int) -> Array:
        """Memberships of the rows of a domain, shape (n, n_classes), given votes from outside."""
        S = neighbour_graph(here.centred, self.n_neighbors)
        evidence = _heat(S, here, n_classes)
        if counted is not None:
            evidence += spread_labels(S, counted, self.alpha)
        seen = evidence.sum(axis=0) > 0
        shares = self._first_shares(seen)
        M = here.with_known(balanced(evidence, shares))
        for _ in range(self.n_rounds):
            if isinstance(self.shares, str) and self.shares == "estimated":
                shares = _between(shares, reached_shares(S, M, self.alpha), seen)
            sharp = here.with_known(balanced(M**2, shares))
            M = here.with_known(balanced(spread_labels(S, sharp, self.alpha), shares))
        return M

    def _first_shares(self, seen: NDArray[np.bool_]) -> Array:
        if isinstance(self.shares, str):
            if self.shares not in ("estimated", "uniform"):
                raise ValueError(f"shares={self.shares!r}: give 'estimated', 'uniform' or numbers")
            return seen / seen.sum()
        given = np.asarray(self.shares, dtype=float)
        if given.shape != seen.shape or given.min() < 0 or not np.isclose(given.sum(), 1.0):
            raise ValueError(
                f"shares={self.shares!r} are not those of {len(seen)} classes: give as many "
                "numbers from 0 on that sum to one"
            )
        return given

    def _votes(
        self,
        here: _Rows,
        there: _Rows,
        n_classes: int,
        same_space: bool,
        rng: np.random.RandomState,
    ) -> Array:
        """What known rows of the other domain say: the nearest, or partners by structure."""
        if same_space:
            known = there.y >= 0
            if not known.any():
                return np.zeros((len(here.y), n_classes))
            return votes(there.unit[known], there.y[known], here.unit, self.n_voters, n_classes)
        found = match(there.unit, here.unit, rng)
        counted = np.zeros((len(here.y), n_classes))
        classes = one_hot(there.y[found.rows_s], n_classes).toarray()
        counted[found.rows_t] = found.plan.T @ classes * len(found.rows_t)
        return counted


def _heat(S: csr_array, rows: _Rows, n_classes: int) -> Array:
    """What known rows say to others of their domain."""
    if not (rows.y >= 0).any():
        return np.zeros((len(rows.y), n_classes))
    Y = one_hot(rows.y, n_classes).toarray()
    heat = spread_labels(S, Y / np.maximum(Y.sum(axis=0), 1.0), _SEED_ALPHA, _SEED_STEPS)
    scaled: Array = heat / max(heat.sum(axis=1).mean(), _TINY)
    return scaled


class _Rows:
    """Rows of a domain at unit norm, as they are and around their mean, and their classes."""

    def __init__(self, unit: Array, y: Ids) -> None:
        self.unit, self.y = unit, y
        self.centred: Array = UnitRows().fit_transform(unit - unit.mean(axis=0))

    @classmethod
    def of(cls, X: Array, y: Ids | None) -> _Rows:
        return cls(UnitRows().fit_transform(X), np.full(len(X), -1) if y is None else y)

    def with_known(self, M: Array) -> Array:
        """Memberships in which known rows have their class."""
        known = self.y >= 0
        M = np.where(known[:, None], 0.0, M)
        M[known, self.y[known]] = 1.0
        return M


def _between(shares: Array, reached: Array, seen: NDArray[np.bool_]) -> Array:
    """Half way from the shares to those reached, no class below a fifth of an even share."""
    mixed = np.where(seen, np.maximum((shares + reached) / 2.0, _LEAST_SHARE / seen.sum()), 0.0)
    return mixed / mixed.sum()
