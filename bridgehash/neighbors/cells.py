"""Nearest rows by an inverted file: each query is compared with the rows of a few cells only.

The rows are divided into cells by k-means of a sample, and a query looks into those whose centres
are nearest to it. The queries that look into one cell do so together, by a matrix product; what is
no farther than the k-th nearest so far is kept, and the distances of the few that remain are exact.
What is found is right among the cells looked into; a neighbour in another cell is missed. `recall`
says how many are.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from .._core.linalg import Array, k_means
from .._core.threads import map_blocks
from .search import nearest

_SAMPLE = 64  # rows of the sample a cell
_ROUNDS = 8  # of k-means: more of them find no more neighbours
_BLOCK = 1 << 14  # queries that a thread deals with at a time
_TILE = 1 << 21  # distances held at a time by a thread: 8 MB
_EXACT = 1 << 19  # numbers compared exactly at a time, so that they stay in a core's cache
_STAGES = (1, 4)  # cells looked into before the k-th nearest so far is taken anew
_STRIDE = 16  # candidates that share a minimum
_ROUNDING = 16 * float(np.finfo(np.float32).eps)  # of a distance by products, relative

Positions = NDArray[np.intp]
Float32 = NDArray[np.float32]


class Cells:
    """Rows divided into cells, to be searched.

    The rows are kept as they are, not copied.

    Parameters
    ----------
    rows : array of shape (n, d)
        The rows that are searched, float32 or float64.
    n_cells : int, optional
        Cells wanted, by default `default_n_cells(n)`. There may be fewer: those without rows are
        left out.
    random_state : int, default=0
        Draws the sample that k-means sees.

    Attributes
    ----------
    centres : array of shape (cells, d)
        Centres of the cells, in float32.
    members : list of arrays
        The positions of the rows of each cell, rising.
    """

    def __init__(self, rows: Array, *, n_cells: int | None = None, random_state: int = 0) -> None:
        wanted = default_n_cells(len(rows)) if n_cells is None else n_cells
        if wanted < 1:
            raise ValueError(f"n_cells={n_cells}: at least one is needed")
        centres = _sample_centres(rows, min(wanted, len(rows)), random_state)
        labels = _nearest_centres(rows, centres, 1)[1].ravel()
        order = np.argsort(labels, kind="stable")
        members = np.split(order, np.cumsum(np.bincount(labels, minlength=len(centres)))[:-1])
        kept = [cell for cell, ids in enumerate(members) if len(ids)]
        self.rows, self.centres = rows, centres[kept]
        self.members = [members[cell] for cell in kept]

    def nearest(self, queries: Array, k: int, n_probe: int) -> tuple[Array, Positions]:
        """Squared distances and positions of k near rows of each query, nearest first.

        Parameters
        ----------
        queries : array of shape (m, d)
        k : int
            Rows wanted; equal distances go by position.
        n_probe : int
            Cells that a query looks into; more of them where these hold less than k rows.
        """
        if not 1 <= k <= len(self.rows):
            raise ValueError(f"k={k}: there are {len(self.rows)} rows to choose from")
        if n_probe < 1:
            raise ValueError(f"n_probe={n_probe}: at least one cell must be looked into")
        F = np.empty((len(queries), k), np.result_type(queries, self.rows))
        columns = np.empty((len(queries), k), np.intp)
        if queries is self.rows:
            order = np.concatenate(self.members)
        else:  # queries of one cell look into about the same cells: better together
            labels = _nearest_centres(queries, self.centres, 1)[1].ravel()
            order = np.argsort(labels, kind="stable")

        def search(rows: slice) -> None:
            part = order[rows]
            F[part], columns[part] = self._nearest(queries[part], k, n_probe)

        map_blocks(search, len(queries), _BLOCK, threads=True)
        return F, columns

    def n_probe_for(
        self, queries: Array, k: int, wanted: float, *, most: int, n_sample: int = 256
    ) -> tuple[int, float]:
        """The least n_probe, up to `most`, for a wanted share of the k nearest rows; and the share.

        A sample of the queries is searched exactly; a neighbour is found if so many cells are
        looked into as are not farther than its own.

        >>> line = np.arange(100.0)[:, None]
        >>> Cells(line, n_cells=10).n_probe_for(line, k=5, wanted=1.0, most=10)
        (2, 1.0)
        """
        asked = _asked(len(queries), n_sample, random_state=0)
        columns = self.nearest(queries[asked], k, len(self.centres))[1]
        cell_of = np.empty(len(self.rows), np.intp)
        for cell, ids in enumerate(self.members):
            cell_of[ids] = cell
        order = _nearest_centres(queries[asked], self.centres, len(self.centres))[1]
        rank = np.take_along_axis(np.argsort(order, axis=1), cell_of[columns], axis=1)
        n_probe = min(1 + int(np.quantile(rank, wanted, method="inverted_cdf")), most)
        return n_probe, float((rank < n_probe).mean())

    def _nearest(self, Q: Array, k: int, n_probe: int) -> tuple[Array, Positions]:
        far, probes = self._probes(Q, k, n_probe)
        slack = _ROUNDING * far[:, -1]
        limit = np.full(len(Q), np.inf, np.float32)
        found = _Pairs.none()
        n_probe = probes.shape[1]
        for start, end in pairwise([0, *(s for s in _STAGES if s < n_probe), n_probe]):
            cells = probes[:, start:end].ravel()
            order = np.argsort(cells, kind="stable")
            ends = np.cumsum(np.bincount(cells, minlength=len(self.members)))
            parts = [found]
            for cell in np.unique(cells):
                asking = order[ends[cell - 1] if cell else 0 : ends[cell]] // (end - start)
                parts += self._looked_into(int(cell), Q, asking, limit, slack, k)
            found, limit = _Pairs.joined(parts).nearest(k, slack)
        return found.exact(Q, self.rows, k)

    def _probes(self, Q: Array, k: int, n_probe: int) -> tuple[Float32, Positions]:
        """The cells to look into, nearest first: as many as wanted, or as k rows need."""
        sizes = np.array([len(ids) for ids in self.members])
        n_probe = min(n_probe, len(sizes))
        while True:
            far, probes = _nearest_centres(Q, self.centres, n_probe)
            if n_probe == len(sizes) or sizes[probes].sum(axis=1).min() >= k:
                return far, probes
            n_probe = min(2 * n_probe, len(sizes))

    def _looked_into(
        self, cell: int, Q: Array, asking: Positions, limit: Float32, slack: Float32, k: int
    ) -> list[_Pairs]:
        """Queries and rows of a cell that are not farther apart than the limit of the query.

        Products are made around the centre of the cell: there the squares whose difference is a
        distance are not much larger than it.
        """
        ids, centre = self.members[cell], self.centres[cell]
        R = (self.rows[ids] - centre).astype(np.float32, copy=False)
        squares = np.einsum("ij,ij->i", R, R)
        step = max(1, _TILE // len(ids))
        pairs = []
        for start in range(0, len(asking), step):
            at = asking[start : start + step]
            X = (Q[at] - centre).astype(np.float32, copy=False)
            own = np.einsum("ij,ij->i", X, X)
            X *= -2.0
            D = X @ R.T
            D += squares  # less than the distance by the query's square, which changes no order
            i, j = _near(D, limit[at] - own, slack[at], k)
            pairs.append(_Pairs(at[i], ids[j], np.maximum(D[i, j] + own[i], 0.0)))
        return pairs


def recall(
    F: Array, queries: Array, rows: Array, *, n_sample: int = 1000, random_state: int = 0
) -> float:
    """Share of the nearest rows that an approximate search found, on a sample of the queries.

    A row as near as the k-th nearest counts as found, whichever of several that is.

    Parameters
    ----------
    F : array of shape (m, k)
        Squared distances that the search returned.
    queries, rows : arrays of shape (m, d) and (n, d)
        What it was given.
    n_sample : int, default=1000
        Queries that are searched exactly.
    """
    asked = _asked(len(queries), n_sample, random_state)
    exact = nearest(queries[asked], rows, F.shape[1])[0]
    reach = exact[:, -1:] * (1 + _ROUNDING) + np.finfo(F.dtype).tiny
    return float((reach >= F[asked]).mean())


def default_n_cells(n: int) -> int:
    """√n cells for n rows; twice as many cost about as much at equal recall, more cost more."""
    return max(1, round(np.sqrt(n)))


def _sample_centres(rows: Array, n_cells: int, random_state: int) -> Float32:
    rng = np.random.RandomState(random_state)
    drawn = rng.choice(len(rows), min(len(rows), _SAMPLE * n_cells), replace=False)
    sample = rows[drawn].astype(np.float32)
    centres: Float32 = k_means(sample, sample[:n_cells], _ROUNDS).astype(np.float32)
    return centres


def _asked(n: int, wanted: int, random_state: int) -> Positions:
    """Queries to be searched exactly.

    Not drawn as the sample of k-means is: rows from which cells began lie near the centres, and
    find more of their neighbours than others do.
    """
    return np.random.default_rng(random_state).choice(n, min(wanted, n), replace=False)


def _nearest_centres(X: Array, centres: Float32, n: int) -> tuple[Float32, Positions]:
    """Squared distances and positions of the n centres nearest to each row, up to rounding."""
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
    """Rows and columns of what is below the limit and may be among the k smallest of its row.

    The k-th smallest of the minima of some columns each is not below the k-th smallest of all,
    and seldom far above it.
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
    """What is below the k-th smallest of each row, and the first of those that tie with it."""
    kth = np.partition(D, k - 1, axis=1)[:, k - 1]
    below = (kth - slack)[:, None] > D
    ties = ((kth + slack)[:, None] >= D) & ~below
    free = enough - below.sum(axis=1, keepdims=True)
    first: NDArray[np.bool_] = below | (ties & (np.cumsum(ties, axis=1, dtype=np.int32) <= free))
    return first


class _Pairs:
    """Queries `at`, rows `ids` and their squared distances F, in float32 and up to rounding."""

    def __init__(self, at: Positions, ids: Positions, F: Float32) -> None:
        self.at, self.ids, self.F = at, ids, F

    @classmethod
    def none(cls) -> _Pairs:
        return cls(np.empty(0, np.intp), np.empty(0, np.intp), np.empty(0, np.float32))

    @classmethod
    def joined(cls, parts: list[_Pairs]) -> _Pairs:
        return cls(
            np.concatenate([part.at for part in parts]),
            np.concatenate([part.ids for part in parts]),
            np.concatenate([part.F for part in parts]),
        )

    def nearest(self, k: int, slack: Float32) -> tuple[_Pairs, Float32]:
        """The k nearest of each query and what ties with the last; and how far they reach."""
        key = (self.at << 32) | self.F.view(np.uint32)  # floats from zero on rise as their bits
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
        """The k nearest of each query by (distance, position), distances by differences."""
        key = np.sort((self.at << 40) | self.ids)
        at, ids = key >> 40, key & ((1 << 40) - 1)
        F = np.empty(len(at), np.result_type(Q, rows))
        step = max(1, _EXACT // Q.shape[1])
        for start in range(0, len(at), step):
            part = slice(start, start + step)
            gap = rows[ids[part]] - Q[at[part]]
            np.einsum("ij,ij->i", gap, gap, out=F[part])
        return _first(F, at, ids, k)


def _first(F: Array, at: Positions, ids: Positions, k: int) -> tuple[Array, Positions]:
    """The k smallest of each query; pairs are given by query, then position."""
    counts = np.bincount(at)
    place = np.arange(len(at)) - np.repeat(np.cumsum(counts) - counts, counts)
    table = np.full((len(counts), counts.max()), np.inf, F.dtype)
    columns = np.zeros(table.shape, np.intp)
    table[at, place], columns[at, place] = F, ids
    order = np.argsort(table, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(table, order, axis=1), np.take_along_axis(columns, order, axis=1)
