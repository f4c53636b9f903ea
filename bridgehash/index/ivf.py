"""Approximate search: faiss keeps codes in lists around centres, and a query looks into a few.

How many it looks into is not guessed. When the lists are made, codes of the index itself ask for
their neighbours, the exact scan says who these are, and the number is doubled until enough of
them are found.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .scan import nearest_rows

_ASKED = 256  # codes that ask
_NEIGHBOURS = 10  # that each asks for
_LEAST = 40  # codes a list, and codes a centre is made from; faiss warns below 39


class Lists:
    """Lists of codes, and how many of them to look into for a given recall."""

    def __init__(self, words: NDArray[np.uint64], n_bits: int, recall: float) -> None:
        try:
            import faiss
        except ImportError as error:
            raise ImportError("kind='ivf' needs faiss; pip install 'bridgehash[faiss]'") from error
        packed = _packed(words)
        n, n_bytes = packed.shape
        n_lists = max(1, min(n // _LEAST, int(4 * np.sqrt(n))))
        self._centres = faiss.IndexBinaryFlat(8 * n_bytes)  # faiss keeps no reference of its own
        self._index: Any = faiss.IndexBinaryIVF(self._centres, 8 * n_bytes, n_lists)
        rng = np.random.default_rng(0)
        self._index.train(packed[rng.permutation(n)[: _LEAST * n_lists]])
        self._index.add(packed)
        asked = np.sort(rng.permutation(n)[:_ASKED])
        self.n_probe, self.recall = self._tuned(words, asked, n_bits, recall, n_lists)
        self._index.nprobe = self.n_probe

    def nearest(
        self, queries: NDArray[np.uint64], k: int
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Distances and rows of about the k nearest codes; -1 where the lists hold fewer."""
        D, rows = self._index.search(_packed(queries.T), k)
        far = np.where(rows < 0, np.iinfo(np.int32).max, D)
        order = np.lexsort((rows, far), axis=1)
        return np.take_along_axis(D, order, axis=1), np.take_along_axis(rows, order, axis=1)

    def _tuned(
        self,
        words: NDArray[np.uint64],
        asked: NDArray[np.int64],
        n_bits: int,
        wanted: float,
        n_lists: int,
    ) -> tuple[int, float]:
        """The first power of two, or all lists, that finds enough; and what it finds."""
        n = words.shape[1]
        k = min(_NEIGHBOURS + 1, n)  # the nearest is the code itself
        queries = np.ascontiguousarray(words[:, asked].T)
        true = nearest_rows(words, 0, n, queries, k, n_bits)[0]
        n_probe, found = 1, 0.0
        while True:
            self._index.nprobe = min(n_probe, n_lists)
            D, rows = self.nearest(queries, k)
            near = (rows >= 0) & (true[:, -1:] >= D)  # ties are as good as those they tie with
            found = float(near.sum() / near.size)
            if found >= wanted or n_probe >= n_lists:
                return min(n_probe, n_lists), found
            n_probe *= 2


def _packed(words: NDArray[np.uint64]) -> NDArray[np.uint8]:
    """Codes as rows of bytes, padded to whole words: zero bits change no distance."""
    return np.ascontiguousarray(words.T).view(np.uint8)
