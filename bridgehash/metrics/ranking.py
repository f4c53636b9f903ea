"""Scores of the ranked list: average precision; precision, recall and nDCG of the first k.

Most items of a ranking by Hamming distance are tied. Every score here is the mean over all orders
of tied items, so it is deterministic and does not depend on the order of the database
(McSherry and Najork, "Computing information retrieval performance measures efficiently in the
presence of tied scores", ECIR 2008).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma

from .._core.errors import InputError
from .._core.linalg import Array
from .histogram import DistanceHistogram, mean_recall

Ranks = Sequence[int] | NDArray[np.integer[Any]]


def average_precision(hist: DistanceHistogram, *, top: int | None = None) -> NDArray[np.float64]:
    """Return the average precision of each query, in expectation over ties.

    A tie of n items (r relevant) that comes after N items (R relevant) adds

        (r / n) Σ_{k=1..n} [R + 1 + (k - 1) b] / (N + k),   b = (r - 1) / (n - 1),

    and the sum over ties is divided by the number of relevant items. With j = N + k each
    fraction is b + [R + 1 - b (N + 1)] / j, so the inner sum is b n plus a multiple of a
    difference of harmonic numbers. A query without relevant items scores 0.

    Parameters
    ----------
    hist : DistanceHistogram
    top : int, optional
        Only the first `top` items count, and the sum is divided by the number of relevant items
        among them ("MAP@100" in papers on cross-modal hashing). By default, the full list.

    Returns
    -------
    scores : float array of shape (n_query,)

    Examples
    --------
    >>> hist = DistanceHistogram(np.array([[1, 2]]), np.array([[0, 1]]))
    >>> average_precision(hist)  # the relevant item is second or third: (1/2 + 1/3) / 2
    array([0.41666667])
    >>> average_precision(hist, top=2)  # it is second, or not among the first two
    array([0.25])
    """
    n, r = hist.total, hist.relevant
    N, R = np.cumsum(n, axis=1) - n, np.cumsum(r, axis=1) - r
    gain = _tie_gain(N, R, n, r)
    if top is None:
        scores = gain.sum(axis=1) / np.maximum(hist.n_relevant, 1)
    else:
        scores = _first_average_precision(hist, gain, _checked_ranks(top, "top").item())
    return np.asarray(scores.clip(0.0, 1.0))  # against rounding only


def mean_average_precision(hist: DistanceHistogram, *, top: int | None = None) -> float:
    """Return the mean of `average_precision` over all queries; 0 for those without relevant items.

    >>> hist = DistanceHistogram(np.array([[1, 2], [1, 2]]), np.array([[1, 0], [0, 0]]))
    >>> mean_average_precision(hist)
    0.5
    """
    return float(average_precision(hist, top=top).mean())


@overload
def precision_at(hist: DistanceHistogram, k: int) -> float: ...
@overload
def precision_at(hist: DistanceHistogram, k: Ranks) -> NDArray[np.float64]: ...
def precision_at(hist: DistanceHistogram, k: int | Ranks) -> float | NDArray[np.float64]:
    """Return the expected share of relevant items among the first k, averaged over all queries.

    Ranks beyond the end of the database count as misses. A sequence of k gives an array.

    >>> hist = DistanceHistogram(np.array([[1, 2]]), np.array([[0, 1]]))
    >>> precision_at(hist, [1, 2])
    array([0.  , 0.25])
    """
    return _like(k, _expected_hits(hist, k).mean(axis=0) / np.atleast_1d(k))


@overload
def recall_at(hist: DistanceHistogram, k: int) -> float: ...
@overload
def recall_at(hist: DistanceHistogram, k: Ranks) -> NDArray[np.float64]: ...
def recall_at(hist: DistanceHistogram, k: int | Ranks) -> float | NDArray[np.float64]:
    """Return the expected share of a query's relevant items that are among the first k.

    The mean is over the queries that have relevant items; 0 if there are none. A sequence of k
    gives an array.

    >>> hist = DistanceHistogram(np.array([[1, 2]]), np.array([[0, 1]]))
    >>> recall_at(hist, 2)
    0.5
    """
    return _like(k, mean_recall(hist, _expected_hits(hist, k)))


@overload
def ndcg_at(hist: DistanceHistogram, k: int) -> float: ...
@overload
def ndcg_at(hist: DistanceHistogram, k: Ranks) -> NDArray[np.float64]: ...
def ndcg_at(hist: DistanceHistogram, k: int | Ranks) -> float | NDArray[np.float64]:
    """Return the expected normalised discounted cumulative gain of the first k.

    A relevant item at place j gains 1 / log2(j + 1); the sum is divided by that of the best order.
    The mean is over all queries; 0 for those without relevant items. A sequence of k gives an
    array.

    >>> hist = DistanceHistogram(np.array([[1, 2]]), np.array([[1, 1]]))
    >>> round(ndcg_at(hist, 2), 3)  # (1 + 0.5 / log2(3)) / (1 + 1 / log2(3))
    0.807
    """
    ks = _checked_ranks(k)
    places = np.arange(1, ks.max() + 1)
    discount = 1 / np.log2(places + 1)
    gain = np.cumsum(np.diff(_expected_hits(hist, places), prepend=0.0) * discount, axis=1)
    best = np.cumsum((places <= hist.n_relevant[:, None]) * discount, axis=1)
    ratio = np.divide(gain, best, out=np.zeros_like(gain), where=best > 0)
    return _like(k, ratio.mean(axis=0)[ks - 1])


def _tie_gain(N: NDArray[Any], R: NDArray[Any], n: NDArray[Any], r: NDArray[Any]) -> Array:
    """Return the expected sum of precisions at the relevant items of a tie."""
    b = np.where(n > 1, (r - 1) / np.maximum(n - 1, 1), 0.0)
    inner = b * n + (R + 1 - b * (N + 1)) * _harmonic_difference(N, n)
    return np.asarray(r / np.maximum(n, 1) * inner)


def _first_average_precision(hist: DistanceHistogram, gain: Array, top: int) -> Array:
    """Return the average precision of the first `top` items, given the gains of whole ties.

    Of the tie at the last place, m items are among the first. The number s of relevant ones has a
    hypergeometric distribution, and given s these m items are again a tie.
    """
    from scipy.stats import hypergeom  # takes long to import

    reached, found = np.cumsum(hist.total, axis=1), np.cumsum(hist.relevant, axis=1)
    last = np.minimum(top, reached[:, -1])
    tie = np.arange(len(reached)), np.argmax(reached >= last[:, None], axis=1)
    n, r = (counts[tie][:, None] for counts in (hist.total, hist.relevant))
    N, R = reached[tie][:, None] - n, found[tie][:, None] - r
    m = last[:, None] - N
    before = (np.cumsum(gain, axis=1) - gain)[tie][:, None]
    s = np.arange(m.max() + 1)[None, :]
    probability = hypergeom.pmf(s, n, r, m)
    scores = (before + _tie_gain(N, R, m, np.minimum(s, m))) / np.maximum(R + s, 1)
    return np.asarray((probability * scores).sum(axis=1))


def _checked_ranks(k: int | Ranks, name: str = "k") -> NDArray[np.integer[Any]]:
    ks = np.atleast_1d(k)
    if ks.ndim != 1 or not np.issubdtype(ks.dtype, np.integer) or (ks < 1).any():
        raise InputError(f"{name}={k!r} must be a positive integer or a sequence of them")
    return ks


def _expected_hits(hist: DistanceHistogram, k: int | Ranks) -> NDArray[np.float64]:
    """Return the expected number of relevant items among the first k, shape (n_query, n_k).

    Ties before rank k count in full; of the tie at rank k, the share that is reached.
    """
    ks = _checked_ranks(k)
    reached, found = np.cumsum(hist.total, axis=1), np.cumsum(hist.relevant, axis=1)
    query = np.arange(len(reached))
    hits = np.empty((len(reached), len(ks)))
    for column, n_first in enumerate(ks):
        place = np.minimum(n_first, reached[:, -1])
        tie = query, np.argmax(reached >= place[:, None], axis=1)
        missing = reached[tie] - place  # items of the tie after rank k
        hits[:, column] = found[tie] - missing * hist.relevant[tie] / hist.total[tie]
    return hits


def _like(k: int | Ranks, values: NDArray[np.float64]) -> float | NDArray[np.float64]:
    return float(values[0]) if np.ndim(k) == 0 else values


def _harmonic_difference(N: NDArray[Any], n: NDArray[Any]) -> NDArray[np.float64]:
    """Return Σ_{k=1..n} 1 / (N + k) for integers N, n >= 0, with a relative error of about 1e-13.

    Subtracting two harmonic numbers loses the digits they share: most of them, for a small tie far
    down the list. From N = 128 on, an asymptotic series about u = N + 1/2 and v = u + n is used,
    in which the difference is one logarithm.
    """
    u, v = N + 0.5, N + n + 0.5
    series = np.log1p(n / u) - (u**-2 - v**-2) / 24 + (u**-4 - v**-4) * (7 / 960)
    return np.asarray(np.where(N < 128, digamma(N + n + 1.0) - digamma(N + 1.0), series))
