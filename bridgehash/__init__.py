"""Short binary codes that match across domains and feature spaces.

Public names are listed in `__init__.pyi` and loaded when they are first used.
"""

import lazy_loader

from . import _core as _core  # first: it sets up OpenBLAS before SciPy is loaded
from ._version import __version__ as __version__

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
