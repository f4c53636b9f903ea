"""Choose λ without labels: by cycle consistency.

From a row of one domain, go to its nearest rows of the other domain in Hamming distance, and from
these back to their nearest rows. If the two domains are joined well, the rows reached are similar
to the row one started from, compared in the features of their own domain. If λ is too small the
domains are apart; if it is too large many codes are equal. Both lead back to other rows.
"""

from __future__ import annotations

from collections.abc import Callable

from .._core.arrays import array_namespace
from .._core.linalg import Array, expected_places, unit_rows
from ..neighbors.search import find_other_neighbors
from .class_codes import signs

_NEAREST = 5
FIRST_LAM = 0.7
WEAK_LAM = 0.2  # for a bridge that is arbitrary
_SMALLEST, _LARGEST = FIRST_LAM / 64.0, FIRST_LAM * 64.0


class CycleConsistency:
    """Similarity of rows to the rows reached through the other domain, relative to neighbours.

    Parameters
    ----------
    X_s, X_t : arrays of shape (n_s, d_s), (n_t, d_t)
        Centred features of both domains.
    """

    def __init__(self, X_s: Array, X_t: Array) -> None:
        self._rows = unit_rows(X_s), unit_rows(X_t)
        self._own = []
        for U in self._rows:
            k = min(_NEAREST, U.shape[0] - 1)
            distances, _ = find_other_neighbors(U, k, None)
            self._own.append(1.0 - float(array_namespace(U).mean(distances)) / 2.0)

    def __call__(self, H_s: Array, H_t: Array) -> float:
        """Return the mean over both domains for projections H_s and H_t: 1 is perfect."""
        B_s, B_t = signs(H_s), signs(H_t)
        k = min(_NEAREST, B_s.shape[0], B_t.shape[0])
        D = -(B_s @ B_t.T)  # Hamming distances, up to a factor and a constant
        there, back = expected_places(D, k) / k, expected_places(D.T, k) / k
        scores = []
        for U, own, go, come in zip(
            self._rows, self._own, (there, back), (back, there), strict=True
        ):
            similarity = float(array_namespace(U).sum(U * (go @ (come @ U)))) / U.shape[0]
            scores.append(similarity / own if own > 0 else 0.0)
        return sum(scores) / 2.0


def best_lam(score: Callable[[float], float]) -> float:
    """Return the λ of the highest score: from 0.7, halved or doubled as long as the score rises.

    >>> best_lam(lambda lam: -abs(lam - 3.0))
    2.8
    """
    best, highest = FIRST_LAM, score(FIRST_LAM)
    for factor in (0.5, 2.0):
        while _SMALLEST < best < _LARGEST and (value := score(best * factor)) > highest:
            best, highest = best * factor, value
        if best != FIRST_LAM:
            break
    return best
