"""Exact nearest rows by torch alone: without Triton, and for many neighbours.

A product in float64 orders the rows up to a known rounding error. All rows that may be among the
k nearest are compared directly.
"""

from __future__ import annotations

from typing import Any

import torch

from .device import scratch

_ROUNDING = 2.0**-53  # unit roundoff of float64


def nearest(queries: Any, rows: Any, k: int) -> tuple[Any, Any]:
    """Return squared distances and positions of the k rows nearest to each query."""
    centre = rows.double().mean(dim=0)
    R = rows.double() - centre
    half = R.square().sum(dim=1) / 2
    F = queries.new_empty((len(queries), k))
    columns = torch.empty((len(queries), k), dtype=torch.int64, device=queries.device)
    step = max(1, scratch(queries.device) // max(56 * len(rows), 24 * rows.shape[1]))
    for start in range(0, len(queries), step):
        part = slice(start, start + step)
        Q = queries[part].double() - centre
        V = torch.addmm(half, Q, R.T, alpha=-1)  # half the squared distance minus |q|²/2
        possible = _possible(V, Q, half, k, torch.finfo(queries.dtype).eps)
        D = _distances(queries[part], rows, possible)
        D, order = D.sort(dim=1, stable=True)  # stable: equal distances stay ordered by position
        F[part], columns[part] = D[:, :k], possible.gather(1, order[:, :k])
    return F, columns


def _possible(V: Any, Q: Any, half: Any, k: int, eps: float) -> Any:
    """Return ascending positions of rows that may be among the k nearest, equally many per query.

    The error bound is that of a sum of d products; `eps` is the rounding of direct distances.
    """
    n, d = V.shape[1], Q.shape[1]
    squares, reach = Q.square().sum(dim=1), 2 * half.max()
    kth = V.kthvalue(k, dim=1).values
    bound = (d + 4) * _ROUNDING * ((squares * reach).sqrt() + reach)
    far = (2 * (kth + bound) + squares).clamp_(min=0)
    cut = kth + 2 * bound + (d + 4) * eps * far
    n_open = min(n, int((cut[:, None] >= V).sum(dim=1).amax()))
    return V.topk(n_open, dim=1, largest=False, sorted=False).indices.sort(dim=1).values


def _distances(queries: Any, rows: Any, columns: Any) -> Any:
    """Return Σ (q - r)² between each query and the rows given by its columns."""
    D = queries.new_empty(columns.shape)
    row_bytes = len(queries) * rows.shape[1] * queries.element_size()
    step = max(1, scratch(queries.device) // (3 * row_bytes))
    for start in range(0, columns.shape[1], step):
        part = slice(start, start + step)
        x = rows[columns[:, part]] - queries[:, None]
        D[:, part] = _sum(x.square_())
    return D


def _sum(x: Any) -> Any:
    """Sum over the last axis by halves: the order of `torch.sum` depends on the other axes."""
    while x.shape[-1] > 1:
        half, rest = divmod(x.shape[-1], 2)
        halves = x[..., :half] + x[..., half : 2 * half]
        x = torch.cat([halves, x[..., -1:]], dim=-1) if rest else halves
    return x[..., 0]
