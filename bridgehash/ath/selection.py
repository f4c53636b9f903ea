"""Choose λ without labels: by cycle consistency.

From a row of one domain, go to its nearest rows of the other domain in Hamming distance, and from
these back to their nearest rows. If the two domains are joined well, the rows reached are similar
to the row one started from, compared in the features of their own domain. If λ is too small the
domains are apart; if it is too large many codes are equal. Both lead back to other rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._core.arrays import array_namespace
from .._core.linalg import Array, unit_rows
from ..neighbors.graphs import from_rows, operator
from ..neighbors.search import find_neighbors, find_other_neighbors
from .class_codes import signs

_NEAREST = 5
FIRST_LAM = 0.7
WEAK_LAM = 0.2  # for a bridge that is arbitrary
_SMALLEST, _LARGEST = FIRST_LAM / 64.0, FIRST_LAM * 64.0


def neighbour_means(columns: Any, kind: Array, width: int) -> Any:
    """Return the operator that averages the rows in `columns` for each row."""
    xp = array_namespace(kind)
    weights = xp.full(columns.shape, 1.0 / columns.shape[1], dtype=kind.dtype)
    return operator(from_rows(weights, columns, width))


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
            near = neighbour_means(find_other_neighbors(U, k, None)[1], U, U.shape[0])
            self._own.append(_mean_product(U, near @ U))

    def __call__(self, H_s: Array, H_t: Array) -> float:
        """Return the mean over both domains for projections H_s and H_t: 1 is perfect."""
        B_s, B_t = signs(H_s), signs(H_t)
        there, back = self._step(B_s, B_t), self._step(B_t, B_s)
        scores = []
        for U, own, go, come in zip(
            self._rows, self._own, (there, back), (back, there), strict=True
        ):
            scores.append(_mean_product(U, go @ (come @ U)) / own if own > 0 else 0.0)
        return sum(scores) / 2.0

    def _step(self, B: Array, B_other: Array) -> Any:
        n = B_other.shape[0]
        return neighbour_means(find_neighbors(B, B_other, min(_NEAREST, n), None)[1], B, n)


def _mean_product(A: Array, B: Array) -> float:
    return float(array_namespace(A).sum(A * B)) / A.shape[0]


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
