"""Rejection: how well a score separates queries of unknown class from queries of known class.

A class is unknown if the searched domain has no item of it. Such a query has no right answer, so
it should be rejected.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._core.errors import InputError
from .histogram import DistanceHistogram


def rejection_auroc(scores: ArrayLike, unknown: ArrayLike) -> float:
    """Return the area under the ROC curve of a rejection score.

    This is the probability that a random query of unknown class scores higher than a random query
    of known class; equal scores count half. 1 is best, 0.5 is chance.

    Parameters
    ----------
    scores : array of shape (n_query,)
        The higher, the more likely the query has no relevant item.
    unknown : boolean array of shape (n_query,)
        True for queries of unknown class.

    Examples
    --------
    >>> rejection_auroc([3.0, 1.0, 2.0, 2.0], [True, False, False, True])  # 3, 3 > 1, 2 > 1, 2 = 2
    0.875
    """
    values, is_unknown = np.asarray(scores, dtype=float), np.asarray(unknown)
    if is_unknown.dtype != bool or is_unknown.ndim != 1:
        raise InputError(
            f"shape {is_unknown.shape}, type {is_unknown.dtype}; one boolean per query is needed",
            "unknown",
        )
    if values.shape != is_unknown.shape:
        raise InputError(f"shape {values.shape}; {is_unknown.shape} is needed", "scores")
    if np.isnan(values).any():
        raise InputError("contains NaN", "scores")
    known, asked = np.sort(values[~is_unknown]), values[is_unknown]
    if len(known) == 0 or len(asked) == 0:
        raise InputError(
            f"{len(asked)} of {len(values)} queries are unknown; at least one query of known and "
            "one of unknown class are needed",
            "unknown",
        )
    lower, not_higher = (np.searchsorted(known, asked, side) for side in ("left", "right"))
    return float((lower + not_higher).mean() / (2 * len(known)))


def nearest_distance(hist: DistanceHistogram, k: int = 10) -> NDArray[np.float64]:
    """Return the mean Hamming distance of each query to its k nearest items.

    All items count if there are fewer than k.

    >>> nearest_distance(DistanceHistogram(np.array([[1, 0, 5]]), np.array([[0, 0, 0]])), k=3)
    array([1.33333333])
    """
    reached = np.minimum(np.cumsum(hist.total, axis=1), k)
    taken = np.diff(reached, axis=1, prepend=0)
    return np.asarray(taken @ np.arange(taken.shape[1]) / reached[:, -1])
