"""Exact scan: on the CPU with Numba, or else NumPy, and on a GPU with torch.

Numba and torch take a while to import, so the first search imports them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .state import as_bytes
from .weighted import Scored, ScoredCodes, Weights

Neighbors = tuple[NDArray[np.int32], NDArray[np.int64]]  # distances and rows, (n_queries, k)

_PAIRS = 1 << 22  # distances in main memory at a time
_PAIRS_GPU = 1 << 28  # products in GPU memory at a time
_FIRST_TILE = 1 << 12  # codes
_GROWTH = 4
_SIGNLESS, _ROWS = 0x7FFFFFFF, 0xFFFFFFFF
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


def prepare_many(n_bits: int) -> None:
    """Compile or load the scan for many queries, so that no search has to wait for it."""
    n_words = -(-n_bits // 64)
    words, queries = np.zeros((n_words, 1 << 15), np.uint64), np.zeros((32, n_words), np.uint64)
    nearest_rows(words, queries, 1, n_bits)


def nearest_in_lists(words: Any, ends: Any, lists: Any, queries: Any, k: int) -> Neighbors:
    """Return distances and places of the k nearest codes in some lists per query.

    See `kernel.nearest_in_lists`.
    """
    if find_spec("numba") is None:
        return numpy_nearest_in_lists(words, ends, lists, queries, k)
    from . import kernel

    found: Neighbors = kernel.nearest_in_lists(words, ends, lists, queries, k)
    return found


def numpy_nearest_in_lists(words: Any, ends: Any, lists: Any, queries: Any, k: int) -> Neighbors:
    """Do what `nearest_in_lists` does without Numba: slower, same results."""
    found = np.full((len(queries), k), 64 * len(words) + 1, np.int32)
    places = np.full(found.shape, -1, np.int64)
    for q, (query, own) in enumerate(zip(queries, lists, strict=True)):
        searched = np.concatenate([np.arange(ends[i], ends[i + 1]) for i in own])
        distances = np.bitwise_count(words[:, searched] ^ query[:, None]).sum(axis=0)
        nearest = np.argsort(distances, kind="stable")[:k]
        found[q, : len(nearest)], places[q, : len(nearest)] = distances[nearest], searched[nearest]
    return found, places


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
        self._corrections: Any = None  # offsets and slopes, when they are first needed

    def __call__(self, queries: NDArray[np.uint64], k: int) -> Neighbors:
        """Return distances and rows of the k nearest codes per query, by (distance, row)."""
        torch, n = self._torch, len(self._codes)
        packed = torch.from_numpy(np.ascontiguousarray(queries).view(np.uint8))
        Q = self._signs(packed.to(self._codes.device))
        best = torch.empty((len(Q), 0), dtype=torch.int64, device=Q.device)
        for start, stop in self._tiles(len(Q), k):
            best = self._improve(best, Q, start, stop, k)
        return (best // n).to(torch.int32).cpu().numpy(), (best % n).cpu().numpy()

    def _tiles(self, n_queries: int, k: int) -> Iterator[tuple[int, int]]:
        start, size, n = 0, max(k, _FIRST_TILE), len(self._codes)
        while start < n:
            size = min(size, max(k, _PAIRS_GPU // max(n_queries, self._n_bits)))
            yield start, min(start + size, n)
            start, size = start + size, size * _GROWTH

    def nearest(self, codes: ScoredCodes, weights: Weights, k: int) -> Scored:
        """Return scores and rows of the k nearest codes per query, by (score, row)."""
        torch, device = self._torch, self._codes.device
        if self._corrections is None:
            self._corrections = torch.from_numpy(codes.corrections(slice(None))).to(device)
        W = torch.from_numpy(weights.whole[:, : self._n_bits]).to(device).float()
        steps = torch.from_numpy(weights.steps).to(device)[:, None]
        best = torch.empty((len(W), 0), dtype=torch.int64, device=device)
        for start, stop in self._tiles(len(W), k):
            offsets, slopes = self._corrections[:, start:stop]
            products = W @ self._signs(self._codes[start:stop]).float().T
            scores = offsets - slopes * (products * steps) + 0.0  # no negative zero
            if best.shape[1] < k:
                rows = torch.arange(start, stop, device=device)
                near = self._keys(scores, rows)
            else:
                limits = self._scores_of(best[:, -1:])
                query, row = (scores < limits).nonzero(as_tuple=True)
                near = self._by_query(query, self._keys(scores[query, row], row + start), len(W))
            best = torch.cat([best, near], dim=1).sort(dim=1).values[:, :k]
        return self._scores_of(best).cpu().numpy(), (best & _ROWS).cpu().numpy()

    def _keys(self, scores: Any, rows: Any) -> Any:
        """Return integers in the order of (score, row): those of float32 increase as the floats."""
        bits = scores.view(self._torch.int32).long()
        return (self._torch.where(bits < 0, bits ^ _SIGNLESS, bits) << 32) + rows

    def _scores_of(self, keys: Any) -> Any:
        bits = keys >> 32
        bits = self._torch.where(bits < 0, bits ^ _SIGNLESS, bits)
        return bits.to(self._torch.int32).view(self._torch.float32)

    def _by_query(self, query: Any, keys: Any, n_queries: int) -> Any:
        """Return keys, sorted by query, as one row per query that is padded with large ones."""
        torch = self._torch
        counts = torch.bincount(query, minlength=n_queries)
        place = torch.arange(len(query), device=query.device) - (counts.cumsum(0) - counts)[query]
        largest = torch.iinfo(torch.int64).max
        near = torch.full((n_queries, int(counts.max())), largest, device=query.device)
        near[query, place] = keys
        return near

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
        near = self._by_query(query, keys, len(Q))
        return torch.cat([best, near], dim=1).sort(dim=1).values[:, :k]

    def _distances(self, products: Any) -> Any:
        return (self._n_bits - products.long()) // 2

    def _signs(self, packed: Any) -> Any:
        """Return packed codes as rows of ±1."""
        shifts = self._torch.arange(7, -1, -1, dtype=packed.dtype, device=packed.device)
        bits = (packed[:, :, None] >> shifts) & 1
        return bits.reshape(len(packed), -1)[:, : self._n_bits].to(self._type) * 2 - 1
