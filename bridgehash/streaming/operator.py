"""The standardised matrix of a domain that is never held whole: sums over its blocks of rows.

A solver uses a matrix X in few ways: X A, Xᵀ M, Xᵀ D X, Xᵀ L X, some rows, nearest rows. Each is a
task for every block (`row_tasks`), run by a mapper, and its results are put together in the order
of the blocks, in float64: one class for data on disk and for data on many machines, with
the same bits.
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

from .._core.linalg import Array
from . import tasks
from .blocks import Blocks
from .mappers import Mapper, current_mapper
from .tasks import Moments, Reader

_SYMMETRIC = 1e-6  # of the largest weight


class BlockRows:
    """Rows of mean zero and root-mean-square norm one, as an operator; made by `standardised`.

    Attributes
    ----------
    shape : (int, int)
    dtype : float32 or float64
        That of the data, of all products, and of what they are computed in inside a block.
    mean : array of shape (m,)
        Subtracted from the rows, behind the division by their norms where that is asked for.
    scale : float
        Divides them afterwards.
    moments : Moments
        Number, mean and spread of the rows before they were centred, in float64.

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
    __array_ufunc__ = None  # an array on the left is not multiplied value by value

    def __init__(self, reader: Reader, moments: Moments, mapper: Mapper, name: str) -> None:
        self._reader, self.moments, self._mapper, self._name = reader, moments, mapper, name
        self.shape, self.dtype = reader.blocks.shape, reader.blocks.dtype

    @classmethod
    def standardised(
        cls,
        blocks: Blocks,
        unit_rows: bool,
        mean: ArrayLike | None = None,
        mapper: Mapper | None = None,
        *,
        cache_bytes: int | None = None,
        name: str = "X",
    ) -> BlockRows:
        """Centre the rows by `mean` (their own, without one) and bring them to scale: one pass.

        Parameters
        ----------
        blocks : Blocks
        unit_rows : bool
            Divide each row by its norm first; zero rows stay zero.
        mean : array of shape (m,), optional
        mapper : optional
            Runs the tasks; `mappers.current_mapper()` by default.
        cache_bytes : int, optional
            Standardised blocks of so many bytes are kept, in each process; those of `blocks`.
        name : str
            What messages call the matrix.
        """
        if len(blocks) < 2:
            raise ValueError(
                f"{name} has {len(blocks)} rows; at least two are needed to learn from"
            )
        mapper = current_mapper() if mapper is None else mapper
        kept = blocks.cache_bytes if cache_bytes is None else cache_bytes
        reader = Reader(blocks, unit_rows, cache_bytes=kept)
        numbers = ((i,) for i in range(blocks.n_blocks))
        with np.errstate(over="ignore", invalid="ignore"):
            moments = reduce(or_, mapper(tasks.moments, numbers, (reader,)))
        rows = cls(reader, moments, mapper, name)
        return rows.recentred(moments.mean if mean is None else mean)

    def recentred(self, mean: ArrayLike) -> BlockRows:
        """The same rows about another mean, on the scale that goes with it; nothing is read."""
        centre: Array = np.asarray(mean).astype(self.dtype)
        _check_shape(centre, self.shape[1:], "mean")
        scale = float(np.sqrt(self.moments.mean_square(centre)))
        if not np.isfinite(scale):
            raise ValueError(f"{self._name} holds values too large to be squared; scale it down")
        if scale <= 100 * np.finfo(self.dtype).eps * float(np.abs(centre).max(initial=0.0)):
            raise ValueError(f"all rows of {self._name} are equal; there is nothing to tell apart")
        reader = replace(self._reader, mean=centre, scale=scale)
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
        """Numbers of the first row of block i and of the first row after it."""
        return self._reader.blocks.bounds(i)

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"BlockRows(shape={self.shape}, dtype={self.dtype}, n_blocks={self.n_blocks})"

    @property
    def T(self) -> TransposedRows:
        return TransposedRows(self)

    def __matmul__(self, A: Array) -> Array:
        """X A, of shape (n, r)."""
        A = np.asarray(A, dtype=self.dtype)
        _check_shape(A, (self.shape[1], None), "the right side of X @ A")
        H = np.empty((self.shape[0], A.shape[1]), dtype=self.dtype)
        for part, found in self._each(tasks.times, self._numbers(), A):
            H[part] = found
        return H

    def gram(self, weights: Array | None = None) -> Array:
        """Xᵀ diag(w) X in float64, of shape (m, m); XᵀX without weights."""
        if weights is None:
            upper = self._sum(tasks.gram, ((i, None) for (i,) in self._numbers()))
        else:
            _check_shape(weights, self.shape[:1], "weights")
            upper = self._sum(tasks.gram, self._with_rows_of(weights))
        upper += np.triu(upper, 1).T
        return upper

    def laplacian_gram(self, W: csr_array, degrees: Array) -> Array:
        """Xᵀ(D - W)X for a symmetric sparse W, of shape (m, m).

        With U the upper half of W and half its diagonal it is G + Gᵀ, G = Xᵀ(D/2 - U)X: a block
        needs only rows of its own and of later blocks, and of those only what it has edges to.
        """
        n = self.shape[0]
        _check_shape(W, (n, n), "W")
        _check_shape(degrees, (n,), "degrees")
        _check_symmetric(W)
        G = self._sum(tasks.against, self._upper_halves(W, degrees))
        return (G + G.T).astype(self.dtype, copy=False)

    def row_squares(self) -> Array:
        """Squared norm of each row: its squared distance from the mean, on scale."""
        found = self._each(tasks.squares, self._numbers())
        return np.concatenate([squares for _, squares in found])

    def block(self, i: int) -> Array:
        """Block i, not to be changed."""
        return next(self._map(tasks.block, [(i,)]))

    def held(self) -> Array:
        """All rows in one array."""
        X = np.empty(self.shape, dtype=self.dtype)
        for part, found in self._each(tasks.block, self._numbers()):
            X[part] = found
        return X

    def take(self, rows: ArrayLike) -> Array:
        """Given rows in the given order."""
        numbers = self._reader.blocks.check_rows(rows)
        taken = np.empty((len(numbers), self.shape[1]), dtype=self.dtype)
        wanted = list(self._reader.blocks.by_block(numbers))
        found = self._map(tasks.rows, ((i, inside) for i, _, inside in wanted))
        for (_, places, _), part in zip(wanted, found, strict=True):
            taken[places] = part
        return taken

    def nearest_others(self, k: int) -> tuple[Array, NDArray[np.intp]]:
        """Squared distances and numbers of the k other rows nearest to each row, nearest first.

        As `neighbors.nearest_others`; of equally near rows those with lower numbers. Every block
        is compared with all: the work grows with the square of the number of rows.
        """
        n = self.shape[0]
        if not 1 <= k < n:
            raise ValueError(f"k={k} is not allowed: each of {n} rows has {n - 1} others")
        F = np.empty((n, k), dtype=self.dtype)
        columns = np.empty((n, k), dtype=np.intp)
        for part, found in self._each(tasks.nearest, self._numbers(), k):
            F[part], columns[part] = found
        return F, columns

    def _numbers(self) -> Iterator[tuple[int]]:
        return ((i,) for i in range(self.n_blocks))

    def _with_rows_of(self, M: Any) -> Iterator[tuple[int, Any]]:
        """Each block's number with the rows of M that belong to it, in the type of the data."""
        for i in range(self.n_blocks):
            start, stop = self.bounds(i)
            yield i, M[start:stop].astype(self.dtype, copy=False)

    def _upper_halves(self, W: csr_array, degrees: Array) -> Iterator[tuple[Any, ...]]:
        """The arguments of `row_tasks.against`: half of each block's degrees and edges."""
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
        """The result for each block, with the rows that it belongs to."""
        for i, found in enumerate(self._map(task, arguments, *shared)):
            yield slice(*self.bounds(i)), found

    def _sum(
        self, task: Callable[..., Array], arguments: Iterable[tuple[Any, ...]]
    ) -> NDArray[np.float64]:
        """The sum of the results over all blocks, in their order."""
        found = self._map(task, arguments)
        total = next(found).astype(np.float64)
        for each in found:
            total += each
        return total


@dataclass(frozen=True)
class TransposedRows:
    """Xᵀ of a `BlockRows`, which it is made by: all it can do is to be multiplied."""

    T: BlockRows

    ndim = 2
    __array_ufunc__ = None

    @property
    def shape(self) -> tuple[int, int]:
        n, m = self.T.shape
        return m, n

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.T.dtype

    def __matmul__(self, M: Any) -> Array:
        """Xᵀ M, of shape (m, r), for M of shape (n, r), dense or sparse."""
        X, by_rows = self.T, M.tocsr() if hasattr(M, "tocsr") else np.asarray(M)
        _check_shape(by_rows, (X.shape[0], None), "the right side of X.T @ M")
        total = X._sum(tasks.transposed_times, X._with_rows_of(by_rows))
        return total.astype(X.dtype, copy=False)


def _check_shape(M: Any, shape: tuple[int | None, ...], name: str) -> None:
    """Refuse an array of another shape; None stands for any length."""
    found = np.shape(M)
    if len(found) != len(shape) or any(
        b not in (None, a) for a, b in zip(found, shape, strict=True)
    ):
        wanted = ", ".join("any" if length is None else str(length) for length in shape)
        raise ValueError(f"{name} has shape {found}; ({wanted}) is needed")


def _check_symmetric(W: csr_array) -> None:
    """Refuse a matrix that is not its transpose, told by one product with each."""
    v = 2.0 + np.cos(np.arange(W.shape[0]))
    apart = np.abs(W @ v - W.T @ v).max()
    if apart > _SYMMETRIC * np.abs(W.data).max(initial=0.0):
        raise ValueError("W is not symmetric; a Laplacian is that of an undirected graph")
