"""Exact nearest rows: the one primitive behind k-NN graphs and the adaptive bridge.

Between two sets distances are made in tiles and never held for all pairs: by scikit-learn's fused
kernel, or by faiss for large sets where it is installed. Only the rows of one small set among
themselves are compared all at once.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors

from .linalg import Array

_PART = 64  # rows selected at a time: their distances fit into a core's cache
_GRAM_PAYS = 6_000  # rows among themselves; their distances are 288 MB then
_FAISS_PAYS = 20_000  # rows searched, from which on faiss is asked where it is installed


def nearest(queries: Array, rows: Array, k: int) -> tuple[Array, NDArray[np.intp]]:
    """Squared distances and positions of the k rows nearest to each query, nearest first.

    >>> nearest(np.array([[0.0]]), np.array([[3.0], [1.0], [9.0]]), k=2)
    (array([[1., 9.]]), array([[1, 0]]))
    """
    if len(rows) >= _FAISS_PAYS and find_spec("faiss") is not None:
        return _nearest_faiss(queries, rows, k)
    if queries is rows and len(rows) <= _GRAM_PAYS:
        return _nearest_by_gram(rows, k)
    index = NearestNeighbors(n_neighbors=k, algorithm="brute", metric="sqeuclidean").fit(rows)
    F, columns = index.kneighbors(queries)
    return np.maximum(F, 0.0), columns


def _nearest_by_gram(rows: Array, k: int) -> tuple[Array, NDArray[np.intp]]:
    """Few rows among themselves: half of all inner products are enough, the others mirror them."""
    gram = rows @ rows.T
    squares = gram.diagonal().copy()

    def select(start: int) -> tuple[Array, NDArray[np.intp]]:
        part = slice(start, start + _PART)
        F = squares - 2.0 * gram[part]
        columns = np.argpartition(F, k - 1, axis=1)[:, :k]
        near = np.maximum(np.take_along_axis(F, columns, axis=1) + squares[part, None], 0.0)
        order = np.argsort(near, axis=1, kind="stable")
        return np.take_along_axis(near, order, axis=1), np.take_along_axis(columns, order, axis=1)

    with ThreadPoolExecutor() as pool:  # NumPy selects outside the interpreter's lock
        F, columns = zip(*pool.map(select, range(0, len(rows), _PART)), strict=True)
    return np.concatenate(F), np.concatenate(columns)


def _nearest_faiss(queries: Array, rows: Array, k: int) -> tuple[Array, NDArray[np.intp]]:
    """faiss works in float32: it proposes some more than k, their distances are then exact."""
    import faiss

    index = faiss.IndexFlatL2(rows.shape[1])
    index.add(np.ascontiguousarray(rows, dtype=np.float32))
    k_more = min(k + 8, len(rows))
    F = np.empty((len(queries), k), dtype=queries.dtype)
    columns = np.empty((len(queries), k), dtype=np.intp)
    step = max(1, (1 << 24) // (k_more * rows.shape[1]))
    for start in range(0, len(queries), step):
        part = queries[start : start + step]
        _, found = index.search(np.ascontiguousarray(part, dtype=np.float32), k_more)
        exact = ((rows[found] - part[:, None, :]) ** 2).sum(axis=2)
        order = np.argsort(exact, axis=1, kind="stable")[:, :k]
        F[start : start + step] = np.take_along_axis(exact, order, axis=1)
        columns[start : start + step] = np.take_along_axis(found, order, axis=1)
    return F, columns
