"""Which scan runs: the compiled one, or NumPy's where Numba is missing.

Numba takes a while to load, so it is loaded with the first search.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import Any


def nearest_rows(words: Any, first: int, last: int, queries: Any, k: int, n_bits: int) -> Any:
    """Distances and rows of the k codes nearest to each query among rows first..last."""
    return _scan()(words, first, last, queries, k, n_bits)


@cache
def _scan() -> Callable[..., Any]:
    if find_spec("numba") is None:
        from . import numpy_scan

        return numpy_scan.nearest_rows
    from . import kernel

    return kernel.nearest_rows
