"""The filter of a search over given rows, and the comparison of those that it lets pass.

Rows are brought to fp16 once. Queries come in chunks, for the minima of all groups of rows take
memory: four bytes a query and group.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

from . import stages
from .device import scratch

NO_LIMIT = (1 << 31) - 1
_STEP = 128  # queries come in multiples of it
_MOST = 2.0**40  # times the scale of the rows: queries nearer to the centre are as good as there


class Filter:
    """Rows in half precision; `split` in two halves, which takes three times the products."""

    def __init__(self, rows: Any, centre: Any, norm: Any, *, split: bool) -> None:
        self._rows, self._centre, self._split = rows, centre, split
        scale = stages.scale_of(norm.max(), rows.dtype)
        self._halves = stages.halve(rows, centre, norm, scale, rows=True, split=split)
        self._half = stages.half_squares(self._halves, len(rows))
        self.group = self._halves.group

    def search(self, queries: Any, norm: Any, longest: int, F: Any, columns: Any) -> Any:
        """Fills F and columns, but for queries with more than `longest` groups; their numbers."""
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
        """Groups of rows that may be among the k nearest, in place of `values`."""
        bound, square = self.values(Q, norm, values)
        stages.select(values, bound, square, stages.rounding(Q.shape[1], Q.dtype), k, count)

    def values(self, Q: Any, norm: Any, out: Any) -> tuple[Any, Any]:
        """The smallest value of each group; how far it may be off, and |q|² in its units."""
        rows = self._halves
        scale = torch.minimum(stages.scale_of(norm.max(), Q.dtype), rows.scale * _MOST)
        queries = stages.halve(Q, self._centre, norm, scale, rows=False, split=self._split)
        ratio = scale / rows.scale
        stages.minima(queries, rows, self._half * ratio.float(), out)
        bound = stages.bound(queries, rows, ratio, Q.shape[1], split=self._split)
        return bound, (queries.norm.square() / ratio).float()

    def _step(self, n: int) -> int:
        """Queries at a time: as many as the memory allows, in equal chunks."""
        wide = self._halves.values.shape[1]
        query_bytes = 5 * (len(self._half) // self.group) + 2 * wide + 64
        most = max(1, scratch(self._half.device) // query_bytes // _STEP)  # steps
        n_steps = max(1, -(-n // _STEP))
        chunks = -(-n_steps // most)
        return _STEP * -(-n_steps // chunks)


@cache
def is_sound(d: int, dtype: Any, device: Any, *, split: bool) -> bool:
    """Are the values of a small example within their bound?

    They are, if the compiler is right. One was seen to leave out the products of a kernel
    much like ours, and the answers of a search would not show it.
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
