"""Asymmetric transfer hashing: the estimator, its parts, and the solver."""

from .bipartite import (
    AdaptiveBipartite,
    AuthorsBipartite,
    GivenBipartite,
    LabelBipartite,
    PairBipartite,
)
from .class_codes import BalancedCodes, ClassCodes
from .estimator import ATH
from .pair_map import PairMap
from .propagation import Propagation
from .starts import (
    GivenStart,
    LabelStart,
    LocalStart,
    PCAStart,
    Start,
    StartContext,
    StructuralStart,
)

__all__ = [
    "ATH",
    "AdaptiveBipartite",
    "AuthorsBipartite",
    "BalancedCodes",
    "ClassCodes",
    "GivenBipartite",
    "GivenStart",
    "LabelBipartite",
    "LabelStart",
    "LocalStart",
    "PCAStart",
    "PairBipartite",
    "PairMap",
    "Propagation",
    "Start",
    "StartContext",
    "StructuralStart",
]
