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

from ._xp import array_namespace, is_foreign, is_on_gpu, like, to_numpy
from .linalg import Array

_PART = 64  # rows selected at a time: their distances fit into a core's cache
_TILE = 1 << 22  # distances held at a time by a scan: 32 MB
_GRAM_PAYS = 6_000  # rows among themselves; their distances are 288 MB then
_FAISS_PAYS = 20_000  # rows searched, from which on faiss is asked where it is installed


def nearest(queries: Array, rows: Array, k: int) -> tuple[Array, NDArray[np.intp]]:
    """Squared distances and positions of the k rows nearest to each query, nearest first.

    >>> nearest(np.array([[0.0]]), np.array([[3.0], [1.0], [9.0]]), k=2)
    (array([[1., 9.]]), array([[1, 0]]))
    """
    if is_on_gpu(rows):
        from .cuda.nearest import nearest as nearest_on_gpu

        return nearest_on_gpu(queries, rows, k)
    if is_foreign(rows):
        found = nearest(to_numpy(queries), to_numpy(rows), k)
        return like(found[0], rows), like(found[1], rows)
    if len(rows) >= _FAISS_PAYS and find_spec("faiss") is not None:
        return _nearest_faiss(queries, rows, k)
    if queries is rows and len(rows) <= _GRAM_PAYS:
        return _nearest_by_gram(rows, k)
    index = NearestNeighbors(n_neighbors=k, algorithm="brute", metric="sqeuclidean").fit(rows)
    F, columns = index.kneighbors(queries)
    return np.maximum(F, 0.0), columns


def nearest_others(X: Array, k: int) -> tuple[Array, NDArray[np.intp]]:
    """Squared distances and positions of the k other rows nearest to each row; k < len(X).

    >>> nearest_others(np.array([[0.0], [1.0], [3.0]]), k=1)
    (array([[1.],
           [1.],
           [4.]]), array([[1],
           [0],
           [1]]))
    """
    return others(*nearest(X, X, k + 1))


def others(F: Array, columns: NDArray[np.intp]) -> tuple[Array, NDArray[np.intp]]:
    """What was found of each row among all, itself included, without itself."""
    xp, n, k = array_namespace(F), F.shape[0], F.shape[1] - 1
    is_self = columns == like(np.arange(n), columns)[:, None]
    is_self[:, -1] |= ~xp.any(is_self, axis=1)  # more duplicates than were asked for
    return xp.reshape(F[~is_self], (n, k)), xp.reshape(columns[~is_self], (n, k))


def nearest_whole_others(H: Array, k: int) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """`nearest_others` for rows of whole numbers, in no order; equal distances go by position.

    Distances are exact then, and so is the key n F + j by which row j is chosen. Kept in
    four bytes each: k may be large.

    >>> nearest_whole_others(np.array([[0.0], [5.0], [1.0], [1.0]]), k=1)[1]
    array([[2],
           [2],
           [3],
           [2]], dtype=int32)
    """
    n, squares = len(H), np.einsum("ij,ij->i", H, H)
    F, columns = np.empty((n, k), np.float32), np.empty((n, k), np.int32)
    step = max(1, _TILE // n)

    def select(start: int) -> None:
        part, own = slice(start, start + step), np.arange(n)[start : start + step]
        D = squares + squares[part, None] - 2.0 * H[part] @ H.T
        key = n * D + np.arange(n)
        key[np.arange(len(own)), own] = np.inf
        columns[part] = np.argpartition(key, k - 1, axis=1)[:, :k]
        F[part] = np.take_along_axis(D, columns[part], axis=1)

    with ThreadPoolExecutor() as pool:  # NumPy selects outside the interpreter's lock
        list(pool.map(select, range(0, n, step)))
    return F, columns


def class_extremes(
    queries: Array, y: NDArray[np.intp], rows: Array, y_rows: NDArray[np.intp]
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """For each query the farthest row of its class and the nearest row of another.

    There must be such rows. The first of several equal distances counts.

    >>> line, y = np.array([[0.0], [1.0], [3.0], [4.0]]), np.array([0, 0, 0, 1])
    >>> class_extremes(line[:2], y[:2], line, y)
    (array([2, 2]), array([3, 3]))
    """
    far, near = np.empty(len(y), np.intp), np.empty(len(y), np.intp)
    squares = np.einsum("ij,ij->i", rows, rows)
    step = max(1, _TILE // len(rows))
    for c in np.unique(y):
        members, same = np.flatnonzero(y == c), np.flatnonzero(y_rows == c)
        for start in range(0, len(members), step):
            part = members[start : start + step]
            F = squares - 2.0 * queries[part] @ rows.T
            far[part] = same[F[:, same].argmax(axis=1)]
            F[:, same] = np.inf
            near[part] = F.argmin(axis=1)
    return far, near


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
