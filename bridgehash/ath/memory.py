"""How much memory a fit needs, and when rows are read in blocks.

Projections, codes and graphs are always held; they grow with rows and bits. The rows are held if
there is room, and read in blocks otherwise. Counted is what a fit uses beyond its inputs;
docs/benchmarks/scale.md has the measurements behind the constants.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._core.errors import InputError
from .._core.validation import Size
from ..neighbors.graphs import neighbors_for
from ..streaming.blocks import BLOCK_BYTES, Blocks
from .presets import part
from .starts import LabelStart, PCAStart

_STATE = 7  # arrays of rows x bits at one time: H, B, W H and temporaries
_EDGES = 5  # 8-byte numbers per row and neighbour in the graphs
_SEARCHED = 7.5  # the same while a k-NN graph is built
_SEARCH = 64 << 20  # bytes used by a search itself
_LIBRARIES = 100 << 20  # bytes of libraries loaded during a fit
_WORK = 6  # blocks held at one time while one is processed
_LEAST_BLOCK = 1 << 20


def plan_memory(limit: int | str, domains: Sequence[Blocks], n_bits: int) -> tuple[int, int] | None:
    """Return the bytes of a block and of the cache that stay below the limit; None: all rows fit.

    Raises `InputError` if the limit is too small for any block.
    """
    n, width = sum(len(X) for X in domains), max(X.shape[1] for X in domains)
    item = max(X.dtype.itemsize for X in domains)
    rows = max(len(X) * X.shape[1] * item for X in domains)  # held while a graph is searched
    neighbours = n * neighbors_for(max(len(X) for X in domains))
    searching = int(neighbours * _SEARCHED) * 8 + rows
    solving = n * n_bits * item * _STATE + neighbours * _EDGES * 8
    always = max(searching, solving) + 4 * width**2 * 8 + _SEARCH + _LIBRARIES
    room = Size.n_bytes(limit) - always
    if room > 2 * sum(len(X) * X.shape[1] * item for X in domains):
        return None
    block = min(BLOCK_BYTES, room // (len(domains) * _WORK))
    if block < _LEAST_BLOCK:
        least = always + len(domains) * _WORK * _LEAST_BLOCK
        raise InputError(
            f"{limit!r} is too small for {n:,} rows and {n_bits} bits; about "
            f"{least / 2**30:.1f} GiB are needed beyond the inputs",
            "memory_limit",
        )
    return block, room - _WORK * block


def check_in_blocks(ath: Any, device: str | None = None) -> None:
    """Refuse settings that need all rows in memory."""
    given = {
        name: getattr(ath, name)
        for name in ("feature_map", "completion")
        if getattr(ath, name) is not None
    }
    if device is not None:
        given["device"] = device
    if ath.center == "pairs":
        given["center"] = ath.center
    if not isinstance(part(ath, "start"), PCAStart | LabelStart):
        given["start"] = ath.start
    if given:
        shown = ", ".join(f"{name}={value!r}" for name, value in given.items())
        raise InputError(
            f"rows cannot be read in blocks with {shown}; increase memory_limit or drop it, or "
            "leave these parameters at their defaults"
        )
