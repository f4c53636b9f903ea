"""`WithSource`: a two-domain method as an ordinary estimator of the target."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted

from .._core.errors import InputError
from .._core.validation import check_labels, class_ids
from ..metrics import distance_histogram, precision_at
from ..models.base import BaseTransferHasher


class WithSource(TransformerMixin, BaseEstimator):
    """A two-domain method together with its source, for the search tools of scikit-learn.

    `fit(X, y)` learns from the source and from target rows X, and `score(X, y)` searches the source
    with other target rows. So `GridSearchCV` splits the target only.

    Parameters
    ----------
    hasher : BaseTransferHasher
        Such as `ATH.supervised()`; it is cloned.
    X_source : array of shape (n_source, d_source)
    y_source : array of class ids or names
        -1 marks an unknown class.

    Attributes
    ----------
    hasher_ : BaseTransferHasher
        The fitted method.

    Examples
    --------
    >>> from sklearn.model_selection import GridSearchCV
    >>> from bridgehash import ATH
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(60) % 3
    >>> X, Z = rng.normal(size=(60, 8)) + 2 * y[:, None], rng.normal(size=(60, 5)) + 2 * y[:, None]
    >>> model = WithSource(ATH.supervised(random_state=0), X, y)
    >>> search = GridSearchCV(model, {"hasher__n_bits": [8, 16]}, cv=3).fit(Z, y)
    >>> search.best_score_ > 0.5
    np.True_
    """

    def __init__(self, hasher: BaseTransferHasher, X_source: Any, y_source: Any) -> None:
        self.hasher = hasher
        self.X_source = X_source
        self.y_source = y_source

    def fit(self, X: Any, y: ArrayLike | None = None) -> Self:
        """Learn from the source and from target rows X.

        Parameters
        ----------
        X : array of shape (n, d_target)
        y : array of class ids or names, optional
            -1 marks an unknown class.

        Returns
        -------
        self
        """
        self.hasher_ = clone(self.hasher).fit(self.X_source, X, y_source=self.y_source, y_target=y)
        return self

    def transform(self, X: Any) -> NDArray[np.int8]:
        """Return the codes of target rows as ±1, shape (n, n_bits)."""
        check_is_fitted(self, "hasher_")
        codes: NDArray[np.int8] = self.hasher_.transform(X, "target")
        return codes

    def score(self, X: Any, y: ArrayLike) -> float:
        """Return the share of the first ten source items that have the class of a target query.

        Parameters
        ----------
        X : array of shape (n, d_target)
            Queries.
        y : array of class ids or names
            Their classes; queries of an unknown class (-1) do not count.

        Returns
        -------
        float
            Mean over the queries, from 0 to 1; ties count in expectation.
        """
        check_is_fitted(self, "hasher_")
        return precision_across(self.hasher_, X, y, self.X_source, self.y_source)


def precision_across(
    hasher: BaseTransferHasher, X: Any, y: Any, X_source: Any, y_source: Any
) -> float:
    """Return the precision of the first ten source items of target queries X."""
    names = list(hasher.encoders_)
    items = hasher.encode(X_source, names[0])
    queries = hasher.encode(X, names[1])
    labels = check_labels(y, len(queries), "y"), check_labels(y_source, len(items), "y_source")
    y_query, y_item = class_ids(*labels)
    if y_query is None or y_item is None:
        raise InputError("missing; a score needs the classes of queries and of source rows", "y")
    known = y_query >= 0
    if not known.any():
        raise InputError("no query has a known class", "y")
    histogram = distance_histogram(
        queries[known],
        items[y_item >= 0],
        y_query[known],
        y_item[y_item >= 0],
        n_bits=hasher.encoder(names[1]).n_bits,
    )
    return float(precision_at(histogram, 10))
