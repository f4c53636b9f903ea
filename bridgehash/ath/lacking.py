"""Source classes that the rows of the other domain lack: the set whose absence explains most.

Without some classes the others give labels to all rows. The right set scores high in four ways:
the labels fit the k-NN graph (modularity), balancing moves few rows to another class, and in
whitened features each class mean of the rows points where the mean of the source class does,
which again gives labels that fit the graph. Means are relative to the centre of the classes that
are left, so a wrong set turns all of them. If rows form fewer groups than there are classes, less
is asked of the set.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from .._core.linalg import Array, unit_rows
from ..models.training import Ids
from ..neighbors.search import nearest
from .directions import centred_parts, class_means, whitening
from .groups import grouped
from .likeness import (
    N_NEIGHBORS,
    N_VOTERS,
    Space,
    averaged,
    modularity,
    settled_labels,
    short_spread,
)
from .spreading import Rows, neighbour_graph

_STAYS = 0.3  # weight of the rows that keep the class of their votes, beside modularity
_GAIN, _DOUBT = 0.27, 0.5  # of the score of a set of classes, by agreement: see `find_lacking`
_GAINS = 0.06, 0.12  # at least, at most
_COINCIDE, _ALIKE = 0.7, 0.4  # the more all classes coincide, the more a set has to gain
_PART = 0.25  # of the classes: fewer private ones do little harm
_GROUPS = 0.2  # if they do not, the more of them find no group of rows, the less it has to gain
_FORM_GROUPS = 0.75  # groups of labelled rows, at least, relative to their classes
_TRIED, _MOVES, _NEAR = 12, 4, 3  # sets of classes: tried in order, improved, classes beyond
_SAMPLE, _GROUPED = 1000, 2000  # rows whose votes are compared, that are divided into groups
_SMALLEST = 5  # rows that stand for a class
_CENTRINGS = 3
_TINY = 1e-12


def find_lacking(
    there: Rows,
    here: Rows,
    features: Space,
    bridged: Space,
    bridged_without: Callable[[NDArray[np.bool_]], Space],
    coincidence: float = 0.0,
    clear: bool = True,
) -> NDArray[np.bool_]:
    """Mark classes of the labelled domain that no row here has.

    Classes that hardly any row votes for are lacking. Of the others, first the least likely ones
    are left out, one more each time. Then the best set is improved by single exchanges, additions
    and removals. The set has to gain less if the labels by features and by the bridge disagree
    while no class is left out, and more if all classes coincide. If they do not, it has to gain
    less if many of them find no group of rows. If it gains enough, it is improved once more after a
    bridge without these classes, because they had misled the first one.

    Parameters
    ----------
    there, here : Rows
        All rows there have a label. Classes of labelled rows here are not lacking.
    features, bridged : Space
        The same rows, compared by their features, and after a bridge.
    bridged_without : function of a mask of the classes
        Returns the same rows after a bridge that has not seen these classes.
    coincidence : float, default=0.0
        How well all classes fit the rows: the score of `coinciding`.
    clear : bool, default=True
        Whether rows are near enough to a class to tell anything: see there, too.

    Returns
    -------
    array of shape (n_classes,)
    """
    known = here.present(features.n_classes)
    lacking = features.present & ~known & features.hardly_voted & bridged.hardly_voted
    votes, directions = _Votes(features, bridged), _Directions(there, here, features)
    score = _Score(votes, directions)
    order = _least_likely(features, bridged, known)
    n = int(features.present.sum())
    numbers = np.unique(np.linspace(1, min(len(order), n - 2), _TRIED).round().astype(int))
    best = max((frozenset(order[:m].tolist()) for m in numbers), key=score, default=frozenset())
    best = _improved(best, order, n, score)
    needed = np.clip(_GAIN - _DOUBT * (1.0 - votes.agreement()), *_GAINS)
    needed += _COINCIDE * max(0.0, coincidence - _ALIKE)
    if clear and coincidence < _ALIKE:
        needed -= _GROUPS * _without_group(features)
    if len(best) > _PART * n and score(best) - score(frozenset()) > needed:
        again = bridged_without(np.isin(np.arange(len(lacking)), list(best)))
        best = _improved(best, order, n, _Score(_Votes(features, again), directions))
        lacking[list(best)] = True
    return lacking


def _improved(
    best: frozenset[int], order: Ids, n: int, score: Callable[[frozenset[int]], float]
) -> frozenset[int]:
    """Return the set after a few moves to a better neighbour."""
    for _ in range(_MOVES):
        better = max(_neighbours(best, order[: len(best) + _NEAR], n), key=score, default=best)
        if score(better) <= score(best):
            break
        best = better
    return best


def _neighbours(chosen: frozenset[int], candidates: Ids, n: int) -> list[frozenset[int]]:
    """Return the sets that differ by one class, or by an exchange of two."""
    others = [c for c in candidates.tolist() if c not in chosen]
    fewer = [chosen - {c} for c in chosen if len(chosen) > 1]
    more = [chosen | {c} for c in others if len(chosen) < n - 2]
    return fewer + more + [chosen - {c} | {d} for c in chosen for d in others]


class _Score:
    """How well the rows are explained if some classes are lacking: the sum of two explanations."""

    def __init__(self, *explanations: Callable[[frozenset[int]], float]) -> None:
        self._explanations = explanations
        self._known: dict[frozenset[int], float] = {}

    def __call__(self, lacking: frozenset[int]) -> float:
        """Return the score without these classes."""
        if lacking not in self._known:
            self._known[lacking] = sum(explain(lacking) for explain in self._explanations)
        return self._known[lacking]


class _Votes:
    """Labels by votes of the nearest labelled rows, balanced.

    The sum of their modularity, and of the parts of the rows that keep the class of their votes,
    among the bridged rows and among the features.
    """

    def __init__(self, features: Space, bridged: Space) -> None:
        step = -(-len(bridged.Y) // _SAMPLE)
        some = slice(None, None, step)
        self._W = features.S if step == 1 else neighbour_graph(features.Y[some], N_NEIGHBORS)
        self._S = bridged.S if step == 1 else neighbour_graph(bridged.Y[some], N_NEIGHBORS)
        self._votes = [
            _VotesWithout(space.X, space.y, space.Y[some], space.n_classes)
            for space in (bridged, features)
        ]

    def agreement(self) -> float:
        """Return the part of the rows that get one label by features and by the bridge."""
        bridged, other = self._evidence(frozenset())
        return float((settled_labels(self._S, bridged) == settled_labels(self._W, other)).mean())

    def _evidence(self, lacking: frozenset[int]) -> tuple[Array, Array]:
        bridged, features = self._votes
        return short_spread(self._S, bridged(lacking)), short_spread(self._W, features(lacking))

    def __call__(self, lacking: frozenset[int]) -> float:
        evidence, other = self._evidence(lacking)
        labels = settled_labels(self._S, evidence)
        stays = sum(float((labels == free.argmax(axis=1)).mean()) for free in (evidence, other))
        return modularity(self._W, labels) + _STAYS * stays


class _Directions:
    """Labels by the directions of class means, in whitened features.

    The sum of their modularity, and of the mean cosine between the means of a class in both
    domains. Variation inside classes, and of rows about their neighbourhood, has variance one.
    """

    def __init__(self, there: Rows, here: Rows, features: Space) -> None:
        X, Y = centred_parts(there, here)
        self._S, self._present = features.S, features.present
        means, averages = class_means(X, there.y, features.n_classes), averaged(self._S, Y)
        R = whitening(X - means[there.y], Y - averages)
        self._means, self._rows = means @ R, averages @ R

    def __call__(self, lacking: frozenset[int]) -> float:
        left = np.flatnonzero(self._present)
        left = left[~np.isin(left, list(lacking))]
        M, n = self._means[left], len(left)
        centre, origin = self._rows.mean(axis=0), M.mean(axis=0)
        for _ in range(_CENTRINGS):
            labels = (unit_rows(self._rows - centre) @ unit_rows(M - origin).T).argmax(axis=1)
            found = class_means(self._rows, labels, n)
            large = np.bincount(labels, minlength=n) >= _SMALLEST
            if large.any():
                centre, origin = found[large].mean(axis=0), M[large].mean(axis=0)
        labels = (unit_rows(self._rows - centre) @ unit_rows(M - origin).T).argmax(axis=1)
        found, counts = class_means(self._rows, labels, n), np.bincount(labels, minlength=n)
        cosines = (unit_rows(found - centre) * unit_rows(M - origin)).sum(axis=1)
        return modularity(self._S, labels) + float(np.where(counts > 0, cosines, 0.0).mean())


class _VotesWithout:
    """Votes of the nearest labelled rows if some classes are left out."""

    def __init__(self, X: Array, y: Ids, Y: Array, n_classes: int) -> None:
        self._distances = np.full((len(Y), n_classes, N_VOTERS), np.inf)
        for c in np.unique(y):
            F = nearest(Y, X[y == c], min(N_VOTERS, int((y == c).sum())))[0]
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


def _least_likely(features: Space, bridged: Space, known: NDArray[np.bool_]) -> Ids:
    """Return the classes that may be lacking, by the sum of three ranks, least likely first.

    The ranks are those of how much better the class fits its own rows than the other rows do, of
    its share of the votes, and of the votes that come back to it from the rows that it chose.
    """
    classes = np.flatnonzero(features.present)
    top = max(_SMALLEST, len(features.Y) // (4 * len(classes)))
    fits, back = [], []
    chosen = nearest(features.X, features.Y, min(N_VOTERS, len(features.Y)))[1]
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


def _without_group(features: Space) -> float:
    """Return the part of the classes that find no group of rows.

    It is 0 if the labelled rows themselves form far fewer groups than they have classes.
    """
    n = int(features.present.sum())
    if _n_groups(features.X, n) < _FORM_GROUPS * n:
        return 0.0
    return 1.0 - _n_groups(features.Y, n) / n


def _n_groups(X: Array, most: int) -> int:
    step = -(-len(X) // _GROUPED)
    return len(np.unique(grouped(X[::step], most)))


def _top(values: Array, n: int) -> float:
    """Return the mean of the n largest values; 0 if there are not as many."""
    return float(np.sort(values)[-n:].mean()) if len(values) > n else 0.0
