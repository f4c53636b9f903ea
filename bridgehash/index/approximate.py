"""Approximate search with inverted lists, whose centres are learned by faiss.

Each code is in the list of its nearest centre, and a query looks into a few lists only. Their
number is measured, not guessed: when the lists are built, codes of the index are used as queries,
the exact scan finds their true neighbours, and the smallest number of lists with enough recall
is kept. The exact scan finds the centres nearest to a code or query, and scans the lists.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .scan import Neighbors, nearest_in_lists, nearest_rows
from .state import as_bytes

_N_QUERIES = 1024  # codes of the index that are used to measure recall
_N_NEIGHBORS = 10  # recall is the share of these that is found
_CODES_PER_LIST = 40  # for training; faiss warns below 39
_PART = 65_536  # codes that are assigned to lists at a time
_ROW_BITS = 40  # distance and row in one integer: the row takes the low bits


class InvertedLists:
    """Lists of codes, and the number of lists to search for a given recall.

    Attributes
    ----------
    n_lists : int
    n_probe : int
        Lists that a query looks into.
    recall : float
        Share of the ten nearest codes found with `n_probe`, as measured.
    """

    def __init__(self, words: NDArray[np.uint64], n_bits: int, recall: float) -> None:
        try:
            import faiss
        except ImportError as error:
            raise ImportError(
                "search='approximate' needs faiss; pip install 'bridgehash[faiss]'"
            ) from error
        packed = as_bytes(words)
        n, n_bytes = packed.shape
        self._n_bits = n_bits
        self.n_lists = max(1, min(n // _CODES_PER_LIST, int(4 * np.sqrt(n))))
        quantizer: Any = faiss.IndexBinaryFlat(8 * n_bytes)
        rng = np.random.default_rng(0)
        trained = faiss.IndexBinaryIVF(quantizer, 8 * n_bytes, self.n_lists)
        trained.train(packed[rng.permutation(n)[: _CODES_PER_LIST * self.n_lists]])
        centres = faiss.vector_to_array(quantizer.xb).reshape(self.n_lists, n_bytes)
        self._centres = np.ascontiguousarray(centres.view(np.uint64).T)
        own = np.concatenate(
            [
                nearest_rows(self._centres, words[:, start : start + _PART].T.copy(), 1, n_bits)[1]
                for start in range(0, n, _PART)
            ]
        )[:, 0]
        self._rows = np.argsort(own, kind="stable")  # list after list
        self._ends = np.searchsorted(own[self._rows], np.arange(self.n_lists + 1))
        self._words = np.ascontiguousarray(words[:, self._rows])
        queries = np.sort(rng.permutation(n)[:_N_QUERIES])
        self.n_probe, self.recall = self._measure(words, queries, recall)

    def __call__(
        self, queries: NDArray[np.uint64], k: int, n_probe: int | None = None
    ) -> Neighbors:
        """Return about the k nearest codes; row -1 where the searched lists hold fewer."""
        n_probe = n_probe or self.n_probe
        _, lists = nearest_rows(self._centres, queries, n_probe, self._n_bits)
        distances, places = nearest_in_lists(self._words, self._ends, lists, queries, k)
        rows = np.where(places < 0, -1, self._rows[places])
        return _sort(distances, rows, self._n_bits)

    def _measure(
        self, words: NDArray[np.uint64], rows: NDArray[np.int64], target: float
    ) -> tuple[int, float]:
        """Return the smallest n_probe that reaches the target recall (or all), and its recall."""
        k = min(_N_NEIGHBORS + 1, words.shape[1])  # with the query itself
        queries = np.ascontiguousarray(words[:, rows].T)
        limits = nearest_rows(words, queries, k, self._n_bits)[0][:, -1:]

        def recall(n_probe: int) -> float:
            distances, found = self(queries, k, n_probe)
            near = (found >= 0) & (limits >= distances)  # a tie with the k-th counts as found
            return float(near[:, 1:].sum() / max(1, near[:, 1:].size))  # without the query itself

        enough = 1
        while enough < self.n_lists and recall(enough) < target:
            enough = min(2 * enough, self.n_lists)
        too_few = enough // 2
        while enough - too_few > 1:
            middle = (enough + too_few) // 2
            if recall(middle) < target:
                too_few = middle
            else:
                enough = middle
        return enough, recall(enough)


def _sort(distances: NDArray[np.int32], rows: NDArray[np.int64], n_bits: int) -> Neighbors:
    """Sort by (distance, row) with missing rows (-1) last."""
    last = (1 << _ROW_BITS) - 1
    missing = rows < 0
    keys = np.where(missing, n_bits + 1, distances).astype(np.int64) << _ROW_BITS
    keys |= np.where(missing, last, rows)
    keys.sort(axis=1)
    rows = keys & last
    return (keys >> _ROW_BITS).astype(np.int32), np.where(rows == last, -1, rows)
