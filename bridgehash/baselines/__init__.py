"""Methods to compare with, one file per method."""

from ._anchor_graph import AnchorGraphMap
from .dplm import DPLM
from .fsdh import FSDH
from .gth import GTH
from .itq import ITQ
from .itq_plus import ITQPlus
from .ksh import KSH
from .lsh import LSH
from .pcah import PCAH
from .procrustes import Procrustes
from .prototype_bank import PrototypeBank
from .psca import PSCA
from .pwcf import PWCF
from .ridge_map import RidgeMap
from .scdh import SCDH
from .sdh import SDH
from .sh import SH, SpectralModes
from .shared import Shared
from .shsr import SHSR
from .sp import SP

__all__ = [
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
    "AnchorGraphMap",
    "ITQPlus",
    "Procrustes",
    "PrototypeBank",
    "RidgeMap",
    "Shared",
    "SpectralModes",
]
