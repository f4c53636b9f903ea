"""The standardised matrix of a domain as a linear operator over blocks of rows.

The solver needs X A, Xᵀ M, Xᵀ D X, Xᵀ L X, some rows, and nearest rows. Each is a task per block
(`tasks`), run by a mapper. Results are combined in the order of the blocks, in float64, so data on
disk and data on a cluster give the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csc_array, csr_array

from .._core.errors import InputError
from .._core.linalg import Array
from . import tasks
from .blocks import Blocks
from .mappers import Mapper, current_mapper
from .tasks import BlockReader, Moments

_SYMMETRIC = 1e-6  # tolerance, relative to the largest weight


class BlockRows:
    """Rows of mean zero and, unless `unscaled`, root-mean-square norm one; see `standardised`.

    Attributes
    ----------
    shape : (int, int)
    dtype : float32 or float64
        Type of the data and of all products.
    mean : array of shape (m,)
        Subtracted from the rows, after the optional division by their norms.
    scale : float
        The centred rows are divided by it.
    moments : Moments
        Number, mean and spread of the rows before centring, in float64.

    Examples
    --------
    >>> from bridgehash.streaming.blocks import as_blocks
    >>> X = BlockRows.standardised(as_blocks(np.array([[1.0], [5.0]])), unit_rows=False)
    >>> X.mean, X.scale, X @ np.array([[10.0]])
    (array([3.]), 2.0, array([[-10.],
           [ 10.]]))
    >>> X.T @ np.array([[0.0], [1.0]])
    array([[1.]])
    """

    ndim = 2
    __array_ufunc__ = None  # so that `array @ rows` raises TypeError

    def __init__(self, reader: BlockReader, moments: Moments, mapper: Mapper, name: str) -> None:
        self._reader, self.moments, self._mapper, self._name = reader, moments, mapper, name
        self.shape, self.dtype = reader.blocks.shape, reader.blocks.dtype

    @classmethod
    def standardised(cls, blocks: Blocks, unit_rows: bool, *, name: str = "X") -> BlockRows:
        """Centre and scale the rows in one pass; the mapper in use runs this and all later tasks.

        Parameters
        ----------
        blocks : Blocks
        unit_rows : bool
            Divide each row by its norm first; zero rows stay zero.
        name : str
            Name of the matrix in messages.
        """
        if len(blocks) < 2:
            raise InputError(f"{len(blocks)} row; at least 2 are needed", name)
        mapper = current_mapper()
        reader = BlockReader(blocks, unit_rows, cache_bytes=blocks.cache_bytes)
        numbers = ((i,) for i in range(blocks.n_blocks))
        with np.errstate(over="ignore", invalid="ignore"):
            moments = reduce(or_, mapper(tasks.moments, numbers, (reader,)))
        return cls(reader, moments, mapper, name).recentred(moments.mean)

    def recentred(self, mean: ArrayLike) -> BlockRows:
        """Return the same rows with another mean and its scale, without reading any data."""
        centre: Array = np.asarray(mean).astype(self.dtype)
        _check_shape(centre, self.shape[1:], "mean")
        scale = float(np.sqrt(self.moments.mean_square(centre)))
        if not np.isfinite(scale):
            raise InputError("values too large to be squared; scale them down", self._name)
        if scale <= 100 * np.finfo(self.dtype).eps * float(np.abs(centre).max(initial=0.0)):
            raise InputError("all rows are equal; nothing can be learned from them", self._name)
        reader = replace(self._reader, mean=centre, scale=scale)
        return BlockRows(reader, self.moments, self._mapper, self._name)

    def unscaled(self) -> BlockRows:
        """Return the same centred rows, not divided by their root-mean-square norm."""
        reader = replace(self._reader, scale=1.0)
        return BlockRows(reader, self.moments, self._mapper, self._name)

    @property
    def mean(self) -> Array:
        assert self._reader.mean is not None
        return self._reader.mean

    @property
    def scale(self) -> float:
        return self._reader.scale

    @property
    def n_blocks(self) -> int:
        return self._reader.blocks.n_blocks

    def bounds(self, i: int) -> tuple[int, int]:
        """Return the number of the first row of block i and of the first row after it."""
        return self._reader.blocks.bounds(i)

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"BlockRows(shape={self.shape}, dtype={self.dtype}, n_blocks={self.n_blocks})"

    @property
    def T(self) -> TransposedRows:
        return TransposedRows(self)

    def __matmul__(self, A: Array) -> Array:
        """Return X A, of shape (n, r)."""
        A = np.asarray(A, dtype=self.dtype)
        _check_shape(A, (self.shape[1], None), "the right side of X @ A")
        H = np.empty((self.shape[0], A.shape[1]), dtype=self.dtype)
        for part, product in self._each(tasks.times, self._numbers(), A):
            H[part] = product
        return H

    def gram(self, weights: Array | None = None) -> Array:
        """Return Xᵀ diag(w) X in float64, of shape (m, m); XᵀX without weights."""
        if weights is None:
            upper = self._sum(tasks.gram, ((i, None) for (i,) in self._numbers()))
        else:
            _check_shape(weights, self.shape[:1], "weights")
            upper = self._sum(tasks.gram, self._with_rows_of(weights))
        upper += np.triu(upper, 1).T
        return upper

    def laplacian_gram(self, W: csr_array, degrees: Array) -> Array:
        """Return Xᵀ(D - W)X for a symmetric sparse W, of shape (m, m).

        It is G + Gᵀ with G = Xᵀ(D/2 - U)X, where U is the upper triangle of W with half the
        diagonal. A block then needs only its own rows and the later rows it has edges to.
        """
        n = self.shape[0]
        _check_shape(W, (n, n), "W")
        _check_shape(degrees, (n,), "degrees")
        v = 2.0 + np.cos(np.arange(n))
        if np.abs(W @ v - W.T @ v).max() > _SYMMETRIC * np.abs(W.data).max(initial=0.0):
            raise InputError("is not symmetric; a Laplacian needs an undirected graph", "W")
        G = self._sum(tasks.against, self._upper_halves(W, degrees))
        return (G + G.T).astype(self.dtype, copy=False)

    def row_squares(self) -> Array:
        """Return the squared norm of each row."""
        return np.concatenate(list(self._map(tasks.squares, self._numbers())))

    def to_array(self) -> Array:
        """Return all rows in one array."""
        X = np.empty(self.shape, dtype=self.dtype)
        for part, block in self._each(BlockReader.block, self._numbers()):
            X[part] = block
        return X

    def take(self, rows: ArrayLike) -> Array:
        """Return the given rows in the given order."""
        numbers = self._reader.blocks.check_rows(rows)
        taken = np.empty((len(numbers), self.shape[1]), dtype=self.dtype)
        wanted = list(self._reader.blocks.by_block(numbers))
        parts = self._map(BlockReader.rows, ((i, inside) for i, _, inside in wanted))
        for (_, places, _), part in zip(wanted, parts, strict=True):
            taken[places] = part
        return taken

    def nearest_others(self, k: int) -> tuple[Array, NDArray[np.intp]]:
        """Return squared distances and numbers of the k other rows nearest to each row.

        The nearest come first; equal distances are ordered by number. Every block is compared with
        all blocks, so time grows with the square of the number of rows.
        """
        n = self.shape[0]
        if not 1 <= k < n:
            raise InputError(f"{k} is not between 1 and {n - 1}, the number of other rows", "k")
        F = np.empty((n, k), dtype=self.dtype)
        columns = np.empty((n, k), dtype=np.intp)
        for part, neighbors in self._each(tasks.nearest, self._numbers(), k):
            F[part], columns[part] = neighbors
        return F, columns

    def _numbers(self) -> list[tuple[int]]:
        return [(i,) for i in range(self.n_blocks)]

    def _with_rows_of(self, M: Any) -> Iterator[tuple[int, Any]]:
        """Yield each block number with its rows of M, in the type of the data."""
        for i in range(self.n_blocks):
            start, stop = self.bounds(i)
            yield i, M[start:stop].astype(self.dtype, copy=False)

    def _upper_halves(self, W: csr_array, degrees: Array) -> Iterator[tuple[Any, ...]]:
        """Yield the arguments of `tasks.against`: half of the degrees and edges of each block."""
        for i in range(self.n_blocks):
            start, stop = self.bounds(i)
            edges = W[start:stop].tocoo()
            rows, others = edges.coords
            upper = others >= rows + start
            rows, others, weights = rows[upper], others[upper], edges.data[upper]
            halved = np.where(others == rows + start, 0.5, 1.0) * weights
            columns, places = np.unique(others, return_inverse=True)
            shape = (stop - start, len(columns))
            U = csc_array((halved.astype(self.dtype), (rows, places)), shape=shape)
            yield i, (0.5 * degrees[start:stop]).astype(self.dtype), columns, U

    def _map(
        self, task: Callable[..., Any], arguments: Iterable[tuple[Any, ...]], *shared: Any
    ) -> Iterator[Any]:
        return self._mapper(task, arguments, (self._reader, *shared))

    def _each(
        self, task: Callable[..., Any], arguments: Iterable[tuple[Any, ...]], *shared: Any
    ) -> Iterator[tuple[slice, Any]]:
        """Yield the result for each block, with its slice of rows."""
        for i, result in enumerate(self._map(task, arguments, *shared)):
            yield slice(*self.bounds(i)), result

    def _sum(
        self, task: Callable[..., Array], arguments: Iterable[tuple[Any, ...]]
    ) -> NDArray[np.float64]:
        """Return the sum of the results over all blocks, in order."""
        results = self._map(task, arguments)
        total = next(results).astype(np.float64)
        for each in results:
            total += each
        return total


@dataclass(frozen=True)
class TransposedRows:
    """The transpose of a `BlockRows`, for products only."""

    T: BlockRows
    __array_ufunc__ = None

    def __matmul__(self, M: Any) -> Array:
        """Return Xᵀ M of shape (m, r), for M of shape (n, r), dense or sparse."""
        X, by_rows = self.T, M.tocsr() if hasattr(M, "tocsr") else np.asarray(M)
        _check_shape(by_rows, (X.shape[0], None), "the right side of X.T @ M")
        total = X._sum(tasks.transposed_times, X._with_rows_of(by_rows))
        return total.astype(X.dtype, copy=False)


def _check_shape(M: Any, shape: tuple[int | None, ...], name: str) -> None:
    """Raise `InputError` for an array of another shape; None allows any length."""
    actual = np.shape(M)
    if len(actual) != len(shape) or any(
        b not in (None, a) for a, b in zip(actual, shape, strict=True)
    ):
        wanted = ", ".join("any" if length is None else str(length) for length in shape)
        raise InputError(f"has shape {actual}; ({wanted}) is needed", name)
