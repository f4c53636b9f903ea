"""Exact nearest rows on a GPU: a fast filter with a known error bound, then exact distances.

The filter computes minima over small groups of rows by half-precision products. Groups that may
contain one of the k nearest, given the error bound, are compared directly: Σ (q - r)² in the
precision of the data. The result does not depend on the filter; a poor filter only costs time.
"""

from __future__ import annotations

from functools import cache
from typing import Any
from warnings import warn

import torch

from ..._core.errors import InputError
from . import plain
from .device import has_kernels

MOST_NEIGHBORS = 128  # limit of the kernels; above it torch alone is used
_FAR = 4  # rows beyond this many times the median norm are searched separately
_SOME = 4096  # rows sampled for the median
_FEW = 512  # up to this many rows are searched together
_MANY, _SHARE = 4096, 50  # rows, or 1/50 of them: beyond this a finer filter is faster


def nearest(queries: Any, rows: Any, k: int) -> tuple[Any, Any]:
    """Return squared distances and positions of the k rows nearest to each query.

    Ordered by distance; equal distances are ordered by position. A distance is the sum of squared
    differences in the precision of the data. The same input gives the same bits.

    Parameters
    ----------
    queries, rows : tensors of shape (n_queries, d) and (n_rows, d)
        On one device, both float32 or both float64, finite.
    k : int
        At most n_rows.

    Returns
    -------
    F : tensor of shape (n_queries, k), in the type of the queries
    columns : tensor of shape (n_queries, k), int64

    Examples
    --------
    >>> F, columns = nearest(torch.tensor([[0.0]]), torch.tensor([[3.0], [1.0], [9.0]]), k=2)
    >>> F, columns
    (tensor([[1., 9.]]), tensor([[1, 0]]))
    """
    _check(queries, rows, k)
    if len(queries) == 0:
        return queries.new_empty((0, k)), queries.new_empty((0, k), dtype=torch.int64)
    _check_range(queries, rows)
    queries, rows = queries.detach().contiguous(), rows.detach().contiguous()
    if k > MOST_NEIGHBORS or not has_kernels(queries.device):
        return plain.nearest(queries, rows, k)
    with torch.cuda.device(queries.device):
        if not _works(rows.shape[1], k, rows.dtype, rows.device):
            return plain.nearest(queries, rows, k)
        return by_kernels(queries, rows, k)


def _check(queries: Any, rows: Any, k: int) -> None:
    if queries.ndim != 2 or rows.ndim != 2 or not queries.shape[1] == rows.shape[1] > 0:
        raise InputError(
            "queries and rows must be matrices of the same width, "
            f"not {tuple(queries.shape)} and {tuple(rows.shape)}"
        )
    if not 1 <= k <= len(rows):
        raise InputError(f"{k} is not between 1 and {len(rows)}, the number of rows", "k")
    if queries.dtype != rows.dtype or queries.dtype not in (torch.float32, torch.float64):
        raise InputError(
            "queries and rows must both be float32 or both float64, "
            f"not {queries.dtype} and {rows.dtype}"
        )
    if queries.device != rows.device:
        raise InputError(f"queries are on {queries.device}, rows on {rows.device}; use one device")


def _check_range(queries: Any, rows: Any) -> None:
    """Raise `InputError` for NaN and for values whose squared distance could overflow."""
    limit = (torch.finfo(rows.dtype).max / (8 * rows.shape[1])) ** 0.5
    ends = [end for x in (queries, rows) for end in torch.aminmax(x.detach())]
    if not float(torch.stack(ends).abs().max()) <= limit:
        raise InputError(f"values of queries and rows must be finite and at most {limit:.1e}")


@cache
def _works(d: int, k: int, dtype: Any, device: Any) -> bool:
    """Compile the kernels and check that they are correct."""
    from .compiling import search_ready
    from .filter import is_sound

    search_ready(d, k, dtype, device)
    works = is_sound(d, dtype, device, split=False)
    if not works:
        warn("Triton compiled wrong kernels; searches use torch alone", stacklevel=3)
    return works


def by_kernels(queries: Any, rows: Any, k: int) -> tuple[Any, Any]:
    """Search with the kernels, for at most MOST_NEIGHBORS neighbours.

    The error of the filter grows with the largest norm of the rows. Rows far from the others are
    therefore centred and searched separately, and the results are merged.
    """
    from . import stages

    centre = rows.mean(dim=0)
    norm = stages.norms(rows, centre)
    some = norm[:: 1 + len(rows) // _SOME]  # the median of all rows would be slow
    is_far = norm > _FAR * some.median()
    if len(rows) <= _FEW or not bool(is_far.any()):
        return _filtered(queries, rows, k, centre, norm)
    results = []
    for kept in (~is_far, is_far):
        positions = kept.nonzero()[:, 0]
        F, columns = by_kernels(queries, rows[positions], min(k, len(positions)))
        results.append((F, positions[columns]))
    return _merged(results, k)


def _merged(results: list[tuple[Any, Any]], k: int) -> tuple[Any, Any]:
    """Return the k best of several results, by (distance, position)."""
    F, columns = (torch.cat(part, dim=1) for part in zip(*results, strict=True))
    columns, order = columns.sort(dim=1)
    F, order = F.gather(1, order).sort(dim=1, stable=True)
    return F[:, :k].contiguous(), columns.gather(1, order[:, :k])


def _filtered(queries: Any, rows: Any, k: int, centre: Any, norm: Any) -> tuple[Any, Any]:
    """Search all queries; repeat those with too many remaining rows with a finer filter."""
    from .filter import NO_LIMIT, Filter, is_sound
    from .stages import norms

    query_norm = norms(queries, centre)
    F = queries.new_empty((len(queries), k))
    columns = torch.empty((len(queries), k), dtype=torch.int64, device=queries.device)
    coarse = Filter(rows, centre, norm, split=False)
    longest = 2 * k + max(_MANY, len(rows) // _SHARE) // coarse.group
    count = coarse.search(queries, query_norm, longest, F, columns)
    again = (count > longest).nonzero()[:, 0]
    if len(again):
        can_split = is_sound(rows.shape[1], rows.dtype, rows.device, split=True)
        fine = Filter(rows, centre, norm, split=True) if can_split else coarse
        F_again, columns_again = F[again], columns[again]
        fine.search(queries[again], query_norm[again], NO_LIMIT, F_again, columns_again)
        F[again], columns[again] = F_again, columns_again
    return F, columns
