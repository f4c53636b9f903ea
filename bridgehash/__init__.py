"""Learned binary codes that are comparable across two domains and two feature spaces."""

from . import _threads  # noqa: F401  (first: before SciPy is loaded)
from ._files import ModelFileError
from ._version import __version__
from .anchor_graphs import AnchorGraphMap
from .ath import (
    ATH,
    AdaptiveBipartite,
    GivenBipartite,
    GivenStart,
    LabelBipartite,
    LabelStart,
    LocalStart,
    PairBipartite,
    PCAStart,
    StructuralStart,
)
from .baselines import (
    DPLM,
    FSDH,
    GTH,
    ITQ,
    KSH,
    LSH,
    PCAH,
    PSCA,
    PWCF,
    SCDH,
    SDH,
    SH,
    SHSR,
    SP,
    THPI,
    Procrustes,
    PrototypeBank,
    RidgeMap,
    SpectralModes,
)
from .blocks import as_blocks
from .common_space import Shared
from .encoder import LinearEncoder
from .feature_maps import AnchorKernel, PrincipalMap, UnitRows
from .graphs import KNNGraph, LabelGraph, NoGraph
from .matching import BridgeWarning
from .pairing import PairCarry
from .persistence import load, save

__all__ = [
    "ATH",
    "DPLM",
    "FSDH",
    "GTH",
    "ITQ",
    "KSH",
    "LSH",
    "PCAH",
    "PSCA",
    "PWCF",
    "SCDH",
    "SDH",
    "SH",
    "SHSR",
    "SP",
    "THPI",
    "AdaptiveBipartite",
    "AnchorGraphMap",
    "AnchorKernel",
    "BridgeWarning",
    "GivenBipartite",
    "GivenStart",
    "KNNGraph",
    "LabelBipartite",
    "LabelGraph",
    "LabelStart",
    "LinearEncoder",
    "LocalStart",
    "ModelFileError",
    "NoGraph",
    "PCAStart",
    "PairBipartite",
    "PairCarry",
    "PrincipalMap",
    "Procrustes",
    "PrototypeBank",
    "RidgeMap",
    "Shared",
    "SpectralModes",
    "StructuralStart",
    "UnitRows",
    "__version__",
    "as_blocks",
    "load",
    "save",
]
