"""Tasks: functions of one block of a standardised matrix.

Each task takes a `BlockReader` and a block number. The result for the whole matrix is the sum or
the concatenation of the results, so a mapper can run the tasks here or on other machines.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import get_blas_funcs
from scipy.sparse import csc_array
from sklearn.utils import gen_batches

from .._core.arrays import row_squares
from .._core.linalg import Array, product, unit_rows
from .blocks import Blocks

_FEW = 4  # fewer than 1/4 of the rows of a block are read one by one
_TILE_ROWS, _TILE_COLUMNS = 1024, 2048  # distances in memory at a time: 16 MB


@dataclass
class BlockReader:
    """Blocks of rows, standardised when they are read and cached while they fit.

    The first blocks stay in the cache. All blocks are read in turn, so a cache of the most recent
    ones would never be hit.
    """

    blocks: Blocks
    unit_rows: bool
    mean: Array | None = None
    scale: float = 1.0
    cache_bytes: int = 0
    _cache: dict[int, Array] = field(default_factory=dict, init=False, repr=False)
    _lock: Any = field(default_factory=threading.Lock, init=False, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_cache": {}, "_lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=threading.Lock())

    def standardised(self, X: Array) -> Array:
        """Return standardised rows; X is overwritten if it owns its memory."""
        if self.unit_rows:
            X = unit_rows(X)  # the same bits as in an encoder with this map
        if self.mean is None:
            return X
        X = np.subtract(X, self.mean, out=X if X.flags.owndata else None)
        X *= 1.0 / self.scale
        return X

    def block(self, i: int) -> Array:
        """Return block i, read-only."""
        if i in self._cache:
            return self._cache[i]
        X = self.standardised(self.blocks.read(i))
        X.flags.writeable = False
        with self._lock:
            used = sum(block.nbytes for block in self._cache.values())
            if used + X.nbytes <= self.cache_bytes:
                self._cache[i] = X
        return X

    def rows(self, i: int, inside: NDArray[np.intp]) -> Array:
        """Return some rows of block i, numbered within it."""
        start, stop = self.blocks.bounds(i)
        few = len(inside) * _FEW < stop - start and self.blocks.reads_by_row(i)
        if i in self._cache or not few:
            return self.block(i)[inside]
        return self.standardised(self.blocks.read_rows(i, inside))

    def take(self, rows: NDArray[np.intp]) -> Array:
        """Return rows of any blocks."""
        taken = np.empty((len(rows), self.blocks.shape[1]), dtype=self.blocks.dtype)
        for i, places, inside in self.blocks.by_block(rows):
            taken[places] = self.rows(i, inside)
        return taken


class Moments(NamedTuple):
    """Number of rows, their mean, and the sum of their squared distances from it."""

    n: int
    mean: NDArray[np.float64]
    squares: float

    def __or__(self, other: Moments) -> Moments:
        """Combine two sets of rows (Chan, Golub & LeVeque 1979), stable for large means."""
        n = self.n + other.n
        delta = other.mean - self.mean
        between = float(delta @ delta) * self.n * other.n / n
        return Moments(n, self.mean + delta * (other.n / n), self.squares + other.squares + between)

    def mean_square(self, centre: Array) -> float:
        """Return the mean squared distance of the rows from a point."""
        delta = self.mean - centre
        return self.squares / self.n + float(delta @ delta)


def moments(reader: BlockReader, i: int) -> Moments:
    """Return the moments of block i; raise `InputError` for NaN and infinity."""
    X = reader.standardised(reader.blocks.read_checked(i))
    n = len(X)
    with np.errstate(over="ignore", invalid="ignore"):  # the caller checks the sum
        mean = X.mean(axis=0, dtype=np.float64)
        near = mean.astype(X.dtype)
        D = np.subtract(X, near, out=X if X.flags.owndata else None)
        squares = float(row_squares(D).sum(dtype=np.float64))
        rest = mean - near
        return Moments(n, mean, max(squares - n * float(rest @ rest), 0.0))


def squares(reader: BlockReader, i: int) -> Array:
    """Return the squared norms of the rows of block i, in float64."""
    return row_squares(reader.block(i).astype(np.float64, copy=False))


def times(reader: BlockReader, A: Array, i: int) -> Array:
    """Return X_i A."""
    return product(reader.block(i), A)


def transposed_times(reader: BlockReader, i: int, M: Any) -> Array:
    """Return X_iᵀ M for the rows of M, dense or sparse, that belong to block i."""
    X = reader.block(i)
    return product(X.T, M) if isinstance(M, np.ndarray) else (M.T @ X).T


def gram(reader: BlockReader, i: int, weights: Array | None) -> Array:
    """Return the upper triangle of X_iᵀ diag(w) X_i in float64, with zeros below."""
    X = reader.block(i).astype(np.float64, copy=False)
    if weights is not None and weights.min() < 0:
        return np.triu(product(X.T, weights[:, None] * X))
    Z = X if weights is None else np.sqrt(weights)[:, None] * X
    half: Any = get_blas_funcs("syrk", (Z,))
    return half(1.0, Z.T)  # Z.T has Fortran order, so nothing is copied


def against(
    reader: BlockReader, i: int, degrees: Array, columns: NDArray[np.intp], W: csc_array
) -> Array:
    """Return X_iᵀ(D_i X_i - W X_c), where c = `columns` are rows of any blocks.

    W has shape (n_i, c). At most n_i rows of X_c are in memory at a time.
    """
    X = reader.block(i)
    Y = degrees[:, None] * X
    for start in range(0, len(columns), len(X)):
        part = slice(start, start + len(X))
        Y -= W[:, part] @ reader.take(columns[part])
    return product(X.T, Y)


def nearest(reader: BlockReader, k: int, i: int) -> tuple[Array, NDArray[np.intp]]:
    """Return squared distances and numbers of the k other rows nearest to each row of block i.

    Equal distances are ordered by number: blocks are read in order, so a later row replaces an
    earlier one only if it is strictly nearer.
    """
    X, n = reader.block(i), reader.blocks.shape[0]
    F = np.full((len(X), k), np.inf, dtype=X.dtype)
    columns = np.full((len(X), k), n, dtype=np.intp)
    squares_i = row_squares(X)
    for j in range(reader.blocks.n_blocks):
        Y, first = X if j == i else reader.block(j), reader.blocks.bounds(j)[0]
        squares_j = row_squares(Y)
        for down in gen_batches(len(X), _TILE_ROWS):
            for across in gen_batches(len(Y), _TILE_COLUMNS):
                D = product(-2.0 * X[down], Y[across].T)
                D += squares_j[across]
                D += squares_i[down, None]
                np.maximum(D, 0.0, out=D)
                if j == i:  # NaN: a row is not its own neighbour
                    own = np.arange(max(down.start, across.start), min(down.stop, across.stop))
                    D[own - down.start, own - across.start] = np.nan
                _keep_nearest(F[down], columns[down], D, first + across.start)
    return F, columns


def _keep_nearest(F: Array, columns: NDArray[np.intp], D: Array, first: int) -> None:
    """Merge distances D to rows `first`, `first` + 1, … into F and `columns`."""
    k = F.shape[1]
    if np.isfinite(F[:, -1]).all():
        near = F[:, -1:] > D
    else:  # some rows do not have k neighbours yet
        reach = np.partition(D, k - 1, axis=1)[:, k - 1 : k] if D.shape[1] > k else np.inf
        near = reach >= D
    down, across = np.divmod(np.flatnonzero(near), D.shape[1])
    touched = np.unique(down)
    rows = np.concatenate([np.repeat(touched, k), down])
    distances = np.concatenate([F[touched].ravel(), D[down, across]])
    numbers = np.concatenate([columns[touched].ravel(), first + across])
    order = np.lexsort((distances, rows))  # stable: earlier rows come first
    begin = np.searchsorted(rows[order], touched)
    best = order[begin[:, None] + np.arange(k)]
    F[touched], columns[touched] = distances[best], numbers[best]
