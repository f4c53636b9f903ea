"""How a fit keeps to a limit on memory: what is held, and in what pieces the rest is read.

The projections, codes and graphs of a fit are always held; they grow with the rows and the bits.
The rows themselves are held if there is room, and are read in blocks otherwise. What is counted is
what a fit takes on top of its inputs. docs/howto/scale.md has the measurements behind the figures.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from ..blocks import BLOCK_BYTES, CACHE_BYTES, Blocks

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_STATE = 7  # arrays of rows by bits at a time: H, B, W H, and what is made on the way
_EDGES = 100  # numbers of 8 bytes a row of the graphs of a domain and between them
_SEARCHED = 150  # the same while a k-NN graph is made
_SEARCH = 64 << 20  # what a search takes for itself
_LIBRARIES = 100 << 20  # that are loaded in a fit
_WORK = 6  # blocks at a time that work on one takes
_LEAST_BLOCK = 1 << 20


@dataclass(frozen=True)
class Plan:
    """Whether the rows are read in blocks, and how large these and a cache of them may be."""

    in_blocks: bool
    block_bytes: int = BLOCK_BYTES
    cache_bytes: int = CACHE_BYTES


def memory_plan(limit: int | str, domains: tuple[Blocks, Blocks], n_bits: int) -> Plan:
    """The plan that keeps below a limit; an error where none does."""
    limit_bytes = n_bytes_of(limit)
    n, width = sum(len(X) for X in domains), max(X.shape[1] for X in domains)
    item = max(X.dtype.itemsize for X in domains)
    rows = max(len(X) * X.shape[1] * item for X in domains)  # held while a graph is searched
    searching = n * _SEARCHED * 8 + rows
    solving = n * n_bits * item * _STATE + n * _EDGES * 8
    always = max(searching, solving) + 4 * width**2 * 8 + _SEARCH + _LIBRARIES
    room = limit_bytes - always
    if room > 2 * sum(len(X) * X.shape[1] * item for X in domains):
        return Plan(in_blocks=False)
    block = min(BLOCK_BYTES, room // (2 * _WORK))
    if block < _LEAST_BLOCK:
        least = always + 2 * _WORK * _LEAST_BLOCK
        raise ValueError(
            f"memory_limit={limit!r} is too small for {n:,} rows and {n_bits} bits: "
            f"about {least / 2**30:.1f} GiB are needed on top of the inputs"
        )
    return Plan(True, block, room - _WORK * block)


def n_bytes_of(limit: Any) -> int:
    """A number of bytes, also as text: 3GiB, 500MB, 1.5g (powers of 1024 whatever the spelling).

    >>> n_bytes_of("1.5GiB")
    1610612736
    """
    if isinstance(limit, str):
        found = re.fullmatch(r"\s*([\d.]+)\s*([KMGT]?)I?B?\s*", limit.upper())
        if found is None or found[1].count(".") > 1 or found[1] == ".":
            raise ValueError(f"memory_limit={limit!r} is not a size: give bytes, or 4GiB, 500MiB")
        return int(float(found[1]) * _UNITS[found[2]])
    return int(limit)
