"""Sparse matrices where their data is: SciPy's on the host, those of `bridgehash.cuda` on a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_array

from ._xp import array_namespace, astype, is_on_gpu, like, to_numpy


class HostMatrix:
    """A SciPy matrix that multiplies arrays of any library; for a GPU it is copied there once."""

    def __init__(self, matrix: csr_array) -> None:
        self.matrix = matrix
        self._copies: dict[Any, Any] = {}

    def __matmul__(self, H: Any) -> Any:
        if not is_on_gpu(H):
            return like(self.matrix @ to_numpy(H), H, H.dtype)
        where = H.device, H.dtype
        if where not in self._copies:
            self._copies[where] = _copied(self.matrix, H)
        return self._copies[where] @ H


def operator(matrix: Any) -> Any:
    """What multiplies arrays by a sparse matrix of either kind."""
    return HostMatrix(matrix) if isinstance(matrix, csr_array) else matrix


def row_sums(matrix: Any) -> Any:
    """Sum of each row."""
    if isinstance(matrix, csr_array):
        return np.asarray(matrix.sum(axis=1), dtype=np.float64).ravel()
    return matrix.row_sums()


def transposed(matrix: Any) -> Any:
    """The transpose, by rows as well."""
    return matrix.T.tocsr() if isinstance(matrix, csr_array) else matrix.T


def as_scipy(matrix: Any) -> csr_array:
    """The matrix as one of SciPy."""
    return matrix if isinstance(matrix, csr_array) else matrix.to_scipy()


def from_rows(weights: Any, columns: Any, width: int) -> Any:
    """A matrix with as many entries in each row: (n, k) weights and the columns they stand in."""
    if is_on_gpu(weights):
        from .cuda.sparse import SparseMatrix

        return SparseMatrix.from_rows(weights, columns, width)
    data, places = to_numpy(weights), to_numpy(columns)
    n, k = data.shape
    starts = np.arange(0, n * k + 1, k)
    return csr_array((data.ravel(), places.ravel(), starts), shape=(n, width))


def joined(columns: Any, edge: Any, *, mutual: bool, kind: Any) -> Any:
    """A symmetric matrix of zeros and ones: i and j where `columns` of one holds the other.

    `edge` says which entries of `columns` count; with `mutual` both must hold each other. The
    numbers are of the type of the array `kind`.
    """
    if is_on_gpu(columns):
        from .cuda import sparse

        return sparse.joined(columns, edge, mutual=mutual, dtype=kind.dtype)
    places, counts = to_numpy(columns), to_numpy(edge)
    n = len(places)
    rows = np.broadcast_to(np.arange(n)[:, None], places.shape)[counts]
    ones = np.ones(len(rows), dtype=to_numpy(kind[:0, :]).dtype)
    near = csr_array((ones, (rows, places[counts])), shape=(n, n))
    return (near.minimum if mutual else near.maximum)(near.T).tocsr()


def _copied(matrix: csr_array, H: Any) -> Any:
    from .cuda.sparse import SparseMatrix

    starts, columns = like(matrix.indptr, H), like(matrix.indices.astype(np.int32), H)
    starts = astype(starts, array_namespace(starts).int64)
    return SparseMatrix(starts, columns, like(matrix.data, H, H.dtype), matrix.shape)
