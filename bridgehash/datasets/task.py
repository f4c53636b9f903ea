"""A transfer task: who is source, who is target, and which rows of the target ask."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._core.linalg import Array
from .._core.validation import UNKNOWN, check_domain, check_labels, class_ids


@dataclass(frozen=True)
class TransferTask:
    """One split: training rows of both domains, and queries drawn from the target.

    Cross-domain retrieval searches the source with the queries, single-domain retrieval the
    training rows of the target. Labels say what is relevant; which of them a method may see
    in training is the method's affair, or its supervision level's.

    Arrays are as they were given where all of a domain is kept, so they may be read-only.
    """

    X_source: Array
    X_target: Array
    X_query: Array
    y_source: NDArray[np.intp]
    y_target: NDArray[np.intp]
    y_query: NDArray[np.intp]

    @classmethod
    def split(
        cls,
        X_source: ArrayLike,
        y_source: ArrayLike,
        X_target: ArrayLike,
        y_target: ArrayLike,
        *,
        n_queries: int = 500,
        n_train: int | None = None,
        seed: int = 0,
    ) -> TransferTask:
        """Draw queries from the target uniformly, without replacement; the rest trains.

        `n_train` keeps that many random training rows of each domain, or all of a domain that
        has fewer. They come in the order that the seed draws, so with the same seed the first
        rows of a larger `n_train` are those of a smaller one, and the queries are the same.
        """
        X_s, X_t = check_domain(X_source, "X_source"), check_domain(X_target, "X_target")
        y_s, y_t = class_ids(
            _labels(y_source, len(X_s), "y_source"), _labels(y_target, len(X_t), "y_target")
        )
        _check_queries(n_queries, len(X_t), "target rows")
        _check_train(n_train, max(len(X_s), len(X_t) - n_queries))
        rng = np.random.default_rng(seed)
        order = rng.permutation(len(X_t))
        query, train = order[:n_queries], order[n_queries:][:n_train]
        assert y_s is not None
        assert y_t is not None
        if n_train is not None:
            kept = rng.permutation(len(X_s))[:n_train]  # drawn last: the queries do not move
            X_s, y_s = X_s[kept], y_s[kept]
        return cls(X_s, X_t[train], X_t[query], y_s, y_t[train], y_t[query])

    @classmethod
    def single(
        cls,
        X: ArrayLike,
        y: ArrayLike,
        *,
        n_queries: int,
        n_train: int | None = None,
        seed: int = 0,
    ) -> TransferTask:
        """One data set alone: queries are drawn, all other rows are source and target at once.

        The paper reports such sets and does not say how one set becomes two domains, so this is
        a choice, and the simplest one: no row is lost, nothing depends on a cut, and searching
        the source is searching the target. `X_source` and `X_target` are the same array.

        Each class gives the same number of queries where `n_queries` is a multiple of the number
        of classes and every class has more rows than that (CIFAR-10: 100 of each class, 1,000 in
        all, and 59,000 rows to train on); elsewhere they are drawn uniformly. `n_train` keeps
        that many of the other rows, nested as in `split`.

        >>> X, y = np.arange(12.0).reshape(6, 2), ["a", "a", "a", "b", "b", "b"]
        >>> task = TransferTask.single(X, y, n_queries=2, seed=0)
        >>> np.bincount(task.y_query), len(task.X_target), task.X_source is task.X_target
        (array([1, 1]), 4, True)
        """
        X = check_domain(X, "X")
        ids, _ = class_ids(_labels(y, len(X), "y"), None)
        assert ids is not None
        _check_queries(n_queries, len(X), "rows")
        _check_train(n_train, len(X) - n_queries)
        order = np.random.default_rng(seed).permutation(len(X))
        asks = _first_of_each_class(ids[order], n_queries)
        query, train = order[asks], order[~asks][:n_train]
        X_train, y_train = X[train], ids[train]
        return cls(X_train, X_train, X[query], y_train, y_train, ids[query])


def _first_of_each_class(y: NDArray[np.intp], n: int) -> NDArray[np.bool_]:
    """Marks n rows: as many from the front of each class as will do, else the n first of all."""
    classes, counts = np.unique(y[y != UNKNOWN], return_counts=True)
    if len(classes) == 0 or n % len(classes) or counts.min() <= n // len(classes):
        return np.arange(len(y)) < n
    marked = np.zeros(len(y), dtype=bool)
    for k in classes:
        marked[np.flatnonzero(y == k)[: n // len(classes)]] = True
    return marked


def _check_queries(n_queries: int, n: int, what: str) -> None:
    if not 1 <= n_queries <= n - 2:
        raise ValueError(
            f"n_queries={n_queries} of {n} {what}; "
            f"give 1 to {n - 2}, so that two rows are left to train on"
        )


def _check_train(n_train: int | None, most: int) -> None:
    if n_train is not None and not 2 <= n_train <= most:
        raise ValueError(f"n_train={n_train} is not allowed: give 2 to {most}, or None for all")


def _labels(y: ArrayLike, n: int, name: str) -> NDArray[Any]:
    checked = check_labels(y, n, name)
    assert checked is not None
    return checked
