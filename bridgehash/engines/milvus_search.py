"""The nearest codes by (distance, id), from a server that orders equal distances as it likes.

Ask for more than k. If the last distance is beyond the k-th one, all codes that tie with the k-th
are there. If not, ask for more still, up to the server's limit; beyond it, for a smaller and
smaller range of ids, until all that tie fit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

MOST = 16_384  # codes that Milvus finds for a query
_FOUND = 200_000  # codes that come back from one request


class Nearest(NamedTuple):
    """What a server found for one query, nearest first."""

    distances: NDArray[np.int64]
    ids: NDArray[np.int64]


Ask = Callable[[NDArray[np.uint8], int, str], list[Nearest]]  # queries, limit, filter


def nearest(queries: NDArray[np.uint8], k: int, ask: Ask, *, exact: bool) -> list[Nearest]:
    """The k nearest of each query; without `exact` ties at the k-th place go as they come."""
    found: dict[int, Nearest] = {}
    rows, limit = np.arange(len(queries)), min(MOST, 2 * k + 64)
    while len(rows):
        step, cut = max(1, _FOUND // limit), []
        for start in range(0, len(rows), step):
            part = rows[start : start + step]
            for row, near in zip(part.tolist(), ask(queries[part], limit, ""), strict=True):
                if not exact or not _is_cut(near, limit, near.distances[k - 1 : k]):
                    found[row] = _first(near, k)
                elif limit < MOST:
                    cut.append(row)
                else:
                    found[row] = _by_halving(queries[row : row + 1], k, near, ask)
        rows, limit = np.array(cut, dtype=np.intp), min(MOST, 8 * limit)
    return [found[row] for row in range(len(queries))]


def _is_cut(near: Nearest, limit: int, distance: NDArray[np.int64]) -> bool:
    """May there be codes at this distance, or below, that did not fit?"""
    return len(near.ids) >= limit and bool((near.distances[-1] <= distance).all())


def _by_halving(query: NDArray[np.uint8], k: int, near: Nearest, ask: Ask) -> Nearest:
    """All codes below the k-th distance are in `near`; of those at it the first ids are looked for.

    Some id is such that up to it there are enough of these, and not too many to be found at once.
    """
    at = near.distances[k - 1 : k]
    below = near.distances < at
    missing = k - int(below.sum())
    ties = np.sort(near.ids[near.distances == at])
    low, high = 0, int(ties[missing - 1])
    while low <= high:
        middle = (low + high) // 2
        part = ask(query, MOST, f"id <= {middle}")[0]
        here = np.sort(part.ids[part.distances == at])
        if _is_cut(part, MOST, at):
            high = middle - 1
        elif len(here) < missing:
            low = middle + 1
        else:
            ties = here
            break
    return _first(
        Nearest(
            np.concatenate([near.distances[below], np.repeat(at, missing)]),
            np.concatenate([near.ids[below], ties[:missing]]),
        ),
        k,
    )


def _first(near: Nearest, k: int) -> Nearest:
    order = np.lexsort((near.ids, near.distances))[:k]
    return Nearest(near.distances[order], near.ids[order])
