"""Filter the rows of a search in half precision, then compare the remaining ones exactly.

Rows are converted to fp16 once. Queries are processed in chunks, because the minima of all groups
of rows need four bytes per query and group.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

from . import stages
from .device import scratch

NO_LIMIT = (1 << 31) - 1
_STEP = 128  # chunks of queries are multiples of it
_MOST = 2.0**40  # largest scale of the queries, relative to that of the rows


class Filter:
    """Rows in half precision; `split` uses two halves per value and three times the products."""

    def __init__(self, rows: Any, centre: Any, norm: Any, *, split: bool) -> None:
        self._rows, self._centre, self._split = rows, centre, split
        scale = stages.scale_of(norm.max(), rows.dtype)
        self._halves = stages.halve(rows, centre, norm, scale, rows=True, split=split)
        self._half = stages.half_squares(self._halves, len(rows))
        self.group = self._halves.group

    def search(self, queries: Any, norm: Any, longest: int, F: Any, columns: Any) -> Any:
        """Fill F and columns; skip queries with more than `longest` groups; return the counts."""
        count = torch.empty(len(queries), dtype=torch.int32, device=queries.device)
        n_groups, step = len(self._half) // self.group, self._step(len(queries))
        values = torch.empty((step, n_groups), dtype=torch.float32, device=queries.device)
        for start in range(0, len(queries), step):
            part = slice(start, start + step)
            Q, listed = queries[part], values[: len(queries[part])]
            self._list(Q, norm[part], F.shape[1], listed, count[part])
            stages.recheck(
                Q, self._rows, listed, count[part], self.group, longest, F[part], columns[part]
            )  # fmt: skip
        return count

    def _list(self, Q: Any, norm: Any, k: int, values: Any, count: Any) -> None:
        """Overwrite `values` with the groups of rows that may contain one of the k nearest."""
        bound, square = self.values(Q, norm, values)
        stages.select(values, bound, square, stages.rounding(Q.shape[1], Q.dtype), k, count)

    def values(self, Q: Any, norm: Any, out: Any) -> tuple[Any, Any]:
        """Compute the smallest value of each group; return its error bound and the scaled |q|²."""
        rows = self._halves
        scale = torch.minimum(stages.scale_of(norm.max(), Q.dtype), rows.scale * _MOST)
        queries = stages.halve(Q, self._centre, norm, scale, rows=False, split=self._split)
        ratio = scale / rows.scale
        stages.minima(queries, rows, self._half * ratio.float(), out)
        bound = stages.bound(queries, rows, ratio, Q.shape[1], split=self._split)
        return bound, (queries.norm.square() / ratio).float()

    def _step(self, n: int) -> int:
        """Return the queries per chunk: as many as memory allows, in equal chunks."""
        wide = self._halves.values.shape[1]
        query_bytes = 5 * (len(self._half) // self.group) + 2 * wide + 64
        most = max(1, scratch(self._half.device) // query_bytes // _STEP)  # steps
        n_steps = max(1, -(-n // _STEP))
        chunks = -(-n_steps // most)
        return _STEP * -(-n_steps // chunks)


@cache
def is_sound(d: int, dtype: Any, device: Any, *, split: bool) -> bool:
    """Return whether the values of a small example are within their bound.

    This detects a compiler error: one version of Triton dropped the products of a similar kernel,
    which the results of a search do not show.
    """
    numbers = torch.arange(1, 640 * d + 1, dtype=torch.float64, device=device)
    Q, R = (numbers * 2.3).sin().to(dtype).view(640, d).split([128, 512])
    Q, R = Q.contiguous(), R.contiguous()
    centre = torch.zeros(d, dtype=dtype, device=device)
    rows = Filter(R, centre, stages.norms(R, centre), split=split)
    values = torch.empty((len(Q), len(R) // rows.group), dtype=torch.float32, device=device)
    bound, square = rows.values(Q, stages.norms(Q, centre), values)
    squares = Q.double().square().sum(dim=1)
    true = R.double().square().sum(dim=1) / 2 - Q.double() @ R.double().T
    true = true.view(len(Q), -1, rows.group).amin(dim=2) * (square / squares)[:, None]
    return bool(((values - true).abs() <= bound[:, None]).all())
