"""Scores of two aligned sets of rows, as papers on single-cell data report them.

Both sets are in one space: packed codes compared by Hamming distance, or real vectors. Tied
distances count in expectation, so no score depends on the order of the rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._core.errors import InputError
from .._core.linalg import expected_places
from .._core.validation import UNKNOWN
from ..codes import hamming
from .histogram import checked_labels

Distance = Literal["hamming", "euclidean", "cosine"]
_DISTANCES = ("hamming", "euclidean", "cosine")
_BLOCK = 1 << 22  # distances in memory at a time


def foscttm(H_x: ArrayLike, H_z: ArrayLike, *, metric: Distance = "hamming") -> float:
    """Return the fraction of rows that are closer than the true match (FOSCTTM).

    Row i of `H_x` and row i of `H_z` are the same item. For each row, the score is the share of
    the other rows of the other side that are closer than its partner; a row at the same distance
    counts half. The mean is over the rows of both sides. 0 is best, 0.5 is chance.

    Parameters
    ----------
    H_x, H_z : arrays of shape (n, width)
        Packed codes for "hamming", else real vectors.
    metric : "hamming", "euclidean" or "cosine", default="hamming"

    Examples
    --------
    >>> H = [[0.0], [1.0], [3.0]]
    >>> foscttm(H, [[0.1], [1.2], [2.9]], metric="euclidean")
    0.0
    >>> round(foscttm(H, [[1.2], [0.1], [2.9]], metric="euclidean"), 3)  # two are exchanged
    0.333
    """
    H_x, H_z = np.asarray(H_x), np.asarray(H_z)
    if H_x.ndim != 2 or H_x.shape != H_z.shape:
        raise InputError(f"H_x has shape {H_x.shape}, H_z {H_z.shape}; rows must be pairs")
    if len(H_x) < 2:
        raise InputError(f"has {len(H_x)} rows; give at least 2", "H_x")
    return (_closer(H_x, H_z, metric) + _closer(H_z, H_x, metric)) / 2


def label_transfer_accuracy(
    source: ArrayLike,
    y_source: ArrayLike,
    target: ArrayLike,
    y_target: ArrayLike,
    *,
    k: int = 5,
    metric: Distance = "hamming",
) -> float:
    """Return the accuracy of target labels that are predicted by the k nearest source rows.

    Each of the k nearest rows has one vote. Rows that tie for the last places share them, and if
    several classes have the most votes, the score is the chance of drawing the right one. Rows
    with label -1 (unknown) are left out.

    Parameters
    ----------
    source, target : arrays of shape (n, width)
        Packed codes for "hamming", else real vectors.
    y_source, y_target : integer arrays of shape (n,)
        Class labels.
    k : int, default=5
    metric : "hamming", "euclidean" or "cosine", default="hamming"

    Examples
    --------
    >>> source, target = [[0.0], [1.0], [5.0]], [[0.4], [4.0]]
    >>> label_transfer_accuracy(source, [0, 0, 1], target, [0, 1], k=1, metric="euclidean")
    1.0
    >>> label_transfer_accuracy(source, [0, 0, 1], target, [0, 1], k=2, metric="euclidean")
    0.75
    """
    source, y_source = _labelled(source, y_source, "source")
    target, y_target = _labelled(target, y_target, "target")
    if not 1 <= k <= len(source):
        raise InputError(f"k={k} of {len(source)} source rows with a label; give fewer neighbours")
    if len(target) == 0:
        raise InputError("has no row with a label; give at least one", "target")
    classes, ids = np.unique(y_source, return_inverse=True)
    members = np.eye(len(classes))[ids]
    right = 0.0
    for rows, D in _distance_blocks(target, source, metric):
        votes = expected_places(D, k) @ members
        winners = np.isclose(votes, votes.max(axis=1, keepdims=True))
        found = winners & (y_target[rows, None] == classes)
        right += float((found.sum(axis=1) / winners.sum(axis=1)).sum())
    return right / len(target)


def _closer(H: NDArray[Any], H_other: NDArray[Any], metric: Distance) -> float:
    """Return the mean share of other rows that are closer than the partner."""
    n, closer = len(H), 0.0
    for rows, D in _distance_blocks(H, H_other, metric):
        own = D[np.arange(len(D)), np.arange(n)[rows]][:, None]
        closer += float((own > D).sum() + ((own == D).sum() - len(D)) / 2)
    return closer / (n * (n - 1))


def _labelled(rows: ArrayLike, y: ArrayLike, name: str) -> tuple[NDArray[Any], NDArray[np.int64]]:
    rows = np.asarray(rows)
    if rows.ndim != 2:
        raise InputError(f"has shape {rows.shape}; give one row per item", name)
    y = checked_labels(y, f"y_{name}", len(rows))
    known = y != UNKNOWN
    return rows[known], y[known]


def _distance_blocks(
    H: NDArray[Any], H_other: NDArray[Any], metric: Distance
) -> Iterator[tuple[slice, NDArray[Any]]]:
    """Yield the distances of some rows to all rows of the other side."""
    from scipy.spatial.distance import cdist

    if metric not in _DISTANCES:
        raise InputError(f"{metric!r} is not a distance; use one of {_DISTANCES}", "metric")
    step = max(1, _BLOCK // len(H_other))
    for start in range(0, len(H), step):
        rows = slice(start, start + step)
        yield (
            rows,
            hamming(H[rows], H_other) if metric == "hamming" else cdist(H[rows], H_other, metric),
        )
