"""The scan of the CPU: the compiled one, or NumPy's where Numba is missing.

Numba takes a while to load, so it is loaded with the first search.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

Found = tuple[NDArray[np.int32], NDArray[np.int64]]


class HostCodes:
    """Codes in memory, in the order of their ids."""

    def __init__(self, words: NDArray[np.uint64], n_bits: int) -> None:
        self._words, self._n_bits = words, n_bits

    def nearest(self, queries: NDArray[np.uint64], k: int) -> Found:
        """Distances and rows of the k codes nearest to each query, by (distance, row)."""
        found: Found = nearest_rows(self._words, queries, k, self._n_bits)
        return found


def nearest_rows(words: Any, queries: Any, k: int, n_bits: int) -> Any:
    """Distances and rows of the k codes nearest to each query, by (distance, row)."""
    return _scan()(words, queries, k, n_bits)


@cache
def _scan() -> Callable[..., Any]:
    if find_spec("numba") is None:
        from . import numpy_scan

        return numpy_scan.nearest_rows
    from . import kernel

    return kernel.nearest_rows
