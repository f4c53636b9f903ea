"""Retrieval scores, all computed from the histogram of Hamming distances."""

from .evaluate import Report, Scores, evaluate
from .histogram import DistanceHistogram, distance_histogram
from .radius import Lookup, lookup, radius_pr_area, radius_pr_curve
from .ranking import average_precision, mean_average_precision, precision_at, recall_at

__all__ = [
    "DistanceHistogram",
    "Lookup",
    "Report",
    "Scores",
    "average_precision",
    "distance_histogram",
    "evaluate",
    "lookup",
    "mean_average_precision",
    "precision_at",
    "radius_pr_area",
    "radius_pr_curve",
    "recall_at",
]
