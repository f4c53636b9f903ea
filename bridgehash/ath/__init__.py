"""Asymmetric transfer hashing: steps, graphs between domains, starts, solver, estimator."""

from .bipartite import AdaptiveBipartite, GivenBipartite, LabelBipartite
from .estimator import ATH
from .starts import GivenStart, LabelStart, PCAStart

__all__ = [
    "ATH",
    "AdaptiveBipartite",
    "GivenBipartite",
    "GivenStart",
    "LabelBipartite",
    "LabelStart",
    "PCAStart",
]
