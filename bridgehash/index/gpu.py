"""The scan on a GPU, by torch: distances as products of ±1 vectors, and the same falling threshold.

All queries meet one tile of codes after the other. A code counts if it is nearer than the k-th
best so far, so after the first tiles hardly any does, and those few are sorted. Tiles grow, since
the threshold does most of its falling at the start.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .scan import Found

try:
    import torch
except ImportError as error:
    raise ImportError("device=... needs torch; pip install 'bridgehash[gpu]'") from error

_FIRST = 1 << 12  # codes of the first tile
_GROWTH = 4
_PAIRS = 1 << 28  # products held at a time


class DeviceCodes:
    """Codes on a device, in the order of their ids."""

    def __init__(self, words: NDArray[np.uint64], n_bits: int, device: str) -> None:
        self._n_bits = n_bits
        bytes_of_codes = np.ascontiguousarray(words.T).view(np.uint8)
        self._codes = torch.from_numpy(bytes_of_codes).to(device)
        exact = torch.float16 if self._codes.is_cuda else torch.float32  # to 2,048 and beyond
        self._type: torch.dtype = exact

    def nearest(self, queries: NDArray[np.uint64], k: int) -> Found:
        """Distances and rows of the k codes nearest to each query, by (distance, row)."""
        n = len(self._codes)
        packed = torch.from_numpy(np.ascontiguousarray(queries).view(np.uint8))
        Q = self._signs(packed.to(self._codes.device))
        best = torch.empty((len(Q), 0), dtype=torch.int64, device=Q.device)
        start, size = 0, max(k, _FIRST)
        while start < n:
            size = min(size, max(k, _PAIRS // len(Q)))
            best = self._improved(best, Q, start, min(start + size, n), k)
            start, size = start + size, size * _GROWTH
        return (best // n).to(torch.int32).cpu().numpy(), (best % n).cpu().numpy()

    def _improved(self, best: Any, Q: Any, start: int, stop: int, k: int) -> Any:
        """The k best of each query after a tile; distance and row are one number, d n + row."""
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
        nothing, most = torch.iinfo(torch.int64).max, int(counts.max())
        near = torch.full((len(Q), most), nothing, device=Q.device)
        near[query, place] = keys
        return torch.cat([best, near], dim=1).sort(dim=1).values[:, :k]

    def _distances(self, products: Any) -> Any:
        return (self._n_bits - products.long()) // 2

    def _signs(self, packed: Any) -> Any:
        """Codes as rows of ±1."""
        shifts = torch.arange(7, -1, -1, dtype=torch.uint8, device=packed.device)
        bits = (packed[:, :, None] >> shifts) & 1
        return bits.reshape(len(packed), -1)[:, : self._n_bits].to(self._type) * 2 - 1
