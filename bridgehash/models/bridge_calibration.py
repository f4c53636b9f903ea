"""The expected precision for the signals of a bridge.

`bridge_calibration.json` holds one logistic model per kind of bridge: what connects the domains, or
which labels are known. It was made from the data pack by `benchmarks/estimate.py calibrate`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
from scipy.special import expit

FAR = 4.0  # deviations from the mean of the calibration, beyond which signals are cut
EDGE = 0.02  # shares are cut to 0.02 to 0.98 before their logit is taken
SHARES = frozenset(  # signals that are shares of rows; their logit counts
    (
        "purity", "cycle_class", "agreeing", "raw_agreeing", "precision_given", "balance",
        "separable_source", "separable_target", "separable_votes", "separable_given_source",
        "separable_given_target",
    )
)  # fmt: skip


@dataclass(frozen=True)
class LogisticModel:
    """A linear model of the logit of a precision, with an interval around it."""

    signals: tuple[str, ...]
    mean: tuple[float, ...]  # of the signals; in place of missing ones
    scale: tuple[float, ...]
    weights: tuple[float, ...]
    intercept: float
    below: float  # ends of the interval, relative to the logit
    above: float

    def __call__(self, signals: Mapping[str, float]) -> tuple[float, float, float]:
        """Return the expected precision, and the interval."""
        logit = self.intercept
        for name, mean, scale, weight in zip(
            self.signals, self.mean, self.scale, self.weights, strict=True
        ):
            value = scaled(name, signals.get(name, np.nan))
            if np.isfinite(value):
                logit += weight * float(np.clip((value - mean) / scale, -FAR, FAR))
        expected, low, high = expit([logit, logit + self.below, logit + self.above])
        return float(expected), float(low), float(high)


def scaled(name: str, value: float) -> float:
    """Return the logit of a signal that is a share, other signals as they are."""
    if name not in SHARES:
        return value
    share = np.clip(value, EDGE, 1.0 - EDGE)
    return float(np.log(share / (1.0 - share)))


def kind_of(link: str, labels: str) -> str:
    """Return the kind of a bridge: by the labels that are known, otherwise by what connects it.

    >>> kind_of("columns", "none"), kind_of("columns", "source"), kind_of("pairs", "both")
    ('columns', 'source', 'pairs')
    >>> kind_of("none", "none"), kind_of("structure", "source")
    ('structure', 'matched')
    """
    if labels == "source" and link in ("structure", "none"):
        return "matched"
    if labels != "none" and link != "pairs":
        return labels
    return link if link in ("columns", "pairs") else "structure"


def calibrated(signals: Mapping[str, float], link: str, labels: str) -> tuple[float, float, float]:
    """Return the expected precision of the first ten items, and an interval.

    Parameters
    ----------
    signals : mapping
        Of `bridge_signals`.
    link : str
        What connects the domains, as in `BridgeReport`.
    labels : str
        Which labels are known.

    Returns
    -------
    expected, low, high : float
    """
    return _models()[kind_of(link, labels)](signals)


@cache
def _models() -> dict[str, LogisticModel]:
    text = files(__package__).joinpath("bridge_calibration.json").read_text(encoding="utf-8")
    found: dict[str, dict[str, Any]] = json.loads(text, object_hook=_with_tuples)["models"]
    return {kind: LogisticModel(**model) for kind, model in found.items()}


def _with_tuples(values: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(each) if isinstance(each, list) else each for key, each in values.items()}
