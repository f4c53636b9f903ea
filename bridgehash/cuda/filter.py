"""The filter of a search over given rows, and the comparison of those that it lets pass.

Rows are brought to fp16 once. Queries come in chunks, for the minima of all groups of rows take
memory: four bytes a query and group.
"""

from __future__ import annotations

from typing import Any

import torch

from . import stages
from .device import scratch

NO_LIMIT = (1 << 31) - 1
_STEP = 128  # queries come in multiples of it
_FARTHEST = 2.0**-40  # times the norm of a query: rows nearer to the centre are as good as there


class Filter:
    """Rows in half precision; `split` in two halves, which takes three times the products."""

    def __init__(self, rows: Any, centre: Any, norm: Any, query_norm: Any, *, split: bool) -> None:
        self._rows, self._centre, self._split = rows, centre, split
        largest = torch.maximum(norm.max(), query_norm.max() * _FARTHEST)
        self._scale = stages.scale_of(largest, rows.dtype)
        scale = self._scale.repeat(len(rows))
        self._halves = stages.halve(rows, centre, norm, scale, rows=True, split=split)
        self._half = stages.half_squares(self._halves, len(rows))

    def search(self, queries: Any, norm: Any, longest: int, F: Any, columns: Any) -> Any:
        """Fills F and columns, but for queries with more than `longest` groups; their numbers."""
        count = torch.empty(len(queries), dtype=torch.int32, device=queries.device)
        n_groups, step = len(self._half) // self._halves.group, self._step(len(queries))
        values = torch.empty((step, n_groups), dtype=torch.float32, device=queries.device)
        for start in range(0, len(queries), step):
            part = slice(start, start + step)
            Q, listed = queries[part], values[: len(queries[part])]
            self._list(Q, norm[part], F.shape[1], listed, count[part])
            stages.recheck(
                Q, self._rows, listed, count[part], self._halves.group, longest,
                F[part], columns[part],
            )  # fmt: skip
        return count

    def _list(self, Q: Any, norm: Any, k: int, values: Any, count: Any) -> None:
        """Groups of rows that may be among the k nearest, in place of `values`."""
        rows, d = self._halves, Q.shape[1]
        scale = stages.scale_of(norm, Q.dtype)
        halves = stages.halve(Q, self._centre, norm, scale, rows=False, split=self._split)
        back = (self._scale.double() / scale).float()  # to the scale of the rows
        bound = stages.bound(halves, rows, back, d, split=self._split)
        square = (halves.norm * back).square().float()
        stages.minima(halves, rows, self._half, back, values)
        stages.select(values, bound, square, stages.rounding(d, Q.dtype), k, count)

    def _step(self, n: int) -> int:
        """Queries at a time: as many as the memory allows, in equal chunks."""
        wide = self._halves.values.shape[1]
        query_bytes = 5 * (len(self._half) // self._halves.group) + 2 * wide + 64
        most = max(1, scratch(self._half.device) // query_bytes // _STEP)  # steps
        n_steps = max(1, -(-n // _STEP))
        chunks = -(-n_steps // most)
        return _STEP * -(-n_steps // chunks)
