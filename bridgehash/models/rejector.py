"""Rejection: how likely a row is to have no counterpart in the other domains."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from .._core.arrays import to_numpy
from .._core.linalg import Array, unit_rows
from .._core.validation import Range
from .contents import Contents, Number, Values

_RIDGES = 10.0 ** np.arange(-3, 3)
_MAX_ROWS = 5_000  # training rows, evenly spaced
_USUAL = 0.99  # part of the training rows that is not rejected if none of them is new
_FINITE = Number(Range(-1e300, 1e300))


class Rejector(BaseEstimator):
    """A linear function of unit rows.

    Parameters
    ----------
    weights : array of shape (d,)
    offset : float
    limit : float
        A row with a larger score is rejected.
    """

    _contents: ClassVar[Contents] = {
        "weights": Values("d"),
        "offset": _FINITE,
        "limit": _FINITE,
    }

    def __init__(self, weights: NDArray[np.float64], offset: float, limit: float) -> None:
        self.weights = weights
        self.offset = offset
        self.limit = limit

    def __sklearn_is_fitted__(self) -> bool:
        return True

    @classmethod
    def learned(cls, X: Array, unlikeness: Array, limit: float | None) -> Rejector:
        """Predict how unlike the other domains rows are, by ridge regression.

        Parameters
        ----------
        X : array of shape (n, d)
            Features of the training rows.
        unlikeness : array of shape (n,)
            0: as like a class as rows usually are; 1: like none.
        limit : float or None
            None: that of 99 % of the rows.
        """
        from sklearn.linear_model import RidgeCV  # slow to import, and only a fit needs it

        some = slice(None, None, -(-len(X) // _MAX_ROWS))
        rows, values = unit_rows(to_numpy(X)[some]), unlikeness[some]
        model = RidgeCV(_RIDGES).fit(rows, values)
        if limit is None:
            limit = float(np.quantile(model.predict(rows), _USUAL))
        return cls(model.coef_.astype(np.float64), float(model.intercept_), limit)

    def scores(self, X: Any) -> NDArray[np.float64]:
        """Return the scores of rows, shape (n,)."""
        return np.asarray(unit_rows(to_numpy(X)) @ self.weights + self.offset)

    def rejects(self, X: Any) -> NDArray[np.bool_]:
        """Return which rows have a score above the limit, shape (n,)."""
        return self.scores(X) > self.limit
