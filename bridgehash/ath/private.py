"""Classes without a counterpart: source classes that the target lacks, target rows of new classes.

Label propagation assumes that both domains have the same classes. `find_private` tests this first,
with labels of one domain ("there") and none, or few, of the other ("here"). See "Classes without a
counterpart" in docs/maths.md.

Rows are new if they resemble no class: their cosines to the nearest class mean, averaged over the
neighbourhood, fall into two groups that are far apart, or groups of such rows fit the k-NN graph
better than the labels that propagation gives them (modularity). Of the other rows, classes are
lacking if labels spread without them fit the graph better, and if balancing moves fewer rows to
another class.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.linalg import eigsh
from sklearn.cluster import KMeans

from .._core.errors import CounterpartWarning
from .._core.linalg import Array, principal
from ..models.rejector import Rejector
from ..models.training import Domains, Ids
from ..neighbors.graphs import one_hot
from ..neighbors.search import nearest
from .spreading import Rows, neighbour_graph, settled, spread_labels, votes

_NEIGHBORS, _VOTERS, _ALPHA, _STEPS = 10, 20, 0.9, 50
_DIRECTIONS = 128  # principal directions in which rows are averaged
_LEAST_ROWS, _LEAST_PER_CLASS, _LEAST_CLASSES = 100, 10, 4  # with fewer nothing can be told
_SPLIT = 0.1  # least part of the rows in either of two groups
_LEAST_SURE = 0.6  # agreement on classes between features and bridge, to tell anything
_FAR = 0.45  # between two groups of rows: their cosines, relative to those of the labelled rows
_NEW, _NOT_NEW = 0.15, 0.85  # part of the rows that may be private
_LOW = 0.84  # likeness of the lowest quarter, relative to the surest half of its class
_FAR_BRIDGED = 0.35  # between two groups of rows after an unsupervised bridge
_UNLIKE = 0.55  # likeness of new rows is less
_LIMITS = (0.55, 0.7)  # of the likeness of new rows, if the graph decides
_GAIN_OF_ROWS = 0.04  # in modularity
_HARDLY = 0.2  # of an equal share of the votes
_STAYS = 0.3  # weight of the rows that keep the class of their votes, beside modularity
_GAIN = 0.09  # of the score of a set of classes
_LEAST_MOVED = 0.02  # in the score: if balancing moves fewer rows, no class is lacking
_GAIN_OF_MOVE = 0.02  # of an exchange: the order of the classes is good evidence, too
_PART = 0.25  # of the classes: fewer private ones do little harm
_TRIED, _MOVES, _NEAR = 12, 4, 3  # sets of classes: tried in order, improved, classes beyond
_SAMPLE = 1000  # rows on which sets of classes are compared
_BRIDGED_ALPHA, _ROUNDS, _SHORT = 0.8, 3, 30
_SMALLEST = 5  # rows that stand for a class
_COARSE, _MEDIUM = 0.6, 0.8  # resolutions of modularity: less than one favours large groups
_TINY = 1e-12

Bridge = Callable[[NDArray[np.bool_], bool], tuple[Array, Array]]


class Private(NamedTuple):
    """What has no counterpart in the other domain."""

    classes: NDArray[np.bool_]  # (n_classes,) of the labelled domain
    groups: Ids  # (n,) of the rows here: 0, 1, … for groups of new rows, -1 for the others
    unlikeness: Array | None  # (n,) of the rows here: 0 like a class, 1 like none; None: not known


class Counterparts(NamedTuple):
    """Which classes the domains have in common."""

    shared: list[Any]
    private: dict[str, list[Any]]  # by domain: classes that no other domain has
    new: dict[str, float]  # by domain: share of the rows that resemble no class of the others

    @classmethod
    def of(cls, data: Domains) -> Counterparts | None:
        """Compare the labels of all domains; None if fewer than two have any."""
        if data.classes is None or sum(y is not None for y in data.y) < 2:
            return None
        n = len(data.classes)
        present = np.array([_present(y, n) for y in data.y])
        alone = present & (present.sum(axis=0) == 1)
        return cls(
            data.classes[present.sum(axis=0) > 1].tolist(),
            {
                name: data.classes[only].tolist()
                for name, only in zip(data.names, alone, strict=True)
            },
            {
                name: 0.0 if y is None else float((y >= n).mean())
                for name, y in zip(data.names, data.y, strict=True)
            },
        )


def _present(y: Ids | None, n_classes: int) -> NDArray[np.bool_]:
    return np.isin(np.arange(n_classes), [] if y is None else y)


def warn_of_private(data: Domains) -> None:
    """Warn with `CounterpartWarning` of what was found in domains without labels of all rows."""
    n = 0 if data.classes is None else len(data.classes)
    present = np.array([_present(y, n) for y in data.y])
    for k, found in data.private.items():
        name, new = data.names[k], float((found.groups >= 0).mean())
        if not new and not found.classes.any():
            continue
        told = [f"{new:.0%} of the rows of {name} resemble no class"] if new else []
        if lacking := int((present.any(axis=0) & ~present[k]).sum()):
            told.insert(0, f"{lacking} of {n} classes seem to have no rows in {name}")
        warnings.warn(
            f"{'; '.join(told)}. They keep codes of their own. Label a few rows of {name} to be "
            "sure, or set completion=Propagation(private=False) if its classes are the same",
            CounterpartWarning,
            stacklevel=3,
        )


def rejectors(data: Domains) -> dict[str, Rejector]:
    """Learn from the rows of each tested domain which ones have no counterpart."""
    learned = {}
    for k, found in data.private.items():
        if found.unlikeness is not None:
            limit = 1.0 - _UNLIKE if (found.groups >= 0).any() else None
            learned[data.names[k]] = Rejector.learned(data.X[k], found.unlikeness, limit)
    return learned


def find_private(there: Rows, here: Rows, n_classes: int, bridge: Bridge) -> Private:
    """Find classes of a labelled domain that the other one lacks, and rows of the other's own.

    Parameters
    ----------
    there : Rows
        All rows have a label.
    here : Rows
        Some rows may have a label.
    bridge : function of a mask of the rows here, and of whether the fit knows the labels
        Returns the rows there and these rows in a space where a fit has joined them.
    """
    classes, groups = np.zeros(n_classes, dtype=bool), np.full(len(here.y), -1)
    if len(groups) < _LEAST_ROWS or len(there.y) < _LEAST_PER_CLASS * n_classes:
        return Private(classes, groups, None)
    everything = np.ones(len(groups), dtype=bool)
    features, bridged = _spaces(there, here, bridge(everything, True), n_classes)
    if (features.label == bridged.label).mean() < _LEAST_SURE:
        return Private(classes, groups, 1.0 - features.likeness)
    likeness = _likeness_if_new(features, bridged, there, here, bridge)
    new = (likeness < _UNLIKE) & (here.y < 0)
    unlikeness = 1.0 - features.likeness
    if _may_be_new(new):
        groups[new] = _grouped(here.taken(new).centred, 2 * n_classes)
        unlikeness = 1.0 - likeness
        rest = here.taken(~new)
        features, bridged = _spaces(there, rest, bridge(~new, True), n_classes)
    if n_classes >= _LEAST_CLASSES:
        classes = _lacking(features, bridged, here.present(n_classes))
    return Private(classes, groups, unlikeness)


class _Space:
    """Rows of two domains in one space; the first have classes."""

    def __init__(self, X: Array, y: Ids, Y: Array, n_classes: int) -> None:
        self.X, self.y, self.Y, self.n_classes = X, y, Y, n_classes
        self.present = np.bincount(y, minlength=n_classes) > 0
        self.S = neighbour_graph(Y, _NEIGHBORS)
        P = principal(X, min(_DIRECTIONS, X.shape[1]), Y)
        means = _unit(one_hot(y, n_classes).T @ (X @ P))
        self.cosines = np.where(self.present, _unit(averaged(self.S, Y @ P)) @ means.T, -1.0)
        own = _unit(averaged(neighbour_graph(X, _NEIGHBORS), X @ P)) @ means.T
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
    def _levels(self) -> tuple[Array, float]:
        """Usual cosine of the surest half of each class, and of a class that is not their own."""
        usual, sure = np.full(self.n_classes, np.nan), np.zeros(len(self.label), dtype=bool)
        for c in np.unique(self.label):
            rows = np.flatnonzero(self.label == c)
            surest = rows[self.best[rows] >= np.median(self.best[rows])]
            usual[c], sure[surest] = np.median(self.best[surest]), True
        second = np.partition(self.cosines[sure], -2, axis=1)[:, -2]
        return usual, float(np.median(second))

    @cached_property
    def likeness(self) -> Array:
        """1: as near to a class as the surest rows are; 0: as near as they are to a wrong class."""
        usual, wrong = self._levels
        typical = float(np.median(usual[self.label]))
        return (self.best - wrong) / max(typical - wrong, _TINY)

    @cached_property
    def likeness_in_class(self) -> Array:
        """The same, relative to the surest rows of the same class."""
        usual, wrong = self._levels
        return (self.best - wrong) / np.maximum(usual[self.label] - wrong, _TINY)

    @cached_property
    def spread_votes(self) -> Array:
        """Shares of the classes among the nearest labelled rows, averaged over the graph."""
        V = averaged(self.S, votes(self.X, self.y, self.Y, _VOTERS, self.n_classes))
        return V / np.maximum(V.sum(axis=1, keepdims=True), _TINY)

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


def _unit(X: Array) -> Array:
    return X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), _TINY)


class _Groups(NamedTuple):
    low: float  # mean of the lower group
    high: float
    limit: float  # between them


def two_groups(values: Array) -> _Groups:
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
    return _Groups(float(low[k]), float(high[k]), float((v[k] + v[k + 1]) / 2.0))


def _spaces(
    there: Rows, here: Rows, projections: tuple[Array, Array], n_classes: int
) -> tuple[_Space, _Space]:
    """Return the rows compared by their features, and by features and projections together."""
    X, Y = (rows.joined_with(H) for rows, H in zip((there, here), projections, strict=True))
    features = _Space(there.centred, there.y, here.centred, n_classes)
    return features, _Space(X.unit, there.y, Y.unit, n_classes)


def _likeness_if_new(
    features: _Space, bridged: _Space, there: Rows, here: Rows, bridge: Bridge
) -> Array:
    """Return how like a class each row is; 1 for all if no group of rows resembles no class.

    Rows are new if the features show two groups, if the graph does, or if both bridges do.
    """
    relative = features.best / np.maximum(features.own[features.label], _TINY)
    groups = two_groups(relative)
    both = _may_be_new(features.likeness < 0.5) and _may_be_new(relative < groups.limit)
    if groups.high - groups.low > _FAR and both:
        return relative * (_UNLIKE / groups.limit)
    gains = {limit: _gain(features, bridged, features.likeness < limit) for limit in _LIMITS}
    limit = max(gains, key=gains.__getitem__)
    if gains[limit] > _GAIN_OF_ROWS:
        return features.likeness * (_UNLIKE / limit)
    if np.quantile(bridged.likeness_in_class, 0.25) < _LOW:
        projections = bridge(np.ones(len(here.y), dtype=bool), False)
        space = _spaces(there, here, projections, features.n_classes)[1]
        groups = two_groups(space.best)
        if groups.high - groups.low > _FAR_BRIDGED:
            return (features.likeness + space.likeness) / 2.0
    return np.ones(len(here.y))


def _may_be_new(rows: NDArray[np.bool_]) -> bool:
    return bool(_NEW < rows.mean() < _NOT_NEW)


def _gain(features: _Space, bridged: _Space, new: NDArray[np.bool_]) -> float:
    """Return what modularity gains if some rows are groups of their own."""
    if not _may_be_new(new):
        return 0.0
    counted = votes(bridged.X, bridged.y, bridged.Y, _VOTERS, bridged.n_classes)
    labels = _labels(bridged.S, spread_labels(bridged.S, counted, _BRIDGED_ALPHA, _SHORT))
    with_groups = labels.copy()
    with_groups[new] = features.n_classes + _grouped(features.Y[new], 2 * features.n_classes)
    before, after = (modularity(features.S, y, _MEDIUM) for y in (labels, with_groups))
    return after - before


def _labels(S: csr_array, evidence: Array) -> Ids:
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


def _lacking(features: _Space, bridged: _Space, known: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Mark classes that no row here has: the set whose absence explains the rows best.

    Classes that hardly any row votes for are lacking. Of the others, first the least likely ones
    are left out, one more each time. Then the best set is improved by single exchanges, additions
    and removals.
    """
    lacking = features.present & ~known & features.hardly_voted & bridged.hardly_voted
    score = _Score(features, bridged)
    order = _least_likely(features, bridged, known)
    n = int(features.present.sum())
    start = score(frozenset())
    if start > score.limit - _LEAST_MOVED:
        return lacking
    numbers = np.unique(np.linspace(1, min(len(order), n - 2), _TRIED).round().astype(int))
    best = max((frozenset(order[:m].tolist()) for m in numbers), key=score, default=frozenset())
    for _ in range(_MOVES):
        better = max(_neighbours(best, order[: len(best) + _NEAR], n), key=score, default=best)
        if score(better) <= score(best) + _GAIN_OF_MOVE:
            break
        best = better
    if len(best) > _PART * n and score(best) > start + _GAIN:
        lacking[list(best)] = True
    return lacking


def _neighbours(chosen: frozenset[int], candidates: Ids, n: int) -> list[frozenset[int]]:
    """Return the sets that differ by one class, or by an exchange of two."""
    others = [c for c in candidates.tolist() if c not in chosen]
    fewer = [chosen - {c} for c in chosen if len(chosen) > 1]
    more = [chosen | {c} for c in others if len(chosen) < n - 2]
    return fewer + more + [chosen - {c} | {d} for c in chosen for d in others]


class _Score:
    """How well the rows are explained if some classes are lacking.

    The sum of the modularity of the labels that the other classes give, and of the parts of the
    rows that keep the class of their votes, among the bridged rows and among the features.
    """

    def __init__(self, features: _Space, bridged: _Space) -> None:
        step = -(-len(bridged.Y) // _SAMPLE)
        some = slice(None, None, step)
        self._W = features.S if step == 1 else neighbour_graph(features.Y[some], _NEIGHBORS)
        self._S = bridged.S if step == 1 else neighbour_graph(bridged.Y[some], _NEIGHBORS)
        self._votes = [
            _VotesWithout(space.X, space.y, space.Y[some], space.n_classes)
            for space in (bridged, features)
        ]
        self._known: dict[frozenset[int], float] = {}
        self.limit = 1.0  # none lacking

    def __call__(self, lacking: frozenset[int]) -> float:
        """Return the score without these classes."""
        if lacking not in self._known:
            self._known[lacking] = self._compute(lacking)
        return self._known[lacking]

    def _compute(self, lacking: frozenset[int]) -> float:
        evidence, other = (
            spread_labels(S, counted(lacking), _BRIDGED_ALPHA, _SHORT)
            for S, counted in zip((self._S, self._W), self._votes, strict=True)
        )
        labels = _labels(self._S, evidence)
        stays = sum(float((labels == free.argmax(axis=1)).mean()) for free in (evidence, other))
        Q = modularity(self._W, labels)
        if not lacking:
            self.limit = Q + 2 * _STAYS
        return Q + _STAYS * stays


class _VotesWithout:
    """Votes of the nearest labelled rows if some classes are left out."""

    def __init__(self, X: Array, y: Ids, Y: Array, n_classes: int) -> None:
        self._distances = np.full((len(Y), n_classes, _VOTERS), np.inf)
        for c in np.unique(y):
            F = nearest(Y, X[y == c], min(_VOTERS, int((y == c).sum())))[0]
            self._distances[:, c, : F.shape[1]] = F

    def __call__(self, lacking: frozenset[int]) -> Array:
        n, n_classes, k = self._distances.shape
        D = self._distances.copy()
        D[:, list(lacking)] = np.inf
        flat = D.reshape(n, -1)
        chosen = np.argpartition(flat, k - 1, axis=1)[:, :k]
        counts = np.zeros((n, n_classes))
        valid = np.isfinite(np.take_along_axis(flat, chosen, axis=1))
        np.add.at(counts, (np.arange(n)[:, None], chosen // k), valid / k)
        return counts


def _least_likely(features: _Space, bridged: _Space, known: NDArray[np.bool_]) -> Ids:
    """Return the classes that may be lacking, by the sum of three ranks, least likely first.

    The ranks are those of how much better the class fits its own rows than the other rows do, of
    its share of the votes, and of the votes that come back to it from the rows that it chose.
    """
    classes = np.flatnonzero(features.present)
    top = max(_SMALLEST, len(features.Y) // (4 * len(classes)))
    fits, back = [], []
    chosen = nearest(features.X, features.Y, min(_VOTERS, len(features.Y)))[1]
    for c in classes:
        column = features.cosines[:, c]
        best, others = _top(column, top), _top(column[features.label != c], top)
        fits.append((best - others) / max(best, _TINY))
        back.append(features.spread_votes[chosen[features.y == c], c].mean())
    first = bridged.spread_votes.argmax(axis=1)
    shares = np.bincount(first, minlength=features.n_classes)[classes]
    ranks = sum(np.argsort(np.argsort(v)) for v in (np.array(fits), shares, np.array(back)))
    order = classes[np.argsort(ranks, kind="stable")]
    return order[~known[order]]


def _top(values: Array, n: int) -> float:
    """Return the mean of the n largest values; 0 if there are not as many."""
    return float(np.sort(values)[-n:].mean()) if len(values) > n else 0.0


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


def _grouped(X: Array, most: int) -> Ids:
    """Return groups of rows: spectral clusters of their k-NN graph, as many as it suggests."""
    most = min(most, len(X) // (2 * _NEIGHBORS))
    best = np.zeros(len(X), dtype=np.intp)
    if most < 2:
        return best
    S = neighbour_graph(X, _NEIGHBORS)
    V = eigsh(S, most, which="LA", v0=np.ones(len(X)))[1][:, ::-1]
    score = modularity(S, best, _COARSE)
    for k in range(2, most + 1):
        labels = KMeans(k, n_init=2, random_state=0).fit_predict(_unit(V[:, :k]))
        if (found := modularity(S, labels, _COARSE)) > score:
            best, score = np.unique(labels, return_inverse=True)[1], found
    return best
