"""Rows that take no part in a learned bipartite graph, because the other domain has none like them.

From a row, go to its nearest rows of the other domain, and from these back to their nearest rows.
If the other domain has rows of the same kind, many of these ways end in the neighbourhood that one
started from. If it has none, they end elsewhere. Rows abstain only if this share falls into two
groups that are far apart, and most ways of the upper group come back: otherwise the features do not
say which rows have no counterpart. See "Rows that abstain" in docs/maths.md.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from .._core.arrays import take_rows, to_numpy
from .._core.errors import CounterpartWarning
from .._core.linalg import Array, rows_by_norm, unit_rows
from ..models.rejector import Rejector
from ..neighbors.search import nearest, nearest_others, without_self
from .likeness import N_NEIGHBORS, averaged, two_groups
from .spreading import neighbour_graph

_LEAST_ROWS = 100  # per domain; with fewer nothing can be told
_MOST_ROWS = 3000  # per domain, evenly spaced by norm; other rows follow the nearest of them
_NEIGHBORHOOD, _PART = 50, 0.25  # rows, and at most this part of the domain
_COMES_BACK = 0.85  # of the upper group, relative to ways inside the domain
_APART = 0.5  # the lower group, relative to the upper one
_LOWER = (0.25, 0.65)  # least and largest part of the rows that may abstain
_TINY = 1e-12


class Comparison(NamedTuple):
    """How the rows of a domain come back from the other one."""

    rows: NDArray[np.intp]  # (m,) numbers of the rows that were compared
    shares: Array  # (m,) see `coming_back`
    limit: float | None  # rows with a smaller share abstain; None: no row does

    @property
    def abstaining(self) -> float:
        """Share of the rows that abstain."""
        return 0.0 if self.limit is None else float((self.shares < self.limit).mean())

    def rejector(self, X: Array) -> Rejector | None:
        """Learn from the rows of the domain which ones have no counterpart; None if none abstains.

        Its score is about 0 for rows that come back as those with a counterpart do, and 1 for rows
        that do not come back.
        """
        if self.limit is None:
            return None
        usual = max(float(np.median(self.shares[self.shares >= self.limit])), _TINY)
        unlikeness = 1.0 - self.shares / usual
        return Rejector.learned(take_rows(X, self.rows), unlikeness, 1.0 - self.limit / usual)


class TakingPart(NamedTuple):
    """Which rows of both domains take part in the bipartite graph."""

    source: NDArray[np.bool_]  # (n_s,)
    target: NDArray[np.bool_]  # (n_t,)

    @property
    def all(self) -> bool:
        return bool(self.source.all() and self.target.all())


def compared(H_s: Array, H_t: Array) -> tuple[Comparison, Comparison] | None:
    """Compare the rows of two domains; None if they are too few.

    Parameters
    ----------
    H_s, H_t : arrays of shape (n_s, r), (n_t, r)
        Projections of both domains, compared by cosine.

    Returns
    -------
    found : Comparison of the source and of the target, or None
    """
    if min(H_s.shape[0], H_t.shape[0]) < _LEAST_ROWS:
        return None
    rows_s, rows_t = (rows_by_norm(H, _MOST_ROWS) for H in (H_s, H_t))
    P, Q = _units(take_rows(H_s, rows_s)), _units(take_rows(H_t, rows_t))
    return _decided(rows_s, coming_back(P, Q)), _decided(rows_t, coming_back(Q, P))


def _decided(rows: NDArray[np.intp], shares: Array) -> Comparison:
    groups = two_groups(shares)
    least, most = _LOWER
    clear = (
        groups.high > _COMES_BACK
        and groups.low < _APART * groups.high
        and least <= float((shares < groups.limit).mean()) <= most
    )
    return Comparison(rows, shares, groups.limit if clear else None)


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
    found = compared(H_s, H_t) or (None, None)
    return TakingPart(*(_all_rows(H, each) for H, each in zip(domains, found, strict=True)))


def _all_rows(H: Array, found: Comparison | None) -> NDArray[np.bool_]:
    """Mark all rows that take part; rows that were not compared follow the nearest one that was."""
    n = H.shape[0]
    if found is None or found.limit is None:
        return np.ones(n, dtype=bool)
    upper = found.shares >= found.limit
    if len(upper) < n:
        return np.asarray(upper[nearest(_units(H), _units(take_rows(H, found.rows)), 1)[1][:, 0]])
    part = np.ones(n, dtype=bool)
    part[found.rows] = upper
    return part


def _units(H: Array) -> Array:
    return unit_rows(to_numpy(H).astype(np.float64))


def warn_of_abstaining(shares: Mapping[str, float]) -> None:
    """Warn with `CounterpartWarning` of domains with rows that abstain.

    Parameters
    ----------
    shares : mapping from names of domains to the share of their rows
    """
    told = [f"{share:.0%} of the rows of {name}" for name, share in shares.items() if share]
    if told:
        warnings.warn(
            f"{' and '.join(told)} seem to have no counterpart. They are not joined with rows of "
            "the other domain. Label the rows of one domain to learn which classes these are, or "
            "set bipartite__abstaining=False if all classes are the same",
            CounterpartWarning,
            stacklevel=3,
        )


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
    across, inside = (
        np.asarray((A @ B).multiply(near).sum(axis=1)).ravel() / k**2
        for A, B in ((there, back), _ways_inside(P, min(len(Q), n), k))
    )
    smooth = averaged(neighbour_graph(P, N_NEIGHBORS), across[:, None])[:, 0]
    shares: Array = smooth / max(float(inside.mean()), _TINY)
    return shares


def _ways_inside(P: Array, m: int, k: int) -> tuple[csr_array, csr_array]:
    """Return ways to m of the rows and back: through a small domain fewer ways come back."""
    n = len(P)
    some = np.linspace(0, n - 1, m).round().astype(np.intp)
    F, columns = nearest(P, P[some], k + 1)
    there = without_self(F, some[columns])[1]
    return _joined(there, n), _joined(nearest_others(P, k)[1], n)


def _joined(columns: NDArray[np.intp], width: int) -> csr_array:
    n, k = columns.shape
    starts = np.arange(0, n * k + 1, k)
    return csr_array((np.ones(n * k), columns.ravel(), starts), shape=(n, width))
