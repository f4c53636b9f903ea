"""Estimate the classes of all rows from a few known ones: votes, label spreading, balancing.

Known labels are evidence: for rows of their own domain by label spreading over its k-NN graph, for
rows of the other domain by votes of the nearest labelled rows, or of the partners that `matching`
finds if the two feature spaces differ. With one feature space, nearest means nearest in the given
features, or also in a space where an unsupervised or semi-supervised fit has already joined the
domains. The evidence is spread, balanced to the class shares, sharpened, and spread again. The
shares need not be known: one unit of heat per class, spread from its most certain rows, shows how
far each class reaches. Rows whose class the other domain lacks are set aside first: see `private`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import replace
from numbers import Integral
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, clone

from .._core.errors import InputError
from .._core.linalg import Array
from .._core.progress import waiting
from .._core.validation import Flag, OneOf, Range, Rules
from ..models.contents import Contents, Given
from ..models.training import Ids, TrainingData
from ..neighbors.graphs import one_hot
from .directions import by_directions
from .likeness import modularity
from .matching import match
from .private import Private, find_private
from .spreading import Rows, most_certain, settled, spread_labels, votes

_SEED_ALPHA = 0.99  # a few labelled rows have to reach far
_SEED_STEPS = 200
_LEAST_KNOWN, _LEAST_RIGHT = 3, 0.9  # labels per class, and of them right when left out, to test
_FOLDS = 3
_LEAST_AGREEMENT = 0.5  # between labels estimated in two spaces
_BETTER = 0.05  # gain in modularity, over two graphs, that labels of the second space need
_DOUBT = 1e-3  # least membership that an estimate gives
_TINY = 1e-12
_BRIDGED_ALPHA, _BRIDGED_ROUNDS = 0.8, 3  # at most: votes are better there, so they spread less

Projecting = Callable[[Array, Array], tuple[Array, Array]]
Bridging = Callable[[TrainingData, np.random.RandomState], Projecting]


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
        Part of each class that gets a label, the most certain rows; the rest has memberships only.
    space : "auto", "features" or "bridged", default="auto"
        Where rows are compared if both domains have one feature space: by the given features, or
        by these and the projections of a fit that joins the domains first. "auto" estimates the
        labels in both ways. If some labels of the domain are known, it takes the estimate that
        finds more of them when they are left out. Otherwise it takes the second one if it fits the
        k-NN graphs of both spaces clearly better (modularity), unless the two agree on less than
        half of the rows: then the fit joined wrong classes.
    private : bool, default=True
        Test whether a domain has classes that the other one lacks, if one domain has labels of all
        rows, both have one feature space, `shares` is a name and `space` is not "features". Such
        rows then take no part: new ones get classes of their own. Few labels suffice, three per
        class on average, if 90 % of them are found when each third is left out.
    """

    needs_labels = True
    _rules: ClassVar[Rules] = {
        "n_neighbors": Range(1, kind=Integral),
        "n_voters": Range(1, kind=Integral),
        "alpha": Range(0, 1),
        "n_rounds": Range(0, kind=Integral),
        "keep": Range(0, 1, above=True),
        "space": OneOf(("auto", "features", "bridged")),
        "private": Flag(),
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
        private: bool = True,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.n_voters = n_voters
        self.alpha = alpha
        self.n_rounds = n_rounds
        self.shares = shares
        self.keep = keep
        self.space = space
        self.private = private

    def complete(
        self,
        data: TrainingData,
        *,
        same_space: bool,
        rng: np.random.RandomState,
        bridge: Bridging,
    ) -> TrainingData:
        """Return the data with labels for nearly all rows.

        `bridge` fits rows of both domains, and returns what projects rows into their common space.
        Groups of rows without a counterpart get classes of their own, after those of the data.
        """
        domains = [Rows(data.X_source, data.y_source), Rows(data.X_target, data.y_target)]
        n_classes = 1 + max(int(rows.y.max()) for rows in domains)
        if n_classes < 2:
            raise InputError("labels of at least two classes are needed: give y_source or y_target")
        fits = _Fits(data, bridge, rng)
        found: list[_Kept | None] = [None, None]
        if same_space:
            found, fits = self._private(domains, n_classes, fits)
        kept = [
            np.ones(len(rows.y), dtype=bool) if mine is None else mine.kept
            for rows, mine in zip(domains, found, strict=True)
        ]
        labels = [
            np.array(rows.y) if mine is None else mine.labels
            for rows, mine in zip(domains, found, strict=True)
        ]
        tested = [None if mine is None else mine.private for mine in found]
        if any(private is not None and private.something for private in tested):
            domains = [
                rows.labelled(y).taken(some)
                for rows, y, some in zip(domains, labels, kept, strict=True)
            ]
        estimates, spaces = [], [domains]
        if not same_space or self.space != "bridged":
            estimates.append(self._estimates(domains, n_classes, same_space, rng))
        if same_space and self.space != "features":
            joint = [
                rows.joined_with(X[some])
                for rows, some, X in zip(domains, kept, fits(kept), strict=True)
            ]
            gentle = clone(self).set_params(
                alpha=min(self.alpha, _BRIDGED_ALPHA), n_rounds=min(self.n_rounds, _BRIDGED_ROUNDS)
            )
            estimates.append(gentle._estimates(joint, n_classes, True, rng))
            spaces.append(joint)
        members = []
        for k, private in enumerate(tested):
            mine = [each[k] for each in estimates]
            if private is not None and private.doubtful:
                other = by_directions(domains[1 - k], domains[k], n_classes)
                best = _together(*(each.members for each in mine), other)
            else:
                best = self._trusted([space[k] for space in spaces], *mine)
            labels[k][kept[k]] = np.where(best.certain, best.y, -1)
            members.append(_softened(best.members, kept[k], labels[k]))
        return replace(
            data,
            y_source=labels[0],
            y_target=labels[1],
            private=tuple(tested),
            members=tuple(members),
        )

    def _private(
        self, domains: list[Rows], n_classes: int, fits: _Fits
    ) -> tuple[list[_Kept | None], _Fits]:
        """Return which rows of the two domains have a counterpart; None if that is not tested.

        If not all rows of the better labelled domain have a label, the others get one inside it
        first. These labels, and bridges with them, are used from then on if something is found.
        """
        known = [float((rows.y >= 0).mean()) for rows in domains]
        i = known.index(max(known))
        there, here, labelled = domains[i], domains[1 - i], fits
        given_shares = not isinstance(self.shares, str)
        if not self.private or given_shares or self.space == "features" or min(known) == 1.0:
            return [None, None], fits
        if known[i] < 1.0:
            y = self._completed_inside(there, n_classes)
            if y is None:
                return [None, None], fits
            there, labelled = there.labelled(y), fits.with_labels(i, y)

        def bridge(
            some_there: NDArray[np.bool_], some_here: NDArray[np.bool_], with_labels: bool
        ) -> tuple[Array, Array]:
            kept = [some_there, some_here]
            H = labelled(kept if i == 0 else kept[::-1], labelled=with_labels)
            return H[i], H[1 - i]

        found = find_private(there, here, n_classes, bridge)
        if not found.something:
            there, labelled = domains[i], fits
        new = np.where(found.groups >= 0, n_classes + found.groups, here.y)
        result: list[_Kept | None] = [
            _Kept(~found.classes[there.y], there.y.copy(), None),
            _Kept(found.groups < 0, new, found),
        ]
        return (result if i == 0 else result[::-1]), labelled

    def _completed_inside(self, rows: Rows, n_classes: int) -> Ids | None:
        """Return labels of all rows, given some; None if these are too few or do not agree.

        They agree if they find each other: each third of them by the others.
        """
        known = np.flatnonzero(rows.y >= 0)
        if len(known) < _LEAST_KNOWN * rows.present(n_classes).sum():
            return None
        known = known[np.argsort(rows.y[known], kind="stable")]  # each class in all folds
        right = 0
        for fold in range(_FOLDS):
            out, y = known[fold::_FOLDS], rows.y.copy()
            y[out] = -1
            found = self._members(rows.labelled(y), None, n_classes).argmax(axis=1)
            right += int((found == rows.y)[out].sum())
        if right < _LEAST_RIGHT * len(known):
            return None
        return self._members(rows, None, n_classes).argmax(axis=1)

    def _estimates(
        self, domains: list[Rows], n_classes: int, same_space: bool, rng: np.random.RandomState
    ) -> list[_Estimate]:
        """Return the labels of both domains, and which of them are certain."""
        estimates = []
        for here, there in zip(domains, domains[::-1], strict=True):
            known = here.y >= 0
            if known.all():
                estimates.append(_Estimate(one_hot(here.y, n_classes).toarray(), known))
                continue
            needed = same_space or not known.any()
            counted = self._votes(here, there, n_classes, same_space, rng) if needed else None
            M = self._members(here, counted, n_classes)
            right = None
            if same_space and known.any() and (there.y >= 0).any():
                left_out = self._members(here.unlabelled(), counted, n_classes)
                right = float((left_out.argmax(axis=1) == here.y)[known].mean())
            estimates.append(_Estimate(M, most_certain(M, self.keep) | known, right))
        return estimates

    def _trusted(
        self, spaces: Sequence[Rows], first: _Estimate, second: _Estimate | None = None
    ) -> _Estimate:
        """Return the estimate to trust: see `space`."""
        chosen, known = first, spaces[0].y >= 0
        if second is None or known.all():
            pass
        elif first.right is not None and second.right is not None:
            chosen = second if second.right > first.right else first
        elif (first.y == second.y)[~known].mean() >= _LEAST_AGREEMENT:
            graphs = [rows.graph(self.n_neighbors) for rows in spaces]
            gain = sum(modularity(S, second.y) - modularity(S, first.y) for S in graphs)
            chosen = second if gain > _BETTER else first
        return chosen

    def _members(self, here: Rows, counted: Array | None, n_classes: int) -> Array:
        """Return memberships of shape (n, n_classes), given votes of the other domain."""
        S = here.graph(self.n_neighbors)
        evidence = _heat(S, here, n_classes)
        if counted is not None:
            evidence += spread_labels(S, counted, self.alpha)
        return settled(
            S,
            evidence,
            self._first_shares(evidence.sum(axis=0) > 0),
            here,
            alpha=self.alpha,
            n_rounds=self.n_rounds,
            estimated=isinstance(self.shares, str) and self.shares == "estimated",
        )

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
        here: Rows,
        there: Rows,
        n_classes: int,
        same_space: bool,
        rng: np.random.RandomState,
    ) -> Array:
        """Return the votes of labelled rows of the other domain: nearest rows or partners."""
        if same_space:
            known = there.y >= 0
            if not known.any():
                return np.zeros((len(here.y), n_classes))
            n_voters, n = self.n_voters, int(known.sum())
            if n <= n_voters and not (here.y >= 0).any():
                n_voters = n // int(there.present(n_classes).sum())  # all of them would vote alike
            return votes(there.unit[known], there.y[known], here.unit, n_voters, n_classes)
        with waiting("match by structure") as reach:
            result = match(there.unit, here.unit, rng, progress=reach)
        counted = np.zeros((len(here.y), n_classes))
        classes = one_hot(there.y[result.rows_s], n_classes).toarray()
        counted[result.rows_t] = result.plan.T @ classes * len(result.rows_t)
        return counted


def _heat(S: csr_array, rows: Rows, n_classes: int) -> Array:
    """Return the evidence of labelled rows for the other rows of their domain."""
    if not (rows.y >= 0).any():
        return np.zeros((len(rows.y), n_classes))
    Y = one_hot(rows.y, n_classes).toarray()
    heat = spread_labels(S, Y / np.maximum(Y.sum(axis=0), 1.0), _SEED_ALPHA, _SEED_STEPS)
    return heat / max(heat.sum(axis=1).mean(), 1e-12)


class _Kept(NamedTuple):
    """Rows of a domain with a counterpart, and what is known of all rows."""

    kept: NDArray[np.bool_]
    labels: Ids
    private: Private | None


class _Fits:
    """Bridges between some rows of both domains. The last one with labels is kept."""

    def __init__(self, data: TrainingData, bridge: Bridging, rng: np.random.RandomState) -> None:
        self._data, self._bridge, self._rng = data, bridge, rng
        self._last: tuple[bytes, tuple[Array, Array]] | None = None

    def with_labels(self, domain: int, y: Ids) -> _Fits:
        """Return bridges with labels of a domain; they leave this random state alone."""
        known = self._data.y_source, self._data.y_target
        source, target = (y, known[1]) if domain == 0 else (known[0], y)
        data = replace(self._data, y_source=source, y_target=target)
        return _Fits(data, self._bridge, deepcopy(self._rng))

    def __call__(
        self, kept: Sequence[NDArray[np.bool_]], labelled: bool = True
    ) -> tuple[Array, Array]:
        """Return all rows after a bridge between these.

        One without labels leaves the random state alone.
        """
        key = b"".join(each.tobytes() for each in kept)
        if labelled and self._last is not None and self._last[0] == key:
            return self._last[1]
        X = [
            rows[some]
            for rows, some in zip((self._data.X_source, self._data.X_target), kept, strict=True)
        ]
        y = [
            None if ids is None or not labelled else ids[some]
            for ids, some in zip((self._data.y_source, self._data.y_target), kept, strict=True)
        ]
        rng = self._rng if labelled else deepcopy(self._rng)
        project = self._bridge(TrainingData(*X, *y), rng)
        rows = project(self._data.X_source, self._data.X_target)
        if labelled:
            self._last = key, rows
        return rows


class _Estimate(NamedTuple):
    """Classes of all rows of a domain, and the rows whose class is certain enough."""

    members: Array  # (n, n_classes)
    certain: NDArray[np.bool_]
    right: float | None = None  # share of known labels found if they are left out

    @property
    def y(self) -> Ids:
        """The likeliest class of each row."""
        return self.members.argmax(axis=1)


def _together(*members: Array) -> _Estimate:
    """Return the product of all memberships, which all count as certain."""
    product = np.prod([_shares(M) + _DOUBT for M in members], axis=0)
    return _Estimate(_shares(product), np.ones(len(product), dtype=bool))


def _softened(M: Array, kept: NDArray[np.bool_], y: Ids) -> Array:
    """Return the memberships of all rows of a domain, given those of the rows that are kept.

    They are the roots of the estimated ones, which are too sure after balancing and sharpening. The
    other rows have their label; if there are groups of new rows, each is a class.
    """
    members = np.zeros((len(y), max(M.shape[1], 1 + int(y.max()))))
    members[np.flatnonzero(kept), : M.shape[1]] = _shares(np.sqrt(_shares(M)))
    others = np.flatnonzero(~kept)
    members[others, y[others]] = 1.0
    return members


def _shares(M: Array) -> Array:
    return np.asarray(M / np.maximum(M.sum(axis=1, keepdims=True), _TINY))
