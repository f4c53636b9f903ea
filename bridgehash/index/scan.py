"""Exact scan on the CPU: compiled with Numba if it is installed, else with NumPy.

Numba takes a while to import, so the first search imports it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

Neighbors = tuple[NDArray[np.int32], NDArray[np.int64]]  # distances and rows, (n_queries, k)

_PAIRS = 1 << 22  # distances in memory at a time


class HostCodes:
    """Codes in main memory, in the order of their ids."""

    def __init__(self, words: NDArray[np.uint64], n_bits: int) -> None:
        self._words, self._n_bits = words, n_bits

    def nearest(self, queries: NDArray[np.uint64], k: int) -> Neighbors:
        """Return distances and rows of the k nearest codes per query, by (distance, row)."""
        return nearest_rows(self._words, queries, k, self._n_bits)


def nearest_rows(words: Any, queries: Any, k: int, n_bits: int) -> Neighbors:
    """Return distances and rows of the k nearest codes per query, by (distance, row)."""
    return _scan()(words, queries, k, n_bits)


@cache
def _scan() -> Callable[..., Neighbors]:
    if find_spec("numba") is None:
        return numpy_nearest_rows
    from . import kernel

    return kernel.nearest_rows


def numpy_nearest_rows(words: Any, queries: Any, k: int, n_bits: int) -> Neighbors:
    """Do what `nearest_rows` does without Numba: slower, same results."""
    n = words.shape[1]
    step = max(k, _PAIRS // max(1, len(queries)))
    best: Any = np.empty((len(queries), 0), np.int64)  # keys: distance * n + row
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
