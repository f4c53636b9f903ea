"""Base classes of all methods, encoders, feature maps and model files."""

from .base import TrainingData
from .encoder import LinearEncoder
from .feature_maps import AnchorKernel, PrincipalMap, RowsAndKernel, UnitRows
from .persistence import load, save

__all__ = [
    "AnchorKernel",
    "LinearEncoder",
    "PrincipalMap",
    "RowsAndKernel",
    "TrainingData",
    "UnitRows",
    "load",
    "save",
]
