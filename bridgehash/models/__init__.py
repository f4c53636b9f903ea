"""Base classes of all methods, encoders, feature maps and model files."""

from .decoder import CodeDecoder
from .encoder import LinearEncoder
from .feature_maps import AnchorKernel, PrincipalMap, RowsAndKernel, UnitRows
from .persistence import load, save
from .training import Domains, TrainingData

__all__ = [
    "AnchorKernel",
    "CodeDecoder",
    "Domains",
    "LinearEncoder",
    "PrincipalMap",
    "RowsAndKernel",
    "TrainingData",
    "UnitRows",
    "load",
    "save",
]
