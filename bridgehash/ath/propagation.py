"""Estimate the classes of all rows from a few known ones: votes, label spreading, balancing.

Known labels are evidence: for rows of their own domain by label spreading over its k-NN graph, for
rows of the other domain by votes of the nearest labelled rows, or of the partners that `matching`
finds if the two feature spaces differ. With one feature space, nearest means nearest in the given
features, or also in a space where an unsupervised or semi-supervised fit has already joined the
domains. The evidence is spread, balanced to the class shares,
sharpened, and spread again. The shares need not be known: one unit of heat per class, spread from
its most certain rows, shows how far each class reaches.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from numbers import Integral
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, diags_array
from sklearn.base import BaseEstimator, clone

from .._core.errors import InputError
from .._core.linalg import Array, sinkhorn, unit_rows
from .._core.validation import OneOf, Range, Rules
from ..models.contents import Contents, Given
from ..models.training import Ids, TrainingData
from ..neighbors.graphs import one_hot
from ..neighbors.search import nearest, nearest_others
from .matching import match

_STEPS = 100  # of label spreading; at alpha = 0.9 the change is 1e-5 after them
_BALANCES = 30
_SEED_ALPHA = 0.99  # a few labelled rows have to reach far
_SEED_STEPS = 200
_CERTAIN = 0.3  # most certain part of a class
_LEAST_SHARE = 0.2  # relative to an equal share: no class disappears
_LEAST_AGREEMENT, _FULL_AGREEMENT = 0.6, 0.85  # between labels estimated in two spaces
_BRIDGED_ALPHA, _BRIDGED_ROUNDS = 0.8, 3  # at most: votes are better there, so they spread less
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


def reached_shares(S: csr_array, M: Array, alpha: float) -> Array:
    """Return the class shares if each class spreads one unit of heat from its most certain rows."""
    cores = most_certain(M, _CERTAIN)[:, None] * one_hot(M.argmax(axis=1), M.shape[1]).toarray()
    heat = spread_labels(S, cores / np.maximum(cores.sum(axis=0), 1.0), alpha)
    return np.bincount(heat.argmax(axis=1), minlength=M.shape[1]) / len(M)


class Propagation(BaseEstimator):
    """Estimate the labels of both domains from known labels in either.

    Parameters
    ----------
    n_neighbors : int, default=10
        Neighbours in the graph of a domain.
    n_voters : int, default=20
        Labelled rows of the other domain that vote, if both have one feature space.
    alpha : float, default=0.9
        Part of a row's membership that comes from its neighbours.
    n_rounds : int, default=5
        Rounds of sharpening, balancing and spreading.
    shares : "estimated", "uniform" or array of shape (n_classes,), default="estimated"
        Share of the rows of a domain that each class has, in the order of the classes.
    keep : float, default=0.9
        Part of each class that gets a label, the most certain rows; the rest stays unknown.
    space : "auto", "features" or "bridged", default="auto"
        Where rows are compared if both domains have one feature space: by the given features, or
        by these and the projections of a fit that joins the domains first. "auto" estimates the
        labels in both ways. If some labels of the domain are known, it takes the estimate that
        finds more of them when they are left out. Otherwise it takes the second one if both agree
        on 60 to 85 % of the rows: with less the fit joined wrong classes, with more there is
        little to gain.
    """

    needs_labels = True
    _rules: ClassVar[Rules] = {
        "n_neighbors": Range(1, kind=Integral),
        "n_voters": Range(1, kind=Integral),
        "alpha": Range(0, 1),
        "n_rounds": Range(0, kind=Integral),
        "keep": Range(0, 1, above=True),
        "space": OneOf(("auto", "features", "bridged")),
    }
    _contents: ClassVar[Contents] = {"shares": Given("c", ("estimated", "uniform"))}

    def __init__(
        self,
        n_neighbors: int = 10,
        n_voters: int = 20,
        alpha: float = 0.9,
        n_rounds: int = 5,
        shares: Literal["estimated", "uniform"] | ArrayLike = "estimated",
        keep: float = 0.9,
        space: Literal["auto", "features", "bridged"] = "auto",
    ) -> None:
        self.n_neighbors = n_neighbors
        self.n_voters = n_voters
        self.alpha = alpha
        self.n_rounds = n_rounds
        self.shares = shares
        self.keep = keep
        self.space = space

    def complete(
        self,
        data: TrainingData,
        *,
        same_space: bool,
        rng: np.random.RandomState,
        bridge: Callable[[], tuple[Array, Array]],
    ) -> TrainingData:
        """Return the data with labels for nearly all rows.

        `bridge` returns rows of both domains in a space where a fit has joined them.
        """
        domains = [_Rows(data.X_source, data.y_source), _Rows(data.X_target, data.y_target)]
        n_classes = 1 + max(int(rows.y.max()) for rows in domains)
        if n_classes < 2:
            raise InputError("labels of at least two classes are needed: give y_source or y_target")
        estimates = []
        if not same_space or self.space != "bridged":
            estimates.append(self._estimates(domains, n_classes, same_space, rng))
        if same_space and self.space != "features":
            joint = [rows.joined_with(X) for rows, X in zip(domains, bridge(), strict=True)]
            gentle = clone(self).set_params(
                alpha=min(self.alpha, _BRIDGED_ALPHA), n_rounds=min(self.n_rounds, _BRIDGED_ROUNDS)
            )
            estimates.append(gentle._estimates(joint, n_classes, True, rng))
        y_source, y_target = map(_trusted, domains, *estimates)
        return replace(data, y_source=y_source, y_target=y_target)

    def _estimates(
        self, domains: list[_Rows], n_classes: int, same_space: bool, rng: np.random.RandomState
    ) -> list[_Estimate]:
        """Return the labels of both domains, and which of them are certain."""
        estimates = []
        for here, there in zip(domains, domains[::-1], strict=True):
            known = here.y >= 0
            if known.all():
                estimates.append(_Estimate(here.y, known))
                continue
            needed = same_space or not known.any()
            counted = self._votes(here, there, n_classes, same_space, rng) if needed else None
            M = self._members(here, counted, n_classes)
            right = None
            if same_space and known.any() and (there.y >= 0).any():
                left_out = self._members(here.unlabelled(), counted, n_classes).argmax(axis=1)
                right = float((left_out == here.y)[known].mean())
            estimates.append(_Estimate(M.argmax(axis=1), most_certain(M, self.keep) | known, right))
        return estimates

    def _members(self, here: _Rows, counted: Array | None, n_classes: int) -> Array:
        """Return memberships of shape (n, n_classes), given votes of the other domain."""
        S = neighbour_graph(here.centred, self.n_neighbors)
        evidence = _heat(S, here, n_classes)
        if counted is not None:
            evidence += spread_labels(S, counted, self.alpha)
        seen = evidence.sum(axis=0) > 0
        shares = self._first_shares(seen)
        M = here.with_known(balanced(evidence, shares))
        for _ in range(self.n_rounds):
            if isinstance(self.shares, str) and self.shares == "estimated":
                mixed = (shares + reached_shares(S, M, self.alpha)) / 2.0
                mixed = np.where(seen, np.maximum(mixed, _LEAST_SHARE / seen.sum()), 0.0)
                shares = mixed / mixed.sum()
            sharp = here.with_known(balanced(M**2, shares))
            M = here.with_known(balanced(spread_labels(S, sharp, self.alpha), shares))
        return M

    def _first_shares(self, seen: NDArray[np.bool_]) -> Array:
        if isinstance(self.shares, str):
            if self.shares not in ("estimated", "uniform"):
                raise InputError("use 'estimated', 'uniform' or numbers", "shares")
            return seen / seen.sum()
        given = np.asarray(self.shares, dtype=float)
        if given.shape != seen.shape or given.min() < 0 or not np.isclose(given.sum(), 1.0):
            raise InputError(
                f"{len(seen)} non-negative numbers that sum to one are needed, not {self.shares!r}",
                "shares",
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
        """Return the votes of labelled rows of the other domain: nearest rows or partners."""
        if same_space:
            known = there.y >= 0
            if not known.any():
                return np.zeros((len(here.y), n_classes))
            return votes(there.unit[known], there.y[known], here.unit, self.n_voters, n_classes)
        result = match(there.unit, here.unit, rng)
        counted = np.zeros((len(here.y), n_classes))
        classes = one_hot(there.y[result.rows_s], n_classes).toarray()
        counted[result.rows_t] = result.plan.T @ classes * len(result.rows_t)
        return counted


def _heat(S: csr_array, rows: _Rows, n_classes: int) -> Array:
    """Return the evidence of labelled rows for the other rows of their domain."""
    if not (rows.y >= 0).any():
        return np.zeros((len(rows.y), n_classes))
    Y = one_hot(rows.y, n_classes).toarray()
    heat = spread_labels(S, Y / np.maximum(Y.sum(axis=0), 1.0), _SEED_ALPHA, _SEED_STEPS)
    return heat / max(heat.sum(axis=1).mean(), _TINY)


class _Estimate(NamedTuple):
    """Classes of all rows of a domain, and the rows whose class is certain enough."""

    y: Ids
    certain: NDArray[np.bool_]
    right: float | None = None  # share of known labels found if they are left out


def _trusted(rows: _Rows, first: _Estimate, second: _Estimate | None = None) -> Ids:
    """Return the certain labels of the estimate to trust: see `Propagation.space`."""
    chosen = first
    if second is None or (rows.y >= 0).all():
        pass
    elif first.right is not None and second.right is not None:
        chosen = second if second.right > first.right else first
    else:
        agreement = float((first.y == second.y)[rows.y < 0].mean())
        chosen = second if _LEAST_AGREEMENT <= agreement <= _FULL_AGREEMENT else first
    return np.where(chosen.certain, chosen.y, -1)


class _Rows:
    """Unit rows of a domain, the same centred, and their labels."""

    def __init__(self, X: Array, y: Ids | None) -> None:
        self.unit = unit_rows(X)
        self.centred = unit_rows(self.unit - self.unit.mean(axis=0))
        self.y: Ids = np.full(len(X), -1) if y is None else y

    def joined_with(self, X: Array) -> _Rows:
        """Return rows that are compared by their features and by X together."""
        return _Rows(np.hstack([self.centred, unit_rows(X)]), self.y)

    def unlabelled(self) -> _Rows:
        """Return the same rows without labels."""
        rows = copy(self)
        rows.y = np.full_like(self.y, -1)
        return rows

    def with_known(self, M: Array) -> Array:
        """Return memberships in which labelled rows have their class."""
        known = self.y >= 0
        M = np.where(known[:, None], 0.0, M)
        M[known, self.y[known]] = 1.0
        return M
