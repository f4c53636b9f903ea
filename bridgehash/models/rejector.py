"""Rejection: how likely a row is to have no counterpart in the other domains.

A linear function of the row says so, or one of the bits of its code, if only that is known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from .._core.arrays import to_numpy
from .._core.errors import InputError
from .._core.linalg import Array, unit_rows
from .._core.validation import Range
from ..codes import unpack
from .contents import Contents, Number, Values

if TYPE_CHECKING:
    from .encoder import LinearEncoder

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
            Features of the training rows, or their codes as ±1.
        unlikeness : array of shape (n,)
            0: as like a class as rows usually are; 1: like none.
        limit : float or None
            None: that of 99 % of the rows.
        """
        from sklearn.linear_model import RidgeCV  # slow to import, and only a fit needs it

        some = slice(None, None, -(-len(X) // _MAX_ROWS))
        rows, values = _unit(to_numpy(X)[some]), unlikeness[some]
        model = RidgeCV(_RIDGES).fit(rows, values)
        if limit is None:
            limit = float(np.quantile(model.predict(rows), _USUAL))
        return cls(model.coef_.astype(np.float64), float(model.intercept_), limit)

    def scores(self, X: Any) -> NDArray[np.float64]:
        """Return the scores of rows, shape (n,)."""
        return np.asarray(_unit(to_numpy(X)) @ self.weights + self.offset)

    def rejects(self, X: Any) -> NDArray[np.bool_]:
        """Return which rows have a score above the limit, shape (n,)."""
        return self.scores(X) > self.limit


def _unit(X: NDArray[Any]) -> NDArray[Any]:
    """Return rows of length one; whole numbers, such as bits, become floats."""
    return unit_rows(X if X.dtype.kind == "f" else X.astype(np.float64))


class RejectionMixin:
    """Methods of models that may have learned which rows have no counterpart."""

    rejectors_: dict[str, Rejector] | None = None  # by domain, of features
    code_rejectors_: dict[str, Rejector] | None = None  # by domain, of codes

    if TYPE_CHECKING:
        encoders_: dict[str, LinearEncoder]

        def encoder(self, domain: str) -> LinearEncoder: ...

    def rejection_score(self, X: Any, domain: str = "target") -> NDArray[np.float64]:
        """Return how likely rows have no counterpart in the other domains, shape (n,).

        About 0 for rows as like a class of the others as rows usually are, about 1 for rows that
        are like none. `ATH.propagated` learns it if the other domain has labels, of all rows or a
        few that agree, and the same features.
        """
        rejector = self._rejector(domain, self.rejectors_)
        return rejector.scores(self.encoder(domain)._checked(X))

    def rejects(self, X: Any, domain: str = "target") -> NDArray[np.bool_]:
        """Mark rows that seem to have no counterpart in the other domains."""
        rejector = self._rejector(domain, self.rejectors_)
        return rejector.rejects(self.encoder(domain)._checked(X))

    def code_rejection_score(self, codes: ArrayLike, domain: str = "target") -> NDArray[np.float64]:
        """Return the same as `rejection_score`, from codes alone, shape (n,).

        Use it if the features are not at hand: they say more than the code.

        Parameters
        ----------
        codes : uint8 array of shape (n, ceil(n_bits / 8))
            Packed codes of the domain, as `encode` returns them.
        domain : str, default="target"
        """
        rejector = self._rejector(domain, self.code_rejectors_)
        return rejector.scores(unpack(codes, self.encoder(domain).n_bits))

    def rejects_codes(self, codes: ArrayLike, domain: str = "target") -> NDArray[np.bool_]:
        """Mark codes of rows that seem to have no counterpart in the other domains.

        Parameters
        ----------
        codes : uint8 array of shape (n, ceil(n_bits / 8))
            Packed codes of the domain, as `encode` returns them.
        domain : str, default="target"
        """
        rejector = self._rejector(domain, self.code_rejectors_)
        return rejector.rejects(unpack(codes, self.encoder(domain).n_bits))

    def _rejector(self, domain: str, known: dict[str, Rejector] | None) -> Rejector:
        self.encoder(domain)  # refuses unknown domains
        if domain in (known or {}):
            return (known or {})[domain]
        if domain in (self.rejectors_ or {}):
            raise InputError(
                f"this model cannot tell which codes of {domain!r} have no counterpart, because "
                "they have changed since the fit; fit it again, or give features to "
                "rejection_score or rejects",
                "domain",
            )
        raise InputError(
            f"this model cannot tell which rows of {domain!r} have no counterpart; fit "
            "ATH.propagated with labels of the other domain, in one feature space",
            "domain",
        )

    def _check_rejectors(self) -> None:
        """Refuse rejectors that do not fit the encoders; run when a model is loaded."""
        for name, rejector in (self.rejectors_ or {}).items():
            _check_width(rejector, name, self.encoder(name).n_features_in_, "features")
        for name, rejector in (self.code_rejectors_ or {}).items():
            _check_width(rejector, name, self.encoder(name).n_bits, "bits")


def _check_width(rejector: Rejector, name: str, width: int, noun: str) -> None:
    if len(rejector.weights) != width:
        n = len(rejector.weights)
        raise ValueError(f"a rejector has {n} weights for {width} {noun} of {name}")
