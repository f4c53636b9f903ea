"""Asymmetric transfer hashing: the estimator, its parts, and the solver."""

from .bipartite import (
    AdaptiveBipartite,
    AuthorsBipartite,
    GivenBipartite,
    LabelBipartite,
    PairBipartite,
)
from .class_codes import BalancedCodes, ClassCodes, PairCodes
from .estimator import ATH
from .pairs import PairStart, PartnerSearch
from .propagation import Propagation
from .starts import (
    GivenStart,
    Known,
    LabelStart,
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
    "Known",
    "LabelBipartite",
    "LabelStart",
    "PCAStart",
    "PairBipartite",
    "PairCodes",
    "PairStart",
    "PartnerSearch",
    "Propagation",
    "Start",
    "StartContext",
    "StructuralStart",
]
