"""Search with real-valued queries: scores of codes, exact on all of them or on candidates.

The score of an item is offset - slope (w · b), smaller is nearer: an estimate of its squared
distance, see "Corrected codes" in docs/maths.md. Items without corrections have the mean offset and
slope of the others; if no item has any, these are 0 and 1, and the score is -(w · b).

Weights are rounded to whole numbers, so that Numba, NumPy and torch give equal scores.
"""

from __future__ import annotations

from functools import cached_property
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._core.errors import InputError
from .ids import on_host
from .state import as_bytes

Scored = tuple[NDArray[np.float32], NDArray[np.int64]]  # scores and rows, (n_queries, k)

_LEVELS = (1 << 15) - 1  # of a weight
_EXACT = 1 << 24  # float32 holds every whole number up to this one
_PAIRS = 1 << 22  # scores in main memory at a time
_SIGNLESS, _INFINITY = 0x7FFF, 0x7C00  # bits of a float16; NaN is above infinity


class Weights(NamedTuple):
    """Weights of queries: step * whole."""

    whole: NDArray[np.int32]  # (n_queries, 64 n_words), zero after the last bit
    steps: NDArray[np.float32]  # (n_queries,)

    def part(self, rows: slice) -> Weights:
        """Return some queries."""
        return Weights(self.whole[rows], self.steps[rows])


def rounded_weights(weights: ArrayLike, n_queries: int, n_bits: int) -> Weights:
    """Check the weights of queries and round them to whole numbers, 32,767 for the largest."""
    W = np.asarray(on_host(weights))
    shape = (n_queries, n_bits)
    if W.shape != shape or W.dtype.kind not in "iuf" or not np.isfinite(W).all():
        raise InputError(
            f"{W.dtype} of shape {W.shape}; finite numbers of shape {shape} are needed (see "
            "query_weights)",
            "weights",
        )
    levels = min(_LEVELS, _EXACT // n_bits)
    largest = np.abs(W).max(axis=1, initial=0).astype(np.float64)
    steps = np.where(largest > 0, largest / levels, 1.0).astype(np.float32)
    steps = np.where((steps > 0) & np.isfinite(steps), steps, np.float32(1))
    whole = np.zeros((n_queries, -(-n_bits // 64) * 64), np.int32)
    whole[:, :n_bits] = np.rint(W / steps[:, None].astype(np.float64)).clip(-levels, levels)
    return Weights(whole, steps)


class ScoredCodes:
    """Codes with their corrections, to be searched with weights.

    Parameters
    ----------
    words : uint64 array of shape (n_words, n)
    corrections : float16 array of shape (2, n), or None
        Offsets and slopes; NaN where there are none.
    missing : float32 array of shape (2,), optional
        Offset and slope of items without corrections, if these codes are a part of all.
    """

    def __init__(
        self,
        words: NDArray[np.uint64],
        corrections: NDArray[np.float16] | None,
        missing: NDArray[np.float32] | None = None,
    ) -> None:
        self.words = words
        self._corrections = corrections
        self._missing = missing

    @cached_property
    def missing(self) -> NDArray[np.float32]:
        """Offset and slope of items without corrections."""
        if self._missing is not None:
            return self._missing
        if not self._halves.shape[1]:
            return np.array([0, 1], np.float32)
        return np.array([_mean(row) for row in self._halves], np.float32)

    @cached_property
    def _halves(self) -> NDArray[np.uint16]:
        """The bits of the corrections; without columns if all are missing."""
        if self._corrections is None:
            return np.empty((2, 0), np.uint16)
        halves = np.ascontiguousarray(self._corrections).view(np.uint16)
        return halves if (halves[0] & _SIGNLESS <= _INFINITY).any() else halves[:, :0]

    def corrections(self, rows: Any) -> NDArray[np.float32]:
        """Return offsets and slopes of rows, shape (2, n_rows)."""
        if not self._halves.shape[1]:
            return np.broadcast_to(self.missing[:, None], (2, len(np.arange(self.n)[rows]))).copy()
        numbers = self._halves[:, rows].view(np.float16).astype(np.float32)
        return np.where(np.isnan(numbers), self.missing[:, None], numbers)

    @property
    def n(self) -> int:
        return self.words.shape[1]

    def nearest(self, weights: Weights, k: int) -> Scored:
        """Return scores and rows of the k nearest of all codes per query, by (score, row)."""
        if find_spec("numba") is None:
            return self.numpy_nearest(weights, k)
        from . import weighted_kernel

        return weighted_kernel.nearest_rows(
            self.words, self._halves, self.missing, weights.whole, weights.steps, k
        )

    def numpy_nearest(self, weights: Weights, k: int) -> Scored:
        """Do what `nearest` does without Numba: slower, same results."""
        n_queries = len(weights.steps)
        step = max(k, _PAIRS // max(1, n_queries))
        scores: Any = np.empty((n_queries, 0), np.float32)
        rows: Any = np.empty((n_queries, 0), np.int64)
        for start in range(0, self.n, step):
            part = slice(start, min(start + step, self.n))
            products = weights.whole.astype(np.float32) @ _signs(self.words[:, part]).T
            more = self._scores(products, weights.steps, part)
            numbers = np.broadcast_to(np.arange(part.start, part.stop), more.shape)
            scores = np.concatenate([scores, more], axis=1)
            rows = np.concatenate([rows, numbers], axis=1)
            order = np.argsort(scores, axis=1, kind="stable")[:, :k]  # rows increase
            scores, rows = (np.take_along_axis(each, order, axis=1) for each in (scores, rows))
        return scores, rows

    def ordered(self, weights: Weights, candidates: NDArray[np.int64]) -> Scored:
        """Return candidates by (score, row), with their scores; row -1 (none) is last, at inf."""
        scores = np.empty(candidates.shape, np.float32)
        rows = np.empty(candidates.shape, np.int64)
        for q, some in enumerate(candidates):
            found = np.sort(some[some >= 0])
            product = _signs(self.words[:, found]) @ weights.whole[q].astype(np.float32)
            score = self._scores(product, weights.steps[q], found)
            order = np.argsort(score, kind="stable")
            n = len(found)
            scores[q, :n], rows[q, :n] = score[order], found[order]
            scores[q, n:], rows[q, n:] = np.inf, -1
        return scores, rows

    def _scores(self, products: NDArray[np.float32], steps: Any, rows: Any) -> Any:
        offsets, slopes = self.corrections(rows)
        return offsets - slopes * (products * (steps if np.ndim(steps) == 0 else steps[:, None]))


def _mean(halves: NDArray[np.uint16]) -> np.float64:
    """Return the mean of float16 numbers that are not NaN, given as bits.

    By counting equal numbers: sums of float16 are slow, and the first search after a change waits.
    """
    values = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float64)
    known = np.isfinite(values)
    counts = np.bincount(halves, minlength=1 << 16)[known]
    return counts @ values[known] / counts.sum()


def _signs(words: NDArray[np.uint64]) -> NDArray[np.float32]:
    """Return codes as rows of ±1, padded to whole words."""
    bits = np.unpackbits(as_bytes(words), axis=1)
    return bits.astype(np.float32) * 2 - 1
