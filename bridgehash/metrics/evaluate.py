"""Scores of a hasher on a task: search in the source (cross-domain) and in the target."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .._core.linalg import Array
from ..datasets import TransferTask
from ..models.base import BaseTransferHasher
from .histogram import DistanceHistogram, distance_histogram
from .radius import lookup, radius_pr_area
from .ranking import mean_average_precision, precision_at, recall_at


@dataclass(frozen=True)
class Scores:
    """How well queries find items of their own class in one database, as fractions."""

    radius_pr_area: float  # "MAP" in many papers: area under the curve pooled over radii
    mean_average_precision: float  # of the ranked list; ties in expectation
    precision_at_10: float
    recall_at_100: float
    lookup_precision: float  # hash lookup within radius 2
    histogram: DistanceHistogram

    @classmethod
    def of(cls, histogram: DistanceHistogram) -> Scores:
        """Compute all scores from a distance histogram."""
        return cls(
            radius_pr_area(histogram),
            mean_average_precision(histogram),
            precision_at(histogram, 10),
            recall_at(histogram, 100),
            lookup(histogram).precision,
            histogram,
        )


@dataclass(frozen=True)
class Report:
    """Scores of target queries against the source (cross) and the target (single)."""

    cross: Scores
    single: Scores


def evaluate(hasher: BaseTransferHasher, task: TransferTask) -> Report:
    """Encode a task with a fitted hasher and score the search in both domains."""
    queries = hasher.encode(task.X_query, "target")
    n_bits = hasher.encoder("target").n_bits

    def score(X: Array, y: NDArray[np.intp], domain: str) -> Scores:
        codes = hasher.encode(X, domain)
        return Scores.of(distance_histogram(queries, codes, task.y_query, y, n_bits=n_bits))

    return Report(
        cross=score(task.X_source, task.y_source, "source"),
        single=score(task.X_target, task.y_target, "target"),
    )
