"""The parts of ATH that have names, and the objects behind the names."""

from __future__ import annotations

from typing import Any

from ..feature_maps import AnchorKernel
from ..graphs import KNNGraph, LabelGraph, NoGraph
from ..memberships import Propagation
from ..pairing import PairCarry
from .bipartite import AdaptiveBipartite, LabelBipartite, PairBipartite
from .starts import STARTS as SIMPLE_STARTS
from .structural import StructuralStart

GRAPHS = {"knn": KNNGraph(), "labels": LabelGraph(), "none": NoGraph()}
BIPARTITES = {"adaptive": AdaptiveBipartite(), "labels": LabelBipartite(), "pairs": PairBipartite()}
FEATURE_MAPS = {"anchors": AnchorKernel()}
COMPLETIONS = {"propagated": Propagation()}
CARRIES = {"pairs": PairCarry()}
STARTS = SIMPLE_STARTS | {"structural": StructuralStart()}


def resolve(choice: Any, known: dict[str, Any]) -> Any:
    """The object behind a name; an object stands for itself."""
    return known[choice] if isinstance(choice, str) else choice
