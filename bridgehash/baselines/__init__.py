"""Methods to compare with."""

from ._anchor_graph import AnchorGraphMap as AnchorGraphMap
from .cca_itq import CCAITQ as CCAITQ
from .cmfh import CMFH as CMFH
from .dplm import DPLM as DPLM
from .fsdh import FSDH as FSDH
from .fsh import FSH as FSH
from .gth import GTH as GTH
from .itq import ITQ as ITQ
from .itq_plus import ITQPlus as ITQPlus
from .ksh import KSH as KSH
from .lsh import LSH as LSH
from .mapped_itq import Procrustes as Procrustes
from .mapped_itq import RidgeMap as RidgeMap
from .pcah import PCAH as PCAH
from .prototype_bank import PrototypeBank as PrototypeBank
from .psca import PSCA as PSCA
from .pwcf import PWCF as PWCF
from .scdh import SCDH as SCDH
from .scm import SCM as SCM
from .scratch import SCRATCH as SCRATCH
from .sdh import SDH as SDH
from .sh import SH as SH
from .sh import SpectralModes as SpectralModes
from .shared import Shared as Shared
from .shsr import SHSR as SHSR
from .sp import SP as SP
