"""Approximate search: faiss keeps codes in lists around centres, and a query looks into a few.

How many it looks into is not guessed. When the lists are made, codes of the index itself ask for
their neighbours, the exact scan says who these are, and the least number that finds enough of
them is taken. The centres nearest to a query are found by the exact scan too, which is faster
at that than faiss.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .scan import Found, nearest_rows

_ASKED = 1024  # codes that ask
_NEIGHBOURS = 10  # that each asks for
_LEAST = 40  # codes a list, and codes a centre is made from; faiss warns below 39
_ROW_BITS = 40  # of a number that holds a distance above a row


class Lists:
    """Lists of codes, and how many of them to look into for a given recall."""

    def __init__(self, words: NDArray[np.uint64], n_bits: int, recall: float) -> None:
        try:
            import faiss
        except ImportError as error:
            raise ImportError("kind='ivf' needs faiss; pip install 'bridgehash[faiss]'") from error
        packed = _packed(words)
        n, n_bytes = packed.shape
        self._n_bits = n_bits
        self.n_lists = max(1, min(n // _LEAST, int(4 * np.sqrt(n))))
        quantizer: Any = faiss.IndexBinaryFlat(8 * n_bytes)
        self._index: Any = faiss.IndexBinaryIVF(quantizer, 8 * n_bytes, self.n_lists)
        self._quantizer = quantizer  # faiss keeps no reference of its own
        rng = np.random.default_rng(0)
        self._index.train(packed[rng.permutation(n)[: _LEAST * self.n_lists]])
        self._index.add(packed)
        codes = faiss.vector_to_array(quantizer.xb)
        centres = codes.reshape(self.n_lists, n_bytes)
        self._centres = np.ascontiguousarray(centres.view(np.uint64).T)
        asked = np.sort(rng.permutation(n)[:_ASKED])
        self.n_probe, self.recall = self._tuned(words, asked, recall)

    def nearest(self, queries: NDArray[np.uint64], k: int) -> Found:
        """Distances and rows of about the k nearest codes; -1 where the lists hold fewer."""
        return self._looked_up(queries, k, self.n_probe)

    def _looked_up(self, queries: NDArray[np.uint64], k: int, n_probe: int) -> Found:
        far, lists = nearest_rows(self._centres, queries, n_probe, self._n_bits)
        self._index.nprobe = n_probe
        with _one_thread():
            D, rows = self._index.search_preassigned(_packed(queries.T), k, lists, far)
        return _ordered(D, rows, self._n_bits)

    def _tuned(
        self, words: NDArray[np.uint64], asked: NDArray[np.int64], wanted: float
    ) -> tuple[int, float]:
        """The least number of lists that finds enough, or all of them; and what it finds."""
        n = words.shape[1]
        k = min(_NEIGHBOURS + 1, n)
        queries = np.ascontiguousarray(words[:, asked].T)
        limits = nearest_rows(words, queries, k, self._n_bits)[0][:, -1:]

        def found(n_probe: int) -> float:
            D, rows = self._looked_up(queries, k, n_probe)
            near = (rows >= 0) & (limits >= D)  # ties are as good as those they tie with
            return float(near[:, 1:].sum() / max(1, near[:, 1:].size))  # without the code itself

        enough = 1
        while enough < self.n_lists and found(enough) < wanted:
            enough = min(2 * enough, self.n_lists)
        too_few = enough // 2
        while enough - too_few > 1:
            middle = (enough + too_few) // 2
            if found(middle) < wanted:
                too_few = middle
            else:
                enough = middle
        return enough, found(enough)


def _ordered(D: NDArray[np.int32], rows: NDArray[np.int64], n_bits: int) -> Found:
    """Results by (distance, row), gaps of row -1 last: faiss keeps ties as it meets them."""
    last = (1 << _ROW_BITS) - 1
    missing = rows < 0
    keys = np.where(missing, n_bits + 1, D).astype(np.int64) << _ROW_BITS
    keys |= np.where(missing, last, rows)
    keys.sort(axis=1)
    rows = keys & last
    return (keys >> _ROW_BITS).astype(np.int32), np.where(rows == last, -1, rows)


@contextmanager
def _one_thread() -> Iterator[None]:
    """faiss in the calling thread alone: the queries are shared out among threads already."""
    import faiss

    n_threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(n_threads)


def _packed(words: NDArray[np.uint64]) -> NDArray[np.uint8]:
    """Codes as rows of bytes, padded to whole words: zero bits change no distance."""
    return np.ascontiguousarray(words.T).view(np.uint8)
