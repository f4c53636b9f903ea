"""Learned binary codes that are comparable across two domains and two feature spaces."""

from . import _threads  # noqa: F401  (first: before SciPy is loaded)
from ._files import ModelFileError
from ._version import __version__
from .ath import (
    ATH,
    AdaptiveBipartite,
    GivenBipartite,
    GivenStart,
    LabelBipartite,
    LabelStart,
    PCAStart,
)
from .baselines import ITQ
from .common_space import Shared
from .encoder import LinearEncoder
from .feature_maps import AnchorKernel, PrincipalMap, UnitRows
from .graphs import KNNGraph, LabelGraph
from .persistence import load, save

__all__ = [
    "ATH",
    "ITQ",
    "AdaptiveBipartite",
    "AnchorKernel",
    "GivenBipartite",
    "GivenStart",
    "KNNGraph",
    "LabelBipartite",
    "LabelGraph",
    "LabelStart",
    "LinearEncoder",
    "ModelFileError",
    "PCAStart",
    "PrincipalMap",
    "Shared",
    "UnitRows",
    "__version__",
    "load",
    "save",
]
