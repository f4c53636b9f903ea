"""Exact nearest rows on a GPU: a fast filter with a known error, then the few that are left.

Half-precision products leave for each query the minima of small groups of rows. The groups that
may hold one of the k nearest, given the error, are compared directly: Σ (q - r)² in the precision
of the data. So the answer does not depend on the filter, and a poor filter costs time alone.
"""

from __future__ import annotations

from functools import cache
from typing import Any
from warnings import warn

import torch

from . import plain
from .device import has_kernels

MOST_NEIGHBORS = 128  # of the kernels; more are found by torch alone
_FAR = 4  # times the median norm: rows farther out are searched apart
_SOME = 4096  # rows whose median it is
_FEW = 512  # rows that are never searched apart
_MANY, _SHARE = 4096, 50  # rows, or one in so many: to compare more costs as much as a finer filter


def nearest(queries: Any, rows: Any, k: int) -> tuple[Any, Any]:
    """Squared distances and positions of the k rows nearest to each query.

    Ordered by distance, equal distances by position. A distance is the sum of the squared
    differences in the precision of the data, and the same input gives the same bits.

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
        raise ValueError(
            f"queries and rows must be matrices of one width, at least one, "
            f"not {tuple(queries.shape)} and {tuple(rows.shape)}"
        )
    if not 1 <= k <= len(rows):
        raise ValueError(f"k={k} must be between 1 and the {len(rows)} rows")
    if queries.dtype != rows.dtype or queries.dtype not in (torch.float32, torch.float64):
        raise TypeError(
            f"queries and rows must both be float32 or both float64, "
            f"not {queries.dtype} and {rows.dtype}"
        )
    if queries.device != rows.device:
        raise ValueError(f"queries are on {queries.device}, rows on {rows.device}")


def _check_range(queries: Any, rows: Any) -> None:
    """No number may be so large that a squared distance overflows, or be none at all."""
    limit = (torch.finfo(rows.dtype).max / (8 * rows.shape[1])) ** 0.5
    ends = [end for x in (queries, rows) for end in torch.aminmax(x.detach())]
    if not float(torch.stack(ends).abs().max()) <= limit:
        raise ValueError(f"queries and rows must be finite and at most {limit:.1e} in size")


@cache
def _works(d: int, k: int, dtype: Any, device: Any) -> bool:
    """Compile the kernels, and see whether they do what they should."""
    from .compiling import search_ready
    from .filter import is_sound

    search_ready(d, k, dtype, device)
    works = is_sound(d, dtype, device, split=False)
    if not works:
        warn("Triton's compiler makes wrong kernels here: searches use torch alone", stacklevel=3)
    return works


def by_kernels(queries: Any, rows: Any, k: int) -> tuple[Any, Any]:
    """`nearest` for at most MOST_NEIGHBORS neighbours.

    The error of the filter goes with the largest norm among the rows. Those that are far from the
    rest are therefore searched apart, centred by themselves, and the answers merged.
    """
    from . import stages

    centre = rows.mean(dim=0)
    norm = stages.norms(rows, centre)
    some = norm[:: 1 + len(rows) // _SOME]  # a median of all would take longer than the rest
    is_far = norm > _FAR * some.median()
    if len(rows) <= _FEW or not bool(is_far.any()):
        return _filtered(queries, rows, k, centre, norm)
    answers = []
    for kept in (~is_far, is_far):
        positions = kept.nonzero()[:, 0]
        F, columns = by_kernels(queries, rows[positions], min(k, len(positions)))
        answers.append((F, positions[columns]))
    return _merged(answers, k)


def _merged(answers: list[tuple[Any, Any]], k: int) -> tuple[Any, Any]:
    """The k best of several answers, by (distance, position)."""
    F, columns = (torch.cat(part, dim=1) for part in zip(*answers, strict=True))
    columns, order = columns.sort(dim=1)
    F, order = F.gather(1, order).sort(dim=1, stable=True)
    return F[:, :k].contiguous(), columns.gather(1, order[:, :k])


def _filtered(queries: Any, rows: Any, k: int, centre: Any, norm: Any) -> tuple[Any, Any]:
    """All queries; those for which the filter leaves too many rows once more, by a finer one."""
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
