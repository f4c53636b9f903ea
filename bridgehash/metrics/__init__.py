"""Retrieval scores, all of them read from one record: the histogram of Hamming distances."""

from bridgehash.metrics.histogram import DistanceHistogram, distance_histogram
from bridgehash.metrics.radius import Lookup, lookup, radius_pr_area, radius_pr_curve
from bridgehash.metrics.ranking import (
    average_precision,
    mean_average_precision,
    precision_at,
    recall_at,
)

__all__ = [
    "DistanceHistogram",
    "Lookup",
    "average_precision",
    "distance_histogram",
    "lookup",
    "mean_average_precision",
    "precision_at",
    "radius_pr_area",
    "radius_pr_curve",
    "recall_at",
]
