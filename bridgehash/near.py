"""Which search a graph uses: exact, or in cells where all pairs would take too long.

Queries are searched in parts where a cluster does the work (`mappers`), and all at once here.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from numbers import Integral
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ._validation import OneOf, Range
from ._xp import is_foreign
from .inverted import Cells
from .linalg import Array, is_held
from .mappers import Serial, current_mapper
from .neighbors import nearest, others

_log = logging.getLogger(__name__)

NProbe = int | Literal["auto"] | None
N_PROBE = OneOf((None, "auto"), number=Range(1, kind=Integral))  # what a graph may be told

_ALL_PAIRS = 50_000**2  # that "auto" still compares
_RECALL, _MOST_CELLS = 0.9, 32  # that "auto" asks of cells, and how many it looks into for it
_PART = 1 << 15  # queries of one task of a cluster


def near(queries: Array, rows: Array, k: int, n_probe: NProbe) -> tuple[Array, NDArray[np.intp]]:
    """Squared distances and positions of k rows near each query, nearest first.

    Parameters
    ----------
    n_probe : int, "auto" or None
        None: the nearest of all rows. A number: the nearest among the rows of so many cells
        (`inverted.Cells`). "auto": all rows up to 2.5e9 pairs, and beyond them as many cells as
        find 90 % of the nearest rows of a sample, 32 at most; the share that they find is logged.
        On a GPU all rows are compared in any case.
    """
    if is_foreign(rows) or not _in_cells(queries, rows, n_probe):
        return _in_parts(_exact, queries, rows, k)
    cells = Cells(rows)
    probes = _probes(cells, queries, k) if n_probe == "auto" else int(n_probe or 1)
    if isinstance(current_mapper(), Serial):
        return cells.nearest(queries, k, probes)
    return _in_parts(_probed, queries, cells, k, probes)


def near_others(X: Any, k: int, n_probe: NProbe) -> tuple[Array, NDArray[np.intp]]:
    """`near` for the rows of X among themselves, without each row itself; k < n."""
    if is_held(X):
        return others(*near(X, X, k + 1, n_probe))
    if not _in_cells(X, X, n_probe):
        found: tuple[Array, NDArray[np.intp]] = X.nearest_others(k)
        return found
    rows = X.held()
    return others(*near(rows, rows, k + 1, n_probe))


def _probes(cells: Cells, queries: Array, k: int) -> int:
    n_probe, recall = cells.n_probe_for(queries, k, _RECALL, most=_MOST_CELLS)
    sizes = f"{len(queries):,} x {len(cells.rows):,} rows"
    _log.info("%s: %d of %d cells, recall %.2f", sizes, n_probe, len(cells.centres), recall)
    return n_probe


def _in_cells(queries: Any, rows: Any, n_probe: NProbe) -> bool:
    if n_probe == "auto":
        return bool(queries.shape[0] * rows.shape[0] > _ALL_PAIRS)
    return n_probe is not None


def _in_parts(task: Any, queries: Array, *shared: Any) -> tuple[Array, NDArray[np.intp]]:
    mapper = current_mapper()
    if isinstance(mapper, Serial):
        found: tuple[Array, NDArray[np.intp]] = task(*shared, queries)
        return found
    parts = list(mapper(task, _parts(queries), shared))
    return np.concatenate([F for F, _ in parts]), np.concatenate([c for _, c in parts])


def _parts(queries: Array) -> Iterator[tuple[Array]]:
    for start in range(0, len(queries), _PART):
        yield (queries[start : start + _PART],)


def _exact(rows: Array, k: int, queries: Array) -> tuple[Array, NDArray[np.intp]]:
    return nearest(queries, rows, k)


def _probed(cells: Cells, k: int, n_probe: int, queries: Array) -> tuple[Array, NDArray[np.intp]]:
    return cells.nearest(queries, k, n_probe)
