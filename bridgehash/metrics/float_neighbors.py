"""How many nearest neighbours in float space a search by codes finds."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._core.errors import InputError
from .._core.linalg import Array, unit_rows
from .._core.validation import check_foreign
from ..codes import hamming
from .histogram import DistanceHistogram, distance_histogram
from .ranking import recall_at

_BLOCK = 1 << 22  # cosines in memory at a time


def recall_of_neighbors(
    codes_query: ArrayLike,
    codes_database: ArrayLike,
    X_query: ArrayLike,
    X_database: ArrayLike,
    *,
    n_bits: int,
    k: int = 10,
) -> float:
    """Return the share of the k nearest rows by cosine that are among the first k by Hamming.

    Ties of the Hamming distance count in expectation. Rows whose cosine equals that of the k-th
    neighbour are neighbours too. The mean is over the queries.

    Parameters
    ----------
    codes_query, codes_database : uint8 arrays of shape (n, ceil(n_bits / 8))
        Packed codes.
    X_query, X_database : arrays of shape (n, d)
        The rows whose cosine decides what is near. The codes may come from another model.
    n_bits : int
        Length of the codes.
    k : int, default=10
        Number of neighbours, and of results.

    Examples
    --------
    >>> from bridgehash.codes import pack
    >>> database = pack([[1, 1], [1, -1], [-1, 1]])
    >>> X = np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]])
    >>> recall_of_neighbors(pack([[1, 1]]), database, X[:1], X, n_bits=2, k=2)
    0.75
    """
    queries = _unit_rows(X_query, "X_query", len(np.asarray(codes_query)))
    database = _unit_rows(X_database, "X_database", len(np.asarray(codes_database)))
    if queries.shape[1] != database.shape[1]:
        raise InputError(
            f"X_query has {queries.shape[1]} columns, X_database {database.shape[1]}; give rows of "
            "one model"
        )
    if not 1 <= k <= len(database):
        raise InputError(f"k={k} of {len(database)} database rows; give 1 to {len(database)}")
    same = (np.zeros(len(rows), dtype=np.int64) for rows in (queries, database))
    total = distance_histogram(codes_query, codes_database, *same, n_bits=n_bits).total
    relevant = np.zeros_like(total)
    codes_query, codes_database = np.asarray(codes_query), np.asarray(codes_database)
    step = max(1, _BLOCK // len(database))
    for start in range(0, len(queries), step):
        for i, near in enumerate(_nearest(queries[start : start + step], database, k), start):
            distances = hamming(codes_query[[i]], codes_database[near])[0]
            relevant[i] = np.bincount(distances, minlength=n_bits + 1)
    return recall_at(DistanceHistogram(total, relevant), k)


def _unit_rows(X: ArrayLike, name: str, n_codes: int) -> Array:
    checked: Array = check_foreign(np.asarray(X), name)
    if len(checked) != n_codes:
        raise InputError(f"has {len(checked)} rows for {n_codes} codes; give one per code", name)
    return unit_rows(checked)


def _nearest(queries: Array, database: Array, k: int) -> NDArray[np.bool_]:
    """Mark the database rows with the k largest cosines, with those that tie for the last place."""
    cosines = queries @ database.T
    return np.asarray(cosines >= -np.partition(-cosines, k - 1, axis=1)[:, [k - 1]])
