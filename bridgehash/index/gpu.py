"""Exact scan on a GPU with torch: distances as products of ±1 vectors.

All queries are compared with one tile of codes after the other. A code is a candidate if it is
nearer than the k-th best so far. After the first tiles there are few candidates, and only these are
sorted. Tiles grow because the threshold falls fastest at the start.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .scan import Neighbors
from .state import as_bytes

try:
    import torch
except ImportError as error:
    raise ImportError("device=... needs torch; pip install 'bridgehash[gpu]'") from error

_FIRST_TILE = 1 << 12  # codes
_GROWTH = 4
_PAIRS = 1 << 28  # products in memory at a time
_HALF_EXACT = 2048  # float16 holds every whole number up to this one


class DeviceCodes:
    """Codes on a device, in the order of their ids."""

    def __init__(self, words: NDArray[np.uint64], n_bits: int, device: str) -> None:
        self._n_bits = n_bits
        self._codes = torch.from_numpy(as_bytes(words)).to(device)
        half = self._codes.is_cuda and n_bits <= _HALF_EXACT
        self._type: torch.dtype = torch.float16 if half else torch.float32

    def nearest(self, queries: NDArray[np.uint64], k: int) -> Neighbors:
        """Return distances and rows of the k nearest codes per query, by (distance, row)."""
        n = len(self._codes)
        packed = torch.from_numpy(np.ascontiguousarray(queries).view(np.uint8))
        Q = self._signs(packed.to(self._codes.device))
        best = torch.empty((len(Q), 0), dtype=torch.int64, device=Q.device)
        start, size = 0, max(k, _FIRST_TILE)
        while start < n:
            size = min(size, max(k, _PAIRS // max(len(Q), self._n_bits)))
            best = self._improve(best, Q, start, min(start + size, n), k)
            start, size = start + size, size * _GROWTH
        return (best // n).to(torch.int32).cpu().numpy(), (best % n).cpu().numpy()

    def _improve(self, best: Any, Q: Any, start: int, stop: int, k: int) -> Any:
        """Return the k best per query after one more tile, as keys distance * n + row."""
        n = len(self._codes)
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
        shifts = torch.arange(7, -1, -1, dtype=torch.uint8, device=packed.device)
        bits = (packed[:, :, None] >> shifts) & 1
        return bits.reshape(len(packed), -1)[:, : self._n_bits].to(self._type) * 2 - 1
