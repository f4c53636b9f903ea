"""What is done to one block of a standardised matrix: plain functions of a reader and a number.

Every result is small or as long as the block, and what the whole matrix needs is their sum or
their sequence. So a mapper may run them here, or on machines that see the same files.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import get_blas_funcs
from scipy.sparse import csc_array

from .._core.arrays import row_squares
from .._core.linalg import Array, product, unit_rows
from .blocks import Blocks

_FEW = 4  # rows are read by themselves where they are fewer than one in so many of a block
_TILE_ROWS, _TILE_COLUMNS = 1024, 2048  # distances held at a time: 16 MB


@dataclass
class Reader:
    """Blocks of rows, standardised as they are read; as many as fit are kept.

    Those read first stay: of blocks that are read in turn, again and again, keeping the last ones
    would keep none that is asked for next.
    """

    blocks: Blocks
    unit_rows: bool
    mean: Array | None = None
    scale: float = 1.0
    cache_bytes: int = 0
    _kept: dict[int, Array] = field(default_factory=dict, init=False, repr=False)
    _lock: Any = field(default_factory=threading.Lock, init=False, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_kept": {}, "_lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=threading.Lock())

    def standardised(self, X: Array) -> Array:
        """Raw rows as the solver sees them, in the place of X where X owns its memory."""
        if self.unit_rows:
            X = unit_rows(X)  # the same bits as those of an encoder that has this map
        if self.mean is None:
            return X
        X = np.subtract(X, self.mean, out=X if X.flags.owndata else None)
        X *= 1.0 / self.scale
        return X

    def block(self, i: int) -> Array:
        """Block i, not to be changed."""
        if i in self._kept:
            return self._kept[i]
        X = self.standardised(self.blocks.read(i))
        X.flags.writeable = False
        with self._lock:
            held = sum(block.nbytes for block in self._kept.values())
            if held + X.nbytes <= self.cache_bytes:
                self._kept[i] = X
        return X

    def rows(self, i: int, inside: NDArray[np.intp]) -> Array:
        """Some rows of block i, numbered inside it."""
        start, stop = self.blocks.bounds(i)
        few = len(inside) * _FEW < stop - start and self.blocks.reads_by_row(i)
        if i in self._kept or not few:
            return self.block(i)[inside]
        return self.standardised(self.blocks.read_rows(i, inside))

    def take(self, rows: NDArray[np.intp]) -> Array:
        """Rows of any blocks."""
        taken = np.empty((len(rows), self.blocks.shape[1]), dtype=self.blocks.dtype)
        for i, places, inside in self.blocks.by_block(rows):
            taken[places] = self.rows(i, inside)
        return taken


class Moments(NamedTuple):
    """Number and mean of rows, and the sum of their squared distances from it."""

    n: int
    mean: NDArray[np.float64]
    squares: float

    def __or__(self, other: Moments) -> Moments:
        """Those of both sets of rows (Chan, Golub & LeVeque 1979): large means do not cancel."""
        n = self.n + other.n
        apart = other.mean - self.mean
        between = float(apart @ apart) * self.n * other.n / n
        return Moments(n, self.mean + apart * (other.n / n), self.squares + other.squares + between)

    def mean_square(self, centre: Array) -> float:
        """Mean squared distance of the rows from a point."""
        apart = self.mean - centre
        return self.squares / self.n + float(apart @ apart)


def moments(reader: Reader, i: int) -> Moments:
    """Moments of block i, once its values are seen to be finite."""
    X = reader.standardised(reader.blocks.read_checked(i))
    n = len(X)
    with np.errstate(over="ignore", invalid="ignore"):  # the caller looks at the sum of all
        mean = X.mean(axis=0, dtype=np.float64)
        near = mean.astype(X.dtype)
        D = np.subtract(X, near, out=X if X.flags.owndata else None)
        squares = float(row_squares(D).sum(dtype=np.float64))
        rest = mean - near
        return Moments(n, mean, max(squares - n * float(rest @ rest), 0.0))


def block(reader: Reader, i: int) -> Array:
    """Block i itself."""
    return reader.block(i)


def rows(reader: Reader, i: int, inside: NDArray[np.intp]) -> Array:
    """Some rows of block i."""
    return reader.rows(i, inside)


def squares(reader: Reader, i: int) -> Array:
    """Squared norms of the rows of block i, in float64."""
    return row_squares(reader.block(i).astype(np.float64, copy=False))


def times(reader: Reader, A: Array, i: int) -> Array:
    """X_i A."""
    return product(reader.block(i), A)


def transposed_times(reader: Reader, i: int, M: Any) -> Array:
    """X_iᵀ M for the rows of M, dense or sparse, that belong to block i."""
    X = reader.block(i)
    return product(X.T, M) if isinstance(M, np.ndarray) else (M.T @ X).T


def gram(reader: Reader, i: int, weights: Array | None) -> Array:
    """X_iᵀ diag(w) X_i on and above its diagonal, in float64; what is below is zero."""
    X = reader.block(i).astype(np.float64, copy=False)
    if weights is not None and weights.min() < 0:
        return np.triu(product(X.T, weights[:, None] * X))
    Z = X if weights is None else np.sqrt(weights)[:, None] * X
    half: Any = get_blas_funcs("syrk", (Z,))
    return half(1.0, Z.T)  # the transpose is in Fortran's order: nothing is copied


def against(
    reader: Reader, i: int, degrees: Array, columns: NDArray[np.intp], W: csc_array
) -> Array:
    """X_iᵀ(D_i X_i - W X_c): block i against rows c = `columns` of all blocks, W of shape (n_i, c).

    As many rows are held at a time as block i has.
    """
    X = reader.block(i)
    Y = degrees[:, None] * X
    for part in _runs(len(columns), len(X)):
        Y -= W[:, part] @ reader.take(columns[part])
    return product(X.T, Y)


def _runs(n: int, size: int) -> Iterator[slice]:
    return (slice(start, min(start + size, n)) for start in range(0, n, size))


def nearest(reader: Reader, k: int, i: int) -> tuple[Array, NDArray[np.intp]]:
    """Squared distances and numbers of the k other rows nearest to each row of block i.

    Equal distances go by number. Blocks are gone through in their order, so that a row as far as
    the last one held can only come after it.
    """
    X, n = reader.block(i), reader.blocks.shape[0]
    F = np.full((len(X), k), np.inf, dtype=X.dtype)
    columns = np.full((len(X), k), n, dtype=np.intp)
    squares_i = row_squares(X)
    for j in range(reader.blocks.n_blocks):
        Y, first = X if j == i else reader.block(j), reader.blocks.bounds(j)[0]
        squares_j = row_squares(Y)
        for down in _runs(len(X), _TILE_ROWS):
            for across in _runs(len(Y), _TILE_COLUMNS):
                D = product(-2.0 * X[down], Y[across].T)
                D += squares_j[across]
                D += squares_i[down, None]
                np.maximum(D, 0.0, out=D)
                if j == i:
                    _leave_out_diagonal(D, down.start, across.start)
                _keep_nearest(F[down], columns[down], D, first + across.start)
    return F, columns


def _leave_out_diagonal(D: Array, row: int, column: int) -> None:
    """NaN, never the nearer one, between a row and itself; D begins at that row and column."""
    low, high = max(row, column), min(row + D.shape[0], column + D.shape[1])
    both = np.arange(low, high)
    D[both - row, both - column] = np.nan


def _keep_nearest(F: Array, columns: NDArray[np.intp], D: Array, first: int) -> None:
    """Let distances D to rows `first`, `first` + 1, … replace farther ones in F and `columns`."""
    k = F.shape[1]
    if np.isfinite(F[:, -1]).all():
        near = F[:, -1:] > D
    else:  # at first, as long as not every row has k neighbours
        reach = np.partition(D, k - 1, axis=1)[:, k - 1 : k] if D.shape[1] > k else np.inf
        near = reach >= D
    down, across = np.divmod(np.flatnonzero(near), D.shape[1])
    touched = np.unique(down)
    rows = np.concatenate([np.repeat(touched, k), down])
    distances = np.concatenate([F[touched].ravel(), D[down, across]])
    numbers = np.concatenate([columns[touched].ravel(), first + across])
    order = np.lexsort((distances, rows))  # stable: what is held comes before what is as near
    begin = np.searchsorted(rows[order], touched)
    best = order[begin[:, None] + np.arange(k)]
    F[touched], columns[touched] = distances[best], numbers[best]
