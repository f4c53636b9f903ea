"""Which scan runs: the compiled one, or NumPy's where Numba is missing."""

from __future__ import annotations

from importlib.util import find_spec

if find_spec("numba") is not None:
    from .kernel import nearest_rows
else:
    from .numpy_scan import nearest_rows

__all__ = ["nearest_rows"]
