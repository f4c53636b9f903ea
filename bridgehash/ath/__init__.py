"""Asymmetric transfer hashing: steps, graphs between domains, starts, solver, estimator."""

from .bipartite import AdaptiveBipartite, GivenBipartite, LabelBipartite, PairBipartite
from .estimator import ATH
from .local_start import LocalStart
from .starts import GivenStart, LabelStart, PCAStart
from .structural import StructuralStart

__all__ = [
    "ATH",
    "AdaptiveBipartite",
    "GivenBipartite",
    "GivenStart",
    "LabelBipartite",
    "LabelStart",
    "LocalStart",
    "PCAStart",
    "PairBipartite",
    "StructuralStart",
]
