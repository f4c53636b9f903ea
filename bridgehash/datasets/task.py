"""A transfer task: who is source, who is target, and which rows of the target ask."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._validation import check_domain, check_labels, class_ids
from ..linalg import Array


@dataclass(frozen=True)
class TransferTask:
    """One split: training rows of both domains, and queries drawn from the target.

    Cross-domain retrieval searches the source with the queries, single-domain retrieval the
    training rows of the target. Labels say what is relevant; which of them a method may see
    in training is the method's affair, or its supervision level's.
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
        seed: int = 0,
    ) -> TransferTask:
        """Draw queries from the target uniformly, without replacement; the rest trains."""
        X_s, X_t = check_domain(X_source, "X_source"), check_domain(X_target, "X_target")
        y_s, y_t = class_ids(
            _labels(y_source, len(X_s), "y_source"), _labels(y_target, len(X_t), "y_target")
        )
        if not 1 <= n_queries <= len(X_t) - 2:
            raise ValueError(
                f"n_queries={n_queries} of {len(X_t)} target rows; "
                f"give 1 to {len(X_t) - 2}, so that two rows are left to train on"
            )
        order = np.random.default_rng(seed).permutation(len(X_t))
        query, train = order[:n_queries], order[n_queries:]
        assert y_s is not None
        assert y_t is not None
        return cls(X_s, X_t[train], X_t[query], y_s, y_t[train], y_t[query])


def _labels(y: ArrayLike, n: int, name: str) -> NDArray[Any]:
    checked = check_labels(y, n, name)
    assert checked is not None
    return checked
