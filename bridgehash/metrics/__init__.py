"""Scores of retrieval, from the histogram of Hamming distances, and of alignment."""

from .alignment import foscttm, label_transfer_accuracy
from .evaluate import Report, Scores, evaluate
from .float_neighbors import recall_of_neighbors
from .histogram import DistanceHistogram, distance_histogram
from .radius import Lookup, lookup, radius_pr_area, radius_pr_curve
from .ranking import average_precision, mean_average_precision, ndcg_at, precision_at, recall_at
from .rejection import nearest_distance, rejection_auroc

__all__ = [
    "DistanceHistogram",
    "Lookup",
    "Report",
    "Scores",
    "average_precision",
    "distance_histogram",
    "evaluate",
    "foscttm",
    "label_transfer_accuracy",
    "lookup",
    "mean_average_precision",
    "ndcg_at",
    "nearest_distance",
    "precision_at",
    "radius_pr_area",
    "radius_pr_curve",
    "recall_at",
    "recall_of_neighbors",
    "rejection_auroc",
]
