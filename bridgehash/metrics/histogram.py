"""Distance histograms: one pass over all pairs, from which every score is computed.

Codes of r bits have only r + 1 distances. If ties are ordered at random, a retrieval score depends
only on the number of items, and of relevant items, at each distance from a query. The pass works
on tiles of distances, so memory does not grow with the number of pairs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._core.errors import InputError
from .._core.validation import UNKNOWN
from ..codes import hamming_tiles, n_bytes


@dataclass(frozen=True, eq=False)
class DistanceHistogram:
    """Counts of database items by Hamming distance, one row per query.

    Parameters
    ----------
    total : int64 array of shape (n_query, n_bits + 1)
        Database items at distance 0, 1, ..., n_bits from each query.
    relevant : int64 array of the same shape
        Of these, the items that are relevant to the query.
    """

    total: NDArray[np.int64]
    relevant: NDArray[np.int64]

    def __post_init__(self) -> None:
        if self.total.ndim != 2 or self.total.shape != self.relevant.shape:
            raise InputError(
                "total and relevant must have the same shape (n_query, n_bits + 1); "
                f"got {self.total.shape} and {self.relevant.shape}"
            )
        if len(self.total) == 0:
            raise InputError("there are no queries; give at least one")
        if not self.total.any(axis=1).all():
            raise InputError("there are no database rows; give at least one")
        if (self.relevant < 0).any() or (self.relevant > self.total).any():
            raise InputError("relevant must be between 0 and total at every distance")

    @property
    def n_relevant(self) -> NDArray[np.int64]:
        """Return the number of relevant items per query, shape (n_query,)."""
        return np.asarray(self.relevant.sum(axis=1))


def distance_histogram(
    codes_query: ArrayLike,
    codes_database: ArrayLike,
    y_query: ArrayLike,
    y_database: ArrayLike,
    *,
    n_bits: int,
) -> DistanceHistogram:
    """Count the database items at each Hamming distance from each query.

    An item is relevant to a query if both have the same class label. A query label of -1 means
    that the class is unknown: no item is relevant to that query, not even one with label -1.

    Parameters
    ----------
    codes_query, codes_database : uint8 arrays of shape (n, ceil(n_bits / 8))
        Packed codes, as returned by `encode` and `bridgehash.codes.pack`.
    y_query, y_database : integer arrays of shape (n,)
        Class labels.
    n_bits : int
        Length of the codes; the histogram has one column per distance 0..n_bits.

    Returns
    -------
    hist : DistanceHistogram

    Examples
    --------
    >>> from bridgehash.codes import pack
    >>> database = pack([[1, 1], [1, -1], [-1, 1]])
    >>> hist = distance_histogram(pack([[1, 1]]), database, [7], [7, 7, 4], n_bits=2)
    >>> hist.total, hist.relevant
    (array([[1, 2, 0]]), array([[1, 1, 0]]))
    """
    codes_query = _checked_codes(codes_query, "codes_query", n_bits)
    codes_database = _checked_codes(codes_database, "codes_database", n_bits)
    y_query = checked_labels(y_query, "y_query", len(codes_query))
    y_database = checked_labels(y_database, "y_database", len(codes_database))

    by_label = np.argsort(y_database, kind="stable")  # each class becomes one range of columns
    first, last = (np.searchsorted(y_database[by_label], y_query, s) for s in ("left", "right"))
    last = np.where(y_query == UNKNOWN, first, last)
    total = np.zeros((len(codes_query), n_bits + 1), dtype=np.int64)
    relevant = np.zeros_like(total)
    for rows, columns, D in hamming_tiles(codes_query, codes_database[by_label]):
        start = np.maximum(first[rows] - columns.start, 0)
        stop = np.maximum(last[rows] - columns.start, 0)
        for i, distances in enumerate(D):
            total[rows.start + i] += _count(distances, n_bits)
            relevant[rows.start + i] += _count(distances[start[i] : stop[i]], n_bits)
    return DistanceHistogram(total, relevant)


def mean_recall(hist: DistanceHistogram, hits: NDArray[Any]) -> NDArray[np.float64]:
    """Return the mean of hits / n_relevant over the queries that have relevant items.

    Recall is undefined for the other queries, so they are left out. The result is 0 if no query
    has a relevant item.

    >>> hist = DistanceHistogram(np.array([[1, 3], [2, 2]]), np.array([[1, 1], [0, 0]]))
    >>> float(mean_recall(hist, hist.relevant[:, 0]))
    0.5
    """
    defined = hist.n_relevant > 0
    if not defined.any():
        return np.zeros(hits.shape[1:])
    return np.asarray((hits[defined].T / hist.n_relevant[defined]).T.mean(axis=0))


def _checked_codes(codes: ArrayLike, name: str, n_bits: int) -> NDArray[np.uint8]:
    codes = np.asarray(codes)
    if codes.dtype != np.uint8:
        raise InputError(f"must be packed uint8 codes, not {codes.dtype}; see codes.pack", name)
    if codes.ndim != 2 or codes.shape[1] != n_bytes(n_bits):
        raise InputError(
            f"has shape {codes.shape}; n_bits={n_bits} needs (n, {n_bytes(n_bits)})", name
        )
    return codes


def checked_labels(y: ArrayLike, name: str, n_rows: int) -> NDArray[np.int64]:
    """Return labels as integers, one per row."""
    y = np.asarray(y)
    if y.shape != (n_rows,):
        raise InputError(f"has shape {y.shape}; give one label per row, shape ({n_rows},)", name)
    if n_rows and not np.issubdtype(y.dtype, np.integer):
        raise InputError(f"must be integer class labels, not {y.dtype}", name)
    return y.astype(np.int64, copy=False)


def _count(distances: NDArray[np.unsignedinteger[Any]], n_bits: int) -> NDArray[np.intp]:
    counts = np.bincount(distances, minlength=n_bits + 1)
    if len(counts) > n_bits + 1:
        raise InputError(
            f"two codes differ in {len(counts) - 1} bits, more than n_bits={n_bits}; "
            "the padding bits of packed codes must be zero"
        )
    return counts
