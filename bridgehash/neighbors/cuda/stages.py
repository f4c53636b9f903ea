"""The steps of a search, one kernel launch each, and the error bound of the filter.

For a centred query s and a centred row t, the filter computes v = |t|²/2 - s·t, which is half the
squared distance minus |s|²/2, by fp16 products on the tensor cores. Each v is within `bound` of the
exact value. If k rows have values up to x, rows with values above x + 2 bound can be skipped.
A step without queries compiles its kernel and launches nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from . import kernels

STRIP = 64  # columns that a kernel multiplies at a time; widths are padded to a multiple
PAD = 512  # rows are padded to a multiple: whole tiles, and groups in multiples of 32
_LANES = 512  # of the selection
_BITS = 14  # a scaled norm is below 2**14, which fits into fp16
_SUM = 0.75  # roundings per term of a tensor-core sum: at most 0.69 on Ampere, 0.33 on Hopper


class Tile(NamedTuple):
    """Shape of the products that one program computes at a time."""

    queries: int
    rows: int
    warps: int
    stages: int


_NARROW = Tile(128, 128, 4, 3)
_WIDE = Tile(128, 256, 8, 3)
_WIDE_SMALL = Tile(128, 128, 8, 2)  # for devices with less shared memory
_WIDE_SHARED = 160 << 10


@dataclass(frozen=True)
class Halves:
    """Centred vectors times a power of two, in fp16, and the norms used by the error bound."""

    values: Any  # (n, width); three parts side by side with `split`
    scale: Any  # a power of two, in the type of the data
    norm: Any  # (n,) norms of the scaled vectors, in float64
    rest: Any  # (n,) norms of the remainder after the first half, in float32
    rest_split: Any  # (n,) norms of the remainder after both halves
    group: int  # rows per group


def group_of(width: int) -> int:
    """Return the rows per group: fewer for wide rows, which cost more to compare exactly."""
    return 16 if width <= 256 else 4


def norms(X: Any, centre: Any) -> Any:
    """Return the norms of the centred rows, in float64."""
    out = torch.empty(len(X), dtype=torch.float64, device=X.device)
    step = max(1, (1 << 26) // max(1, X.shape[1]))
    for start in range(0, len(X), step):
        part = X[start : start + step] - centre
        out[start : start + step] = torch.linalg.vector_norm(part, dim=1, dtype=torch.float64)
    return out


def scale_of(norm: Any, dtype: Any) -> Any:
    """Return the power of two that scales a norm to below 2**14."""
    smallest = -80 if dtype == torch.float32 else -900
    exponent = _BITS - torch.frexp(norm).exponent.clamp(min=smallest)
    return torch.ldexp(torch.ones_like(norm), exponent).to(dtype)


def halve(X: Any, centre: Any, norm: Any, scale: Any, *, rows: bool, split: bool) -> Halves:
    """Convert X to fp16; rows are reordered for the products and padded with zeros."""
    n, d = X.shape
    width = STRIP * -(-d // STRIP)
    n_out = PAD * -(-n // PAD) if rows else n
    whole = 3 * width if split else width
    values = torch.empty((n_out, whole), dtype=torch.float16, device=X.device)
    rest, rest_split = torch.empty((2, n_out), dtype=torch.float32, device=X.device)
    group = group_of(whole)
    order = group if rows else 2  # groups of two: unchanged order
    kernels.halves[(n_out,)](
        X, centre, scale, values, rest, rest_split, n, d, width, order,
        SPLIT=split, IS_ROWS=rows and split, BLOCK=STRIP, num_warps=1,
    )  # fmt: skip
    return Halves(values, scale, norm * scale, rest, rest_split, group)


def half_squares(rows: Halves, n: int) -> Any:
    """Return |t|²/2 in the order of the products, infinite for padding."""
    half = torch.full((len(rows.values),), torch.inf, device=rows.values.device)
    half[:n] = rows.norm.square() / 2
    G = rows.group
    return half.view(-1, 4, G // 2, 2).transpose(1, 2).reshape(-1)


def bound(queries: Halves, rows: Halves, ratio: Any, d: int, *, split: bool) -> Any:
    """Return the error bound of the values of each query; `ratio` is that of the two scales.

    It adds the rounding to halves (by Cauchy-Schwarz), the float32 sum on the tensor cores, and
    the rounding of the centred vectors, of |t|²/2 and of the difference.
    """
    far = rows.norm.max()
    if split:
        wrong = queries.rest * rows.rest.max() + queries.rest_split * far
        wrong += queries.norm * rows.rest_split.max()
    else:
        wrong = queries.rest * far + queries.norm * rows.rest.max()
    wrong = 1.01 * wrong + (_SUM * d + 8) * 2.0**-23 * queries.norm * far
    return (wrong + 2.0**-22 * far * far * ratio).float()


def minima(queries: Halves, rows: Halves, half: Any, out: Any) -> None:
    """Compute the smallest value of each group of rows, for each query."""
    A, B = queries.values, rows.values
    (n, width), n_groups = A.shape, len(B) // rows.group
    if width == STRIP:
        tile = _NARROW
        n_tiles, bands = len(B) // tile.rows, -(-n // tile.queries)
        per_program = -(-n_tiles // max(1, min(n_tiles, 512 // max(1, bands))))
        kernels.minima_narrow[(bands, -(-n_tiles // max(1, per_program)))](
            A, B, half, out, n, n_tiles, per_program, n_groups,
            K=STRIP, BM=tile.queries, BN=tile.rows, G=rows.group,
            num_warps=tile.warps, num_stages=tile.stages,
        )  # fmt: skip
    else:
        tile = _wide_tile(A.device)
        n_tiles = len(B) // tile.rows
        kernels.minima_wide[(-(-n // tile.queries) * n_tiles,)](
            A, B, half, out, n, n_tiles, n_groups,
            K=width, BM=tile.queries, BN=tile.rows, BK=STRIP, G=rows.group, BAND=16,
            num_warps=tile.warps, num_stages=tile.stages,
        )  # fmt: skip


def _wide_tile(device: Any) -> Tile:
    if device.type != "cuda":
        return _WIDE
    properties = torch.cuda.get_device_properties(device)
    shared = getattr(properties, "shared_memory_per_block_optin", _WIDE_SHARED)
    return _WIDE if shared >= _WIDE_SHARED else _WIDE_SMALL


def select(values: Any, bound: Any, square: Any, delta: float, k: int, count: Any) -> None:
    """Count the groups that may contain a neighbour; their list overwrites the values."""
    n, n_groups = values.shape
    n_parts = -(-n_groups // _LANES)
    low = torch.empty((n, n_parts), dtype=torch.float32, device=values.device)
    kernels.select[(n,)](
        values, values.view(torch.int32), low, bound, square, count, delta, k, n_parts, n_groups,
        W=_LANES, num_warps=2,
    )  # fmt: skip


def rounding(d: int, dtype: Any) -> float:
    """Return a bound of the relative rounding error of the distances of `recheck`."""
    _, strip = _recheck_shape(d)
    return (d / strip + strip + 6) * torch.finfo(dtype).eps / 2


def recheck(
    Q: Any, R: Any, values: Any, count: Any, group: int, longest: int, F: Any, columns: Any
) -> None:
    """Compute exact distances and positions of the nearest rows in the listed groups.

    Queries with more than `longest` groups are skipped. Fused multiply-add is off: with it threads
    may round a distance differently and wait for each other.
    """
    (n, d), k = Q.shape, F.shape[1]
    at_a_time, strip = _recheck_shape(d)
    kernels.recheck[(n,)](
        Q, R, values.view(torch.int32), count, F, columns,
        len(R), values.shape[1], d, k, group.bit_length() - 1, longest,
        P=at_a_time, BD=strip, KP=next(room for room in (16, 64, 128) if k <= room),
        num_warps=1, enable_fp_fusion=False,
    )  # fmt: skip


def _recheck_shape(d: int) -> tuple[int, int]:
    """Return rows and columns compared at a time, chosen by measurement."""
    return (64, 16) if d <= STRIP else (32, 32)
