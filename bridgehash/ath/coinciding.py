"""Whether the classes of two domains coincide: do two ways to estimate labels agree?

Labels by votes of the nearest rows (see `spreading`) and by directions of class means (see
`directions`) make different mistakes. If the classes coincide, both find them. If not, rows of new
classes go where each way happens to put them, and the mean of a class does not point where that of
its rows does.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..models.training import Ids
from .directions import by_directions, centred_parts, cosines_of_means
from .likeness import N_VOTERS, Space, settled_labels, short_spread, two_groups
from .spreading import Rows, votes

_COINCIDE = 0.52  # least score of classes that coincide
_CLEAR = 0.25  # least cosine of the rows that are nearest to a class: else the gap hides classes
_CARRIED = 0.55  # least cosine of labelled rows to their own class: else features do not show them
_UNLIKE = 0.5  # cosine between the means of a class, relative to the median of the classes
_LEAST_CLASSES = 2  # that remain


class Coincidence(NamedTuple):
    """How well the labels of rows fit the classes of the other domain."""

    score: float
    clear: bool  # whether rows are near enough to a class, in either domain, to tell anything
    unlike: NDArray[np.bool_]  # (n_classes,): the rows that get this class are of another one
    new: NDArray[np.bool_]  # (n,): both ways give a class that is unlike

    @property
    def doubtful(self) -> bool:
        """Whether the classes seem not to coincide."""
        return self.clear and self.score < _COINCIDE


def coincidence(there: Rows, here: Rows, features: Space) -> Coincidence:
    """Compare the classes of labelled rows with what rows of another domain make of them.

    The score is the sum of how far both labels of the rows agree (mean Jaccard index of the
    classes), and of the mean cosine between the means of the two classes that fit least, minus the
    gap between two groups of rows in their cosine to the nearest class.
    """
    n, S = features.n_classes, features.S
    counted = votes(there.unit, there.y, here.unit, N_VOTERS, n)
    by_votes = np.where(here.y >= 0, here.y, settled_labels(S, short_spread(S, counted)))
    by_means = by_directions(there, here, n).argmax(axis=1)
    X, Y = centred_parts(there, here)
    plain, *others = (
        cosines
        for labels in (by_votes, by_means)
        for cosines in cosines_of_means(X, there.y, Y, labels, n)
    )
    gap = two_groups(features.best)
    classes = np.flatnonzero(features.present)
    agreement, least = _jaccard(by_votes, by_means, classes), np.sort(plain[classes])[:2].mean()
    unlike = np.zeros(n, dtype=bool)
    fits = np.mean([plain, *others], axis=0)[classes]
    low = classes[fits < _UNLIKE * np.median(fits)]
    unlike[low] = len(classes) - len(low) >= _LEAST_CLASSES
    unlike &= ~here.present(n)
    new = (here.y < 0) & unlike[by_votes] & unlike[by_means]
    score = float(agreement + least - (gap.high - gap.low))
    clear = gap.high >= _CLEAR and features.own[classes].mean() >= _CARRIED
    return Coincidence(score, bool(clear), unlike, new)


def _jaccard(first: Ids, second: Ids, classes: Ids) -> float:
    """Return the mean over the classes of the rows in both, relative to the rows in either.

    >>> _jaccard(np.array([0, 0, 1, 1]), np.array([0, 0, 0, 1]), np.array([0, 1]))
    0.5833333333333333
    """
    shares = []
    for c in classes:
        both, either = (first == c) & (second == c), (first == c) | (second == c)
        shares.append(both.sum() / max(int(either.sum()), 1))
    return float(np.mean(shares))
