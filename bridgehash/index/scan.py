"""Exact scan: on the CPU with Numba, or else NumPy, and on a GPU with torch.

Numba and torch take a while to import, so the first search imports them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .state import as_bytes

Neighbors = tuple[NDArray[np.int32], NDArray[np.int64]]  # distances and rows, (n_queries, k)

_PAIRS = 1 << 22  # distances in main memory at a time
_PAIRS_GPU = 1 << 28  # products in GPU memory at a time
_FIRST_TILE = 1 << 12  # codes
_GROWTH = 4
_HALF_EXACT = 2048  # float16 holds every whole number up to this one


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


class DeviceCodes:
    """Codes on a GPU, compared with queries as products of ±1 vectors.

    All queries are compared with one tile of codes after the other. A code is a candidate if it is
    nearer than the k-th best so far. After the first tiles there are few candidates, and only these
    are sorted. Tiles grow because the threshold falls fastest at the start.
    """

    def __init__(self, words: NDArray[np.uint64], n_bits: int, device: str) -> None:
        try:
            import torch
        except ImportError as error:
            raise ImportError("device=... needs torch; pip install 'bridgehash[gpu]'") from error
        self._torch, self._n_bits = torch, n_bits
        self._codes = torch.from_numpy(as_bytes(words)).to(device)
        half = self._codes.is_cuda and n_bits <= _HALF_EXACT
        self._type = torch.float16 if half else torch.float32

    def __call__(self, queries: NDArray[np.uint64], k: int) -> Neighbors:
        """Return distances and rows of the k nearest codes per query, by (distance, row)."""
        torch, n = self._torch, len(self._codes)
        packed = torch.from_numpy(np.ascontiguousarray(queries).view(np.uint8))
        Q = self._signs(packed.to(self._codes.device))
        best = torch.empty((len(Q), 0), dtype=torch.int64, device=Q.device)
        start, size = 0, max(k, _FIRST_TILE)
        while start < n:
            size = min(size, max(k, _PAIRS_GPU // max(len(Q), self._n_bits)))
            best = self._improve(best, Q, start, min(start + size, n), k)
            start, size = start + size, size * _GROWTH
        return (best // n).to(torch.int32).cpu().numpy(), (best % n).cpu().numpy()

    def _improve(self, best: Any, Q: Any, start: int, stop: int, k: int) -> Any:
        """Return the k best per query after one more tile, as keys distance * n + row."""
        torch, n = self._torch, len(self._codes)
        products = Q @ self._signs(self._codes[start:stop]).T  # n_bits - 2 distance
        if best.shape[1] < k:
            rows = torch.arange(start, stop, device=Q.device)
            keys = self._distances(products) * n + rows
            return torch.cat([best, keys], dim=1).sort(dim=1).values[:, :k]
        limits = self._n_bits - 2 * (best[:, -1:] // n)
        query, row = (products > limits.to(products.dtype)).nonzero(as_tuple=True)
        keys = self._distances(products[query, row]) * n + (row + start)
        counts = torch.bincount(query, minlength=len(Q))
        place = torch.arange(len(query), device=Q.device) - (counts.cumsum(0) - counts)[query]
        largest = torch.iinfo(torch.int64).max
        near = torch.full((len(Q), int(counts.max())), largest, device=Q.device)
        near[query, place] = keys
        return torch.cat([best, near], dim=1).sort(dim=1).values[:, :k]

    def _distances(self, products: Any) -> Any:
        return (self._n_bits - products.long()) // 2

    def _signs(self, packed: Any) -> Any:
        """Return packed codes as rows of ±1."""
        shifts = self._torch.arange(7, -1, -1, dtype=packed.dtype, device=packed.device)
        bits = (packed[:, :, None] >> shifts) & 1
        return bits.reshape(len(packed), -1)[:, : self._n_bits].to(self._type) * 2 - 1
