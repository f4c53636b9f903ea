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
        return numpy_nearest_rows
    from . import kernel

    return kernel.nearest_rows


_PAIRS = 1 << 22  # distances held at a time


def numpy_nearest_rows(words: Any, queries: Any, k: int, n_bits: int) -> Any:
    """`nearest_rows` without Numba: slower, same results."""
    n = words.shape[1]
    step = max(k, _PAIRS // max(1, len(queries)))
    best: Any = np.empty((len(queries), 0), np.int64)  # distance and row in one number
    for start in range(0, n, step):
        stop = min(start + step, n)
        distances = np.zeros((len(queries), stop - start), np.int64)
        for word, query in zip(words, queries.T, strict=True):
            distances += np.bitwise_count(word[start:stop] ^ query[:, None])
        keys = distances * n + np.arange(start, stop)
        best = np.concatenate([best, keys], axis=1)
        if best.shape[1] > k:
            best = np.partition(best, k - 1, axis=1)[:, :k]
    best.sort(axis=1)
    return (best // n).astype(np.int32), best % n
