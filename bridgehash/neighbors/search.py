"""Nearest rows: the search behind k-NN graphs and the adaptive bipartite graph.

`nearest` is exact. Between two sets distances are computed in tiles: by scikit-learn's fused
kernel, or by faiss for large sets if it is installed; only small sets are compared all at once.
`find_neighbors` chooses between this and cells of an inverted file (`cells.Cells`), which is
approximate and much faster for many rows.
"""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from numbers import Integral
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors
from sklearn.utils import gen_batches

from .._core.arrays import array_namespace, is_foreign, is_on_gpu, like, to_numpy
from .._core.linalg import Array, in_memory
from .._core.validation import OneOf, Range
from ..streaming.mappers import cluster_mapper

_PART = 64  # rows at a time: their distances fit into the cache of a core
_GRAM_PAYS = 6_000  # rows up to which the Gram matrix is faster; it takes 288 MB
_FAISS_PAYS = 20_000  # rows from which faiss is faster


def nearest(queries: Array, rows: Array, k: int) -> tuple[Array, NDArray[np.intp]]:
    """Return squared distances and positions of the k rows nearest to each query, nearest first.

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
    """Return squared distances and positions of the k other rows nearest to each row; k < n.

    >>> nearest_others(np.array([[0.0], [1.0], [3.0]]), k=1)
    (array([[1.],
           [1.],
           [4.]]), array([[1],
           [0],
           [1]]))
    """
    return without_self(*nearest(X, X, k + 1))


def without_self(F: Array, columns: NDArray[np.intp]) -> tuple[Array, NDArray[np.intp]]:
    """Remove each row from its own neighbours."""
    xp, n, k = array_namespace(F), F.shape[0], F.shape[1] - 1
    is_self = columns == like(np.arange(n), columns)[:, None]
    is_self[:, -1] |= ~xp.any(is_self, axis=1)  # more duplicates than were asked for
    return xp.reshape(F[~is_self], (n, k)), xp.reshape(columns[~is_self], (n, k))


def _nearest_by_gram(rows: Array, k: int) -> tuple[Array, NDArray[np.intp]]:
    """Compare a small set with itself by its Gram matrix."""
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
    """Let faiss, which works in float32, propose a few more than k; recompute their distances."""
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


_log = logging.getLogger(__name__)

NProbe = int | Literal["auto"] | None
N_PROBE = OneOf((None, "auto"), number=Range(1, kind=Integral))

_ALL_PAIRS = 50_000**2  # compared exactly by "auto"
_RECALL, _MOST_CELLS = 0.9, 32  # recall that "auto" wants, and the most cells it searches
_CLUSTER_PART = 1 << 15  # queries per task of a cluster


def find_neighbors(
    queries: Array, rows: Array, k: int, n_probe: NProbe
) -> tuple[Array, NDArray[np.intp]]:
    """Return squared distances and positions of k rows near each query, nearest first.

    Parameters
    ----------
    queries, rows : arrays of shape (m, d), (n, d)
    k : int
    n_probe : int, "auto" or None
        None: the nearest of all rows. A number: the nearest among the rows of this many cells.
        "auto": all rows up to 2.5e9 pairs; beyond that as many cells, at most 32, as find 90 % of
        the nearest rows of a sample, whose recall is logged. A GPU always compares all rows.
    """
    if is_foreign(rows) or not _in_cells(queries, rows, n_probe):
        return _by_mapper(queries, rows, k, None)
    from .cells import Cells

    cells = Cells(rows)
    if n_probe == "auto":
        n_probe, recall = cells.n_probe_for(queries, k, _RECALL, most=_MOST_CELLS)
        sizes = f"{len(queries):,} x {len(rows):,} rows"
        _log.info("%s: %d of %d cells, recall %.2f", sizes, n_probe, len(cells.centres), recall)
    return _by_mapper(queries, cells, k, n_probe)


def find_other_neighbors(X: Any, k: int, n_probe: NProbe) -> tuple[Array, NDArray[np.intp]]:
    """Return the neighbours of the rows of X among the other rows; k < n."""
    if not in_memory(X) and not _in_cells(X, X, n_probe):
        return X.nearest_others(k)
    rows = X if in_memory(X) else X.to_array()
    return without_self(*find_neighbors(rows, rows, k + 1, n_probe))


def _in_cells(queries: Any, rows: Any, n_probe: NProbe) -> bool:
    if n_probe == "auto":
        return bool(queries.shape[0] * rows.shape[0] > _ALL_PAIRS)
    return n_probe is not None


def _by_mapper(queries: Array, rows: Any, k: int, n_probe: Any) -> tuple[Array, NDArray[np.intp]]:
    mapper = cluster_mapper.get()
    if mapper is None:
        return _search(rows, k, n_probe, queries)
    parts = ((queries[part],) for part in gen_batches(len(queries), _CLUSTER_PART))
    F, columns = zip(*mapper(_search, parts, (rows, k, n_probe)), strict=True)
    return np.concatenate(F), np.concatenate(columns)


def _search(
    rows: Any, k: int, n_probe: int | None, queries: Array
) -> tuple[Array, NDArray[np.intp]]:
    """Search an array exactly, or n_probe cells of a `Cells`."""
    return nearest(queries, rows, k) if n_probe is None else rows.nearest(queries, k, n_probe)
