"""Rows that take no part in a learned bipartite graph, because the other domain has none like them.

From a row, go to its nearest rows of the other domain, and from these back to their nearest rows.
If the other domain has rows of the same kind, many of these ways end in the neighbourhood that one
started from. If it has none, they end elsewhere. Rows abstain only if this share falls into two
groups that are far apart, and most ways of the upper group come back: otherwise the features do not
say which rows have no counterpart. See "Rows that abstain" in docs/maths.md.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from .._core.arrays import take_rows, to_numpy
from .._core.linalg import Array, rows_by_norm, unit_rows
from ..neighbors.search import nearest, nearest_others
from .likeness import N_NEIGHBORS, averaged
from .private import two_groups
from .spreading import neighbour_graph

_LEAST_ROWS = 100  # per domain; with fewer nothing can be told
_MOST_ROWS = 3000  # per domain, evenly spaced by norm; other rows follow the nearest of them
_NEIGHBORHOOD, _PART = 50, 0.25  # rows, and at most this part of the domain
_COMES_BACK = 0.75  # of the upper group, relative to ways inside the domain
_APART = 0.45  # the lower group, relative to the upper one
_UPPER = 0.35  # least part of the rows in the upper group
_TINY = 1e-12


class TakingPart(NamedTuple):
    """Which rows of both domains take part in the bipartite graph."""

    source: NDArray[np.bool_]  # (n_s,)
    target: NDArray[np.bool_]  # (n_t,)

    @property
    def all(self) -> bool:
        return bool(self.source.all() and self.target.all())


def taking_part(H_s: Array, H_t: Array) -> TakingPart:
    """Decide which rows take part; all of them if the projections do not say it clearly.

    Parameters
    ----------
    H_s, H_t : arrays of shape (n_s, r), (n_t, r)
        Projections of both domains, compared by cosine.

    Returns
    -------
    TakingPart

    Examples
    --------
    >>> rng = np.random.RandomState(0)
    >>> centres = 10.0 * np.eye(8)
    >>> X = np.repeat(centres, 50, axis=0) + rng.normal(size=(400, 8))
    >>> Y = np.repeat(centres[:5], 50, axis=0) + rng.normal(size=(250, 8))
    >>> found = taking_part(X, Y)  # the target lacks the last three of eight groups
    >>> found.source.reshape(8, 50).mean(axis=1), bool(found.target.all())
    (array([1., 1., 1., 1., 1., 0., 0., 0.]), True)
    """
    domains = (H_s, H_t)
    if min(len(H) for H in domains) < _LEAST_ROWS:
        return TakingPart(*(np.ones(len(H), dtype=bool) for H in domains))
    samples = [rows_by_norm(H, _MOST_ROWS) for H in domains]
    P, Q = (
        unit_rows(to_numpy(take_rows(H, some)).astype(np.float64))
        for H, some in zip(domains, samples, strict=True)
    )
    found = []
    for H, some, own, other in zip(domains, samples, (P, Q), (Q, P), strict=True):
        part = _clearly_back(coming_back(own, other))
        rows = np.ones(len(H), dtype=bool)
        if len(some) == len(H):
            rows[some] = part
        elif not part.all():
            rows = part[nearest(unit_rows(to_numpy(H).astype(np.float64)), own, 1)[1][:, 0]]
        found.append(rows)
    return TakingPart(*found)


def coming_back(P: Array, Q: Array) -> Array:
    """Return the share of the ways there and back that end near each row, relative to ways inside.

    Parameters
    ----------
    P, Q : arrays of shape (n, r), (m, r)
        Unit rows of a domain, and of the other one.

    Returns
    -------
    shares : array of shape (n,)
        Averaged over the k-NN graph. About 1: the other domain has rows like this; near 0: none.
    """
    n, k = len(P), min(N_NEIGHBORS, len(P) - 1, len(Q) - 1)
    near = _joined(nearest(P, P, min(_NEIGHBORHOOD, int(_PART * n) + 1))[1], n)
    there, back = _joined(nearest(P, Q, k)[1], len(Q)), _joined(nearest(Q, P, k)[1], n)
    inside = _joined(nearest_others(P, k)[1], n)
    across, within = (
        np.asarray((A @ B).multiply(near).sum(axis=1)).ravel() / k**2
        for A, B in ((there, back), (inside, inside))
    )
    smooth = averaged(neighbour_graph(P, N_NEIGHBORS), across[:, None])[:, 0]
    shares: Array = smooth / max(float(within.mean()), _TINY)
    return shares


def _joined(columns: NDArray[np.intp], width: int) -> csr_array:
    n, k = columns.shape
    starts = np.arange(0, n * k + 1, k)
    return csr_array((np.ones(n * k), columns.ravel(), starts), shape=(n, width))


def _clearly_back(shares: Array) -> NDArray[np.bool_]:
    """Mark the upper of two groups, or all rows if the groups are not clear."""
    groups = two_groups(shares)
    upper = shares >= groups.limit
    clear = (
        groups.high > _COMES_BACK
        and groups.low < _APART * groups.high
        and float(upper.mean()) >= _UPPER
    )
    return upper if clear else np.ones(len(shares), dtype=bool)
