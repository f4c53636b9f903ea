"""How good a bridge is expected to be, from training rows alone: `bridge_report`.

Signals of the codes are turned into an expected precision by a calibration over many data sets;
see `benchmarks/estimate.py`. Labels of queries are not needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._core.arrays import is_foreign, take_rows, to_numpy
from .._core.validation import check_labels, check_pairs, class_ids
from ..codes import unpack
from ..streaming.blocks import Blocks
from .bridge_signals import Ids, Side, bridge_signals
from .columns import columns_correspond
from .encoder import LinearEncoder
from .training import TWO, check_rows

_SAMPLE = 400  # rows per domain


@dataclass(frozen=True)
class BridgeReport:
    """How good cross-domain search is expected to be."""

    domains: tuple[str, str]
    supervision: str  # labels known: "none", "source" or "both"
    expected: float
    low: float
    high: float
    signals: Mapping[str, float] = field(repr=False)


@dataclass(frozen=True)
class Known:
    """Class ids of the rows of a domain, and which of them were given; the rest is estimated."""

    y: Ids | None = None
    given: Ids | None = None


def sampled_signals(
    encoders: tuple[LinearEncoder, LinearEncoder],
    rows: tuple[Any, Any],
    known: tuple[Known, Known] = (Known(), Known()),
    pairs: Ids | None = None,
    same_space: bool | None = None,
) -> dict[str, float]:
    """Return the signals of a sample of the training rows of two domains."""
    samples, sides = [], []
    rng = np.random.default_rng(0)
    for encoder, X, labels in zip(encoders, rows, known, strict=True):
        n = X.shape[0]
        chosen = np.sort(rng.choice(n, min(n, _SAMPLE), replace=False))
        samples.append(chosen)
        Z = X.take(chosen) if isinstance(X, Blocks) else take_rows(X, chosen)
        B = unpack(to_numpy(encoder.encode(Z)), encoder.n_bits)
        y = None if labels.y is None else labels.y[chosen]
        given = None if labels.given is None else labels.given[chosen] >= 0
        sides.append(Side.of(to_numpy(Z), B, y, given, n))
    if same_space is None:
        same_space = rows[0].shape[1] == rows[1].shape[1] and columns_correspond(*rows)
    return bridge_signals(
        sides[0], sides[1], same_space=same_space, pairs=_within(pairs, samples)
    )


def _within(pairs: Ids | None, samples: list[Ids]) -> Ids | None:
    """Return the pairs whose rows are both in the samples, by their place in them."""
    if pairs is None:
        return None
    places = [np.searchsorted(rows, column) for rows, column in zip(samples, pairs.T, strict=True)]
    inside = np.ones(len(pairs), dtype=bool)
    for rows, place, column in zip(samples, places, pairs.T, strict=True):
        inside &= rows[np.minimum(place, len(rows) - 1)] == column
    return np.column_stack(places)[inside]
