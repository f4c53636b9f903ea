"""Scores of a hasher on a task: search in the source (cross-domain) and in the target."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .._core.errors import InputError
from .._core.linalg import Array
from .._core.validation import UNKNOWN
from ..datasets import TransferTask
from ..models.base import BaseTransferHasher
from ..models.training import TWO
from .histogram import DistanceHistogram, distance_histogram
from .radius import lookup, radius_pr_area
from .ranking import mean_average_precision, precision_at, recall_at
from .rejection import nearest_distance, rejection_auroc


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
    """Scores of target queries against the source (cross) and the target (single).

    `cross` counts only queries whose class the source has, `single` counts all queries.
    `rejection_auroc` says how well the other queries are told apart, see
    `bridgehash.metrics.rejection_auroc`. It is None if there are none.
    """

    cross: Scores
    single: Scores
    rejection_auroc: float | None = None


def evaluate(
    hasher: BaseTransferHasher, task: TransferTask, domains: tuple[str, str] = TWO
) -> Report:
    """Encode a task with a fitted hasher and score the search in both domains.

    The rejection score of a query is that of the hasher, if it has learned one (`rejection_score`),
    otherwise the mean distance to the ten nearest codes of the source.
    Queries labelled -1 count for `single` only, without relevant items.

    Parameters
    ----------
    hasher : BaseTransferHasher
    task : TransferTask
    domains : two names, default=("source", "target")
        Which domains of the hasher encode the source and the target of the task.
    """
    source, target = domains
    queries = hasher.encode(task.X_query, target)
    n_bits = hasher.encoder(target).n_bits

    def histogram(X: Array, y: NDArray[np.intp], domain: str) -> DistanceHistogram:
        return distance_histogram(queries, hasher.encode(X, domain), task.y_query, y, n_bits=n_bits)

    across = histogram(task.X_source, task.y_source, source)
    labelled = task.y_query != UNKNOWN
    known = labelled & np.isin(task.y_query, task.y_source)
    if not known.any():
        raise InputError(
            "no query has a class of the source; use a task whose domains share a class", "task"
        )
    rejection = None
    if (known != labelled).any():
        learned = target in (hasher.rejectors_ or {})
        scores = (
            hasher.rejection_score(task.X_query, target) if learned else nearest_distance(across)
        )
        rejection = rejection_auroc(scores[labelled], ~known[labelled])
    return Report(
        cross=Scores.of(DistanceHistogram(across.total[known], across.relevant[known])),
        single=Scores.of(histogram(task.X_target, task.y_target, target)),
        rejection_auroc=rejection,
    )
