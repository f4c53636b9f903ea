"""Scores by Hamming radius: the pooled precision-recall curve, its area, and hash lookup.

Papers on transfer hashing print the area under the curve pooled over all query-database pairs as
"MAP" (`area_RP.m` of several MATLAB releases). It is a micro average and can be larger or smaller
than mean average precision, so it has another name here: `radius_pr_area`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._core.errors import InputError
from .histogram import DistanceHistogram, mean_recall

_COLLAPSED = 0.01  # precision and recall in area_RP.m if all codes are equal


class Lookup(NamedTuple):
    """Precision and recall within a Hamming radius, averaged over queries."""

    precision: float
    recall: float


def radius_pr_curve(
    hist: DistanceHistogram, *, include_max_radius: bool = False
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return recall and precision of all pairs within radius 0, 1, ..., h - 1, pooled over queries.

    h is the largest distance that occurs. Papers leave out the radius h, at which everything is
    returned. If all codes are equal (h = 0), no radius is left and the curve is the single point
    (0.01, 0.01), as in the public code.

    Parameters
    ----------
    hist : DistanceHistogram
    include_max_radius : bool
        Add the radius h, where recall is 1.

    Returns
    -------
    recall, precision : float arrays of shape (h,), or (h + 1,) with `include_max_radius`
        Precision is 0 if nothing is within the radius (`area_RP.m` adds eps to the denominator
        instead). Recall is 0 if no query has a relevant item.

    Examples
    --------
    >>> hist = DistanceHistogram(np.array([[1, 3, 4]]), np.array([[1, 1, 2]]))
    >>> radius_pr_curve(hist)
    (array([0.25, 0.5 ]), array([1. , 0.5]))
    """
    total, relevant = hist.total.sum(axis=0), hist.relevant.sum(axis=0)
    n_radii = int(np.flatnonzero(total)[-1]) + include_max_radius
    if n_radii == 0:
        return np.array([_COLLAPSED]), np.array([_COLLAPSED])
    found, returned = np.cumsum(relevant)[:n_radii], np.cumsum(total)[:n_radii]
    return found / max(relevant.sum(), 1), found / np.maximum(returned, 1)


def radius_pr_area(hist: DistanceHistogram, *, include_max_radius: bool = False) -> float:
    """Return the area under `radius_pr_curve` by the trapezoidal rule: `area_RP` of the papers.

    The curve starts at recall 0 with the precision of radius 0. A radius that adds no relevant
    pair adds no point. With the default, the curve ends before recall 1 if relevant pairs have the
    largest distance.

    Examples
    --------
    >>> hist = DistanceHistogram(np.array([[1, 3, 4]]), np.array([[1, 1, 2]]))
    >>> radius_pr_area(hist)  # 0.25 * 1 + 0.25 * (1 + 0.5) / 2
    0.4375
    """
    recall, precision = radius_pr_curve(hist, include_max_radius=include_max_radius)
    recall, precision = np.append(0.0, recall), np.append(precision[0], precision)
    recall, smallest_radius = np.unique(recall, return_index=True)
    return float(np.trapezoid(precision[smallest_radius], recall))


def lookup(hist: DistanceHistogram, radius: int = 2) -> Lookup:
    """Return precision and recall of the items within `radius` of a query, averaged over queries.

    A query without items within the radius has precision 0. Recall is averaged over the queries
    that have relevant items, and is 0 if there are none.

    Examples
    --------
    >>> hist = DistanceHistogram(np.array([[1, 3, 4], [0, 2, 6]]), np.array([[1, 1, 2], [0, 1, 1]]))
    >>> lookup(hist, radius=0)
    Lookup(precision=0.5, recall=0.125)
    """
    if radius < 0:
        raise InputError(f"radius={radius} is negative; give 0 or more")
    returned = hist.total[:, : radius + 1].sum(axis=1)
    found = hist.relevant[:, : radius + 1].sum(axis=1)
    precision = (found / np.maximum(returned, 1)).mean()
    return Lookup(float(precision), float(mean_recall(hist, found)))
