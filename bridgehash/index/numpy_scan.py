"""The same scan without Numba: slower, with the same answers."""

from __future__ import annotations

from typing import Any

import numpy as np

_PAIRS = 1 << 22  # distances held at a time


def nearest_rows(words: Any, queries: Any, k: int, n_bits: int) -> Any:
    """Distances and rows of the k codes nearest to each query, by (distance, row)."""
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
