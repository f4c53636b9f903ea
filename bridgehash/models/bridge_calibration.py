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

import numpy as np
from scipy.special import expit

_FAR = 2.5  # deviations from the mean of the calibration, beyond which signals are cut


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
            value = signals.get(name, np.nan)
            if np.isfinite(value):
                logit += weight * float(np.clip((value - mean) / scale, -_FAR, _FAR))
        expected, low, high = expit([logit, logit + self.below, logit + self.above])
        return float(expected), float(low), float(high)


def kind_of(link: str, labels: str) -> str:
    """Return the kind of a bridge: by the labels that are known, otherwise by what connects it.

    >>> kind_of("columns", "none"), kind_of("columns", "source"), kind_of("pairs", "both")
    ('columns', 'source', 'pairs')
    """
    return link if labels == "none" or link in ("pairs", "none") else labels


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
    models = _models()
    kind = kind_of(link, labels)
    return models.get(kind, models["columns"])(signals)


@cache
def _models() -> dict[str, LogisticModel]:
    text = files(__package__).joinpath("bridge_calibration.json").read_text(encoding="utf-8")
    return {
        kind: LogisticModel(**{key: _tuple(value) for key, value in model.items()})
        for kind, model in json.loads(text)["models"].items()
    }


def _tuple(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value
