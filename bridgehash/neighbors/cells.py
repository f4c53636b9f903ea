"""Approximate nearest rows by an inverted file: a query is compared with the rows of a few cells.

The rows are divided into cells by k-means on a sample. A query searches the cells whose centres are
nearest to it. All queries of a cell are compared with it by one matrix product; candidates no
farther than the k-th nearest so far are kept, and their distances are recomputed exactly. The
result is exact within the searched cells; `recall` measures how many neighbours are missed.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from .._core.errors import InputError
from .._core.linalg import Array, k_means
from .._core.threads import map_blocks
from .search import nearest

_SAMPLE = 64  # sampled rows per cell
_ROUNDS = 8  # of k-means; more rounds do not improve the recall
_BLOCK = 1 << 14  # queries per thread at a time, at most
_FOUND = 1 << 18  # neighbours per thread at a time; candidates need up to ten times their memory
_TILE = 1 << 21  # distances per thread at a time: 8 MB
_EXACT = 1 << 19  # values compared exactly at a time, small enough for the cache of a core
_STAGES = (1, 4)  # searched cells after which the k-th nearest distance is updated
_STRIDE = 16  # candidates that share a minimum
_ROUNDING = 16 * float(np.finfo(np.float32).eps)  # relative error of a distance by products

Positions = NDArray[np.intp]
Float32 = NDArray[np.float32]


class Cells:
    """Rows divided into cells for approximate search. The rows are not copied.

    Parameters
    ----------
    rows : array of shape (n, d)
        The rows to search, float32 or float64.
    n_cells : int, optional
        Number of cells, by default √n: twice as many cost the same at equal recall, more cost
        more. Cells without rows are removed.
    random_state : int, default=0
        Seed of the sample for k-means.

    Attributes
    ----------
    centres : array of shape (cells, d)
        Centres of the cells, in float32.
    members : list of arrays
        The positions of the rows of each cell, ascending.
    """

    def __init__(self, rows: Array, *, n_cells: int | None = None, random_state: int = 0) -> None:
        wanted = max(1, round(np.sqrt(len(rows)))) if n_cells is None else n_cells
        if wanted < 1:
            raise InputError(f"{n_cells} is not positive", "n_cells")
        n_cells = min(wanted, len(rows))
        rng = np.random.RandomState(random_state)
        drawn = rng.choice(len(rows), min(len(rows), _SAMPLE * n_cells), replace=False)
        sample = rows[drawn].astype(np.float32)
        centres = k_means(sample, sample[:n_cells], _ROUNDS).astype(np.float32)
        labels = _nearest_centres(rows, centres, 1)[1].ravel()
        order = np.argsort(labels, kind="stable")
        members = np.split(order, np.cumsum(np.bincount(labels, minlength=len(centres)))[:-1])
        kept = [cell for cell, ids in enumerate(members) if len(ids)]
        self.rows, self.centres = rows, centres[kept]
        self.members = [members[cell] for cell in kept]

    def nearest(self, queries: Array, k: int, n_probe: int) -> tuple[Array, Positions]:
        """Return squared distances and positions of k near rows of each query, nearest first.

        Parameters
        ----------
        queries : array of shape (m, d)
        k : int
            Number of rows; equal distances are ordered by position.
        n_probe : int
            Number of cells to search per query; more if these have fewer than k rows.
        """
        if not 1 <= k <= len(self.rows):
            raise InputError(f"{k} is not between 1 and {len(self.rows)}, the number of rows", "k")
        if n_probe < 1:
            raise InputError(f"{n_probe} is not positive", "n_probe")
        F = np.empty((len(queries), k), np.result_type(queries, self.rows))
        columns = np.empty((len(queries), k), np.intp)
        if queries is self.rows:
            order = np.concatenate(self.members)
        else:  # queries near one cell search about the same cells: process them together
            labels = _nearest_centres(queries, self.centres, 1)[1].ravel()
            order = np.argsort(labels, kind="stable")

        def search(rows: slice) -> None:
            part = order[rows]
            F[part], columns[part] = self._nearest(queries[part], k, n_probe)

        map_blocks(search, len(queries), max(1, min(_BLOCK, _FOUND // k)), threads=True)
        return F, columns

    def n_probe_for(
        self, queries: Array, k: int, wanted: float, *, most: int, n_sample: int = 256
    ) -> tuple[int, float]:
        """Return the smallest n_probe, up to `most`, with a wanted recall, and its recall.

        A sample of the queries is searched exactly. A neighbour is found if its cell is among the
        n_probe cells nearest to the query.

        >>> line = np.arange(100.0)[:, None]
        >>> Cells(line, n_cells=10).n_probe_for(line, k=5, wanted=1.0, most=10)
        (2, 1.0)
        """
        drawn = _draw_queries(len(queries), n_sample, random_state=0)
        columns = self.nearest(queries[drawn], k, len(self.centres))[1]
        cell_of = np.empty(len(self.rows), np.intp)
        for cell, ids in enumerate(self.members):
            cell_of[ids] = cell
        order = _nearest_centres(queries[drawn], self.centres, len(self.centres))[1]
        rank = np.take_along_axis(np.argsort(order, axis=1), cell_of[columns], axis=1)
        n_probe = min(1 + int(np.quantile(rank, wanted, method="inverted_cdf")), most)
        return n_probe, float((rank < n_probe).mean())

    def _nearest(self, Q: Array, k: int, n_probe: int) -> tuple[Array, Positions]:
        far, probes = self._probes(Q, k, n_probe)
        slack = _ROUNDING * far[:, -1]
        limit = np.full(len(Q), np.inf, np.float32)
        pairs = _Pairs(np.empty(0, np.intp), np.empty(0, np.intp), np.empty(0, np.float32))
        n_probe = probes.shape[1]
        for start, end in pairwise([0, *(s for s in _STAGES if s < n_probe), n_probe]):
            cells = probes[:, start:end].ravel()
            order = np.argsort(cells, kind="stable")
            ends = np.cumsum(np.bincount(cells, minlength=len(self.members)))
            parts = [pairs]
            for cell in np.unique(cells):
                at = order[ends[cell - 1] if cell else 0 : ends[cell]] // (end - start)
                parts += self._search_cell(int(cell), Q, at, limit, slack, k)
            pairs, limit = _Pairs.joined(parts).nearest(k, slack)
        return pairs.exact(Q, self.rows, k)

    def _probes(self, Q: Array, k: int, n_probe: int) -> tuple[Float32, Positions]:
        """Return the cells to search, nearest first: n_probe, or more if k rows need more."""
        sizes = np.array([len(ids) for ids in self.members])
        n_probe = min(n_probe, len(sizes))
        while True:
            far, probes = _nearest_centres(Q, self.centres, n_probe)
            if n_probe == len(sizes) or sizes[probes].sum(axis=1).min() >= k:
                return far, probes
            n_probe = min(2 * n_probe, len(sizes))

    def _search_cell(
        self, cell: int, Q: Array, queries: Positions, limit: Float32, slack: Float32, k: int
    ) -> list[_Pairs]:
        """Return pairs of a query and a row of the cell within the limit of the query.

        Vectors are centred at the cell, so that little precision is lost when a distance is
        computed as a difference of squares.
        """
        ids, centre = self.members[cell], self.centres[cell]
        R = (self.rows[ids] - centre).astype(np.float32, copy=False)
        squares = np.einsum("ij,ij->i", R, R)
        step = max(1, _TILE // len(ids))
        pairs = []
        for start in range(0, len(queries), step):
            at = queries[start : start + step]
            X = (Q[at] - centre).astype(np.float32, copy=False)
            own = np.einsum("ij,ij->i", X, X)
            X *= -2.0
            D = X @ R.T
            D += squares  # the distance minus the square of the query: the same order
            i, j = _near(D, limit[at] - own, slack[at], k)
            pairs.append(_Pairs(at[i], ids[j], np.maximum(D[i, j] + own[i], 0.0)))
        return pairs


def recall(
    F: Array, queries: Array, rows: Array, *, n_sample: int = 1000, random_state: int = 0
) -> float:
    """Return the share of the nearest rows that an approximate search found, from a sample.

    Any row as near as the k-th nearest counts as found.

    Parameters
    ----------
    F : array of shape (m, k)
        Squared distances that the search returned.
    queries, rows : arrays of shape (m, d) and (n, d)
        Inputs of the search.
    n_sample : int, default=1000
        Number of queries to search exactly.
    """
    drawn = _draw_queries(len(queries), n_sample, random_state)
    exact = nearest(queries[drawn], rows, F.shape[1])[0]
    reach = exact[:, -1:] * (1 + _ROUNDING) + np.finfo(F.dtype).tiny
    return float((reach >= F[drawn]).mean())


def _draw_queries(n: int, wanted: int, random_state: int) -> Positions:
    """Draw queries to be searched exactly.

    The generator differs from that of the k-means sample: rows from which k-means starts are near
    the centres and would overestimate the recall.
    """
    return np.random.default_rng(random_state).choice(n, min(wanted, n), replace=False)


def _nearest_centres(X: Array, centres: Float32, n: int) -> tuple[Float32, Positions]:
    """Return squared distances and positions of the n centres nearest to each row."""
    far, cells = np.empty((len(X), n), np.float32), np.empty((len(X), n), np.intp)
    middle = centres.mean(axis=0)
    C = centres - middle
    squares = np.einsum("ij,ij->i", C, C)
    step = max(1, _TILE // len(centres))

    def assign(part: slice) -> None:
        Q = (X[part] - middle).astype(np.float32, copy=False)
        D = -2.0 * Q @ C.T
        D += squares
        near = D.argmin(axis=1)[:, None] if n == 1 else np.argpartition(D, n - 1, axis=1)[:, :n]
        F = np.take_along_axis(D, near, axis=1) + np.einsum("ij,ij->i", Q, Q)[:, None]
        order = np.argsort(F, axis=1, kind="stable")
        far[part] = np.maximum(np.take_along_axis(F, order, axis=1), 0.0)
        cells[part] = np.take_along_axis(near, order, axis=1)

    map_blocks(assign, len(X), step, threads=True)
    return far, cells


def _near(D: Float32, limit: Float32, slack: Float32, k: int) -> tuple[Positions, Positions]:
    """Return rows and columns of values below the limit and possibly among the k smallest.

    The limit is lowered to the k-th smallest minimum over groups of columns, which is an upper
    bound of the k-th smallest value.
    """
    m, n = D.shape
    if n >= k and not np.isfinite(limit).all():
        stride = min(_STRIDE, max(1, n // (4 * k)))
        minima = D[:, : n // stride * stride].reshape(m, stride, n // stride).min(axis=1)
        kth = np.partition(minima, k - 1, axis=1)[:, k - 1]
        limit = np.minimum(limit, kth + slack)
    near = limit[:, None] >= D
    at, columns = np.divmod(np.flatnonzero(near), n)
    enough = 2 * k + _STRIDE
    crowded = np.flatnonzero(np.bincount(at, minlength=m) > enough)
    if len(crowded):
        near[crowded] &= _first_ties(D[crowded], slack[crowded], k, enough)
        at, columns = np.divmod(np.flatnonzero(near), n)
    return at, columns


def _first_ties(D: Float32, slack: Float32, k: int, enough: int) -> NDArray[np.bool_]:
    """Mark what is below the k-th smallest of each row, and the first ties with it."""
    kth = np.partition(D, k - 1, axis=1)[:, k - 1]
    below = (kth - slack)[:, None] > D
    ties = ((kth + slack)[:, None] >= D) & ~below
    free = enough - below.sum(axis=1, keepdims=True)
    return below | (ties & (np.cumsum(ties, axis=1, dtype=np.int32) <= free))


class _Pairs:
    """Queries `at`, rows `ids` and their squared distances F, in float32 up to rounding."""

    def __init__(self, at: Positions, ids: Positions, F: Float32) -> None:
        self.at, self.ids, self.F = at, ids, F

    @classmethod
    def joined(cls, parts: list[_Pairs]) -> _Pairs:
        arrays = zip(*((part.at, part.ids, part.F) for part in parts), strict=True)
        return cls(*map(np.concatenate, arrays))

    def nearest(self, k: int, slack: Float32) -> tuple[_Pairs, Float32]:
        """Return the k nearest of each query with ties, and the distance limit of each query."""
        key = (self.at << 32) | self.F.view(np.uint32)  # non-negative floats sort like their bits
        order = np.argsort(key)
        at, ids, F = self.at[order], self.ids[order], self.F[order]
        counts = np.bincount(at, minlength=len(slack))
        starts = np.cumsum(counts) - counts
        full = counts >= k
        limit = np.full(len(slack), np.inf, np.float32)
        kth = F[starts[full] + k - 1]
        limit[full] = kth * (1 + _ROUNDING) + slack[full]
        keep = limit[at] >= F
        return _Pairs(at[keep], ids[keep], F[keep]), limit

    def exact(self, Q: Array, rows: Array, k: int) -> tuple[Array, Positions]:
        """Return the k nearest of each query by (distance, position), from exact distances."""
        key = np.sort((self.at << 40) | self.ids)
        at, ids = key >> 40, key & ((1 << 40) - 1)
        F = np.empty(len(at), np.result_type(Q, rows))
        step = max(1, _EXACT // Q.shape[1])
        for start in range(0, len(at), step):
            part = slice(start, start + step)
            gap = rows[ids[part]] - Q[at[part]]
            np.einsum("ij,ij->i", gap, gap, out=F[part])
        counts = np.bincount(at)
        place = np.arange(len(at)) - np.repeat(np.cumsum(counts) - counts, counts)
        table = np.full((len(counts), counts.max()), np.inf, F.dtype)  # one row per query
        columns = np.zeros(table.shape, np.intp)
        table[at, place], columns[at, place] = F, ids
        order = np.argsort(table, axis=1, kind="stable")[:, :k]
        return np.take_along_axis(table, order, axis=1), np.take_along_axis(columns, order, axis=1)
