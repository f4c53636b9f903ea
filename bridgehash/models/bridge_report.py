"""How good a bridge is expected to be, from training rows alone: `bridge_report`.

Signals of the codes (`bridge_signals`) are turned into an expected precision by a calibration over
many data sets (`bridge_calibration`). Labels of queries are not needed.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from .._core.arrays import take_rows, to_numpy
from .._core.errors import BridgeWarning
from ..codes import unpack
from ..streaming.blocks import Blocks
from .bridge_calibration import calibrated
from .bridge_signals import Ids, Side, bridge_signals
from .columns import columns_correspond
from .encoder import LinearEncoder
from .training import Domains, Inputs, check_rows

_SAMPLE = 400  # rows per domain
GREEN, RED = 0.6, 0.25  # expected precision
RED_MATCH = 0.55  # of domains matched by structure: a match is right or wrong, seldom between
LEAST_GAIN = 0.1  # above chance, of what is possible
_LEAST_ROWS = 50  # of a domain, to warn
_FEW_ROWS = 500

Link = Literal["labels", "pairs", "frozen", "columns", "structure", "none"]
Verdict = Literal["green", "yellow", "red"]
_LINKS: dict[str, str] = {
    "labels": "labels of both domains",
    "pairs": "pairs",
    "frozen": "an earlier model",
    "columns": "common columns",
    "structure": "structure alone",
    "none": "nothing that connects the domains",
}
_ADVICE: dict[str, str] = {
    "labels": "more labels",
    "pairs": "more pairs",
    "frozen": "labels or pairs of some rows",
    "columns": "labels of some rows of both domains",
    "structure": "labels or pairs of some rows",
    "none": "labels or pairs of some rows, or ATH.structural",
}


@dataclass(frozen=True)
class BridgeReport:
    """How good search across two domains is expected to be, judged by training rows.

    `expected` is the expected share of the first ten source items of a target query that have its
    class, between 0 and 1. The true share is between `low` and `high` for nine of ten data sets.

    Examples
    --------
    >>> report = BridgeReport(("source", "target"), "columns", "none", 0.52, 0.4, 0.65, 900, {})
    >>> print(report)
    expect 40-65 % of the first ten items right; learned from common columns; labels of some rows \
of both domains would help most
    >>> report.verdict
    'yellow'
    """

    domains: tuple[str, str]
    link: Link  # what connects the domains
    labels: str  # known to the report: "none", "source", "few" or "both"
    expected: float
    low: float
    high: float
    n_rows: int  # of the smaller domain
    signals: Mapping[str, float] = field(repr=False)

    @property
    def verdict(self) -> Verdict:
        """Return "green" (good), "yellow" (partly) or "red" (no better than chance)."""
        if self.expected < self.least:
            return "red"
        return "green" if self.expected >= GREEN else "yellow"

    @property
    def least(self) -> float:
        """Return the expected precision below which the verdict is red."""
        return least_precision(self.link, self.signals)

    @property
    def advice(self) -> str:
        """Return what would help most."""
        if self.link == "labels":
            if self.labels == "both":
                few = self.n_rows < _FEW_ROWS
                return "more rows" if few else "better features"
            return _ADVICE["labels"]
        if self.link == "columns" and self.labels == "source":
            return "labels of some target rows"
        return _ADVICE[self.link]

    @property
    def used(self) -> str:
        """Return what connects the domains, in words."""
        if self.link == "columns" and self.labels == "source":
            return "common columns and labels of the source"
        if self.link == "labels" and self.labels == "few":
            return "a few labels of both domains"
        return _LINKS[self.link]

    def __str__(self) -> str:
        low, high = (round(100 * value) for value in (self.low, self.high))
        text = f"expect {low}-{high} % of the first ten items right; learned from {self.used}"
        return text if self.verdict == "green" else f"{text}; {self.advice} would help most"


def least_precision(link: str, signals: Mapping[str, float]) -> float:
    """Return the expected precision below which search hardly works.

    With labels of the source, chance is known: the share of pairs of equal class.
    """
    if link in ("structure", "none"):
        return RED_MATCH
    chance = signals.get("chance", np.nan)
    return RED if np.isnan(chance) else chance + LEAST_GAIN * (1.0 - chance)


def bridge_report(
    model: Any,
    X_source: Any,
    X_target: Any = None,
    *,
    y_source: ArrayLike | None = None,
    y_target: ArrayLike | None = None,
    y: Mapping[str, ArrayLike] | None = None,
    pairs: Any = None,
) -> BridgeReport:
    """Estimate how good cross-domain search with a fitted model is, without labels of queries.

    `fit` does this with its training data: see `bridge_report_`. Labels and pairs that are given
    make the estimate better, even if the model did not learn from them.

    Parameters
    ----------
    model : BaseTransferHasher
        Fitted, of any method.
    X_source : array of shape (n_source, d_source), or a mapping from two names to such arrays
        Rows of both domains; a sample of at most 400 rows per domain is used.
    X_target : array of shape (n_target, d_target)
    y_source, y_target : array of class ids or names, optional
        -1 marks an unknown class.
    y : mapping from names of domains to labels, optional
        In place of y_source and y_target, if the domains have names.
    pairs : array of shape (p, 2), optional
        Row numbers of the source and of the target that show the same thing.

    Returns
    -------
    BridgeReport

    Examples
    --------
    >>> from bridgehash import ATH
    >>> rng = np.random.default_rng(0)
    >>> X, Z = rng.normal(size=(90, 8)), rng.normal(size=(80, 8))
    >>> model = ATH.unsupervised(16, random_state=0).fit(X, Z)
    >>> bridge_report(model, X, Z).link
    'columns'
    """
    check_is_fitted(model, "encoders_")
    inputs = Inputs.of(X_source, X_target, y_source, y_target, y, pairs)
    data = inputs.checked(check_rows(inputs.X, inputs.arguments("X")))
    return report_of(model, data, 0, 1)


def report_of(
    model: Any,
    data: Domains,
    i: int = 0,
    j: int = 1,
    *,
    completed: Sequence[Ids | None] | None = None,
    frozen: bool = False,
) -> BridgeReport:
    """Return the report of two of the domains of a fitted model.

    Parameters
    ----------
    model : BaseTransferHasher
    data : Domains
        Validated training data, with the labels as given.
    i, j : int
        Which of its domains.
    completed : labels of all domains, optional
        With those that the fit has estimated.
    frozen : bool
        Whether the codes match those of an earlier model.
    """
    two = (i, j)
    encoders = [model.encoder(data.names[k]) for k in two]
    rows = [data.X[k] for k in two]
    given = [data.y[k] for k in two]
    known = given if completed is None else [completed[k] for k in two]
    pairs = data.two(i, j).pairs
    sides, samples = [], []
    rng = np.random.default_rng(0)
    for encoder, X, y, sure in zip(encoders, rows, known, given, strict=True):
        n = X.shape[0]
        chosen = np.sort(rng.choice(n, min(n, _SAMPLE), replace=False))
        samples.append(chosen)
        sides.append(_side(encoder, X, chosen, y, sure))
    link, labels = _link(model, data, i, j, frozen=frozen), _labels(given)
    signals = bridge_signals(*sides, same_space=link == "columns", pairs=_within(pairs, samples))
    signals["agreement"] = float(getattr(model, "agreement_", None) or 0.0)
    expected, low, high = calibrated(signals, link, labels)
    names = (data.names[i], data.names[j])
    fewest = min(X.shape[0] for X in rows)
    return BridgeReport(names, link, labels, expected, low, high, fewest, signals)


def same_columns(model: Any, data: Domains, i: int, j: int) -> bool:
    """Whether the columns of two domains mean the same: as set, as the fit found, or by rows."""
    setting = getattr(model, "feature_space", "auto")
    if setting != "auto":
        return bool(setting == "same")
    if data.spaces or data.X[i].shape[1] != data.X[j].shape[1]:
        return data.alike(i, j)
    return columns_correspond(data.X[i], data.X[j])


def warn_of_bridge(report: BridgeReport | None, *, checked: bool = False) -> None:
    """Warn with `BridgeWarning` if search is expected to be no better than chance.

    With `checked`, domains that nothing connects were warned of before.
    """
    if report is None or report.verdict != "red" or report.n_rows < _LEAST_ROWS:
        return
    if checked and report.link == "none":
        return
    warnings.warn(
        f"cross-domain search will hardly work with this model: {report}",
        BridgeWarning,
        stacklevel=3,
    )


def _side(encoder: LinearEncoder, X: Any, chosen: Ids, y: Ids | None, sure: Ids | None) -> Side:
    Z = X.take(chosen) if isinstance(X, Blocks) else take_rows(X, chosen)
    B = unpack(to_numpy(encoder.encode(Z)), encoder.n_bits)
    given = None if sure is None else sure[chosen] >= 0
    if y is not None and given is None:
        given = np.zeros(len(chosen), dtype=bool)
    return Side.of(to_numpy(Z), B, None if y is None else y[chosen], given, X.shape[0])


def _link(model: Any, data: Domains, i: int, j: int, *, frozen: bool) -> Link:
    """Return what connects two domains: the most certain of what is known."""
    used = model.used_inputs() if hasattr(model, "about") else set()
    pairs = data.two(i, j).pairs
    if pairs is not None and len(pairs) and "pairs" in used:
        return "pairs"
    labelled = [y is not None and bool((y >= 0).any()) for y in (data.y[i], data.y[j])]
    if all(labelled) and {"y_source", "y_target"} <= set(used):
        return "labels"
    if frozen:
        return "frozen"
    if getattr(model, "agreement_", None) is not None:  # it has searched for a match
        return "structure"
    if same_columns(model, data, i, j):
        return "columns"
    matched = getattr(model, "completion", None) is not None and any(labelled)
    return "structure" if matched else "none"


def _labels(given: Sequence[Ids | None]) -> str:
    """Return which labels are known: "none", "source", "few" or "both"."""
    shares = [0.0 if y is None else float((y >= 0).mean()) for y in given]
    if not any(shares):
        return "none"
    if min(shares) > 0:
        return "both" if min(shares) >= 0.5 else "few"
    return "source" if shares[0] >= 0.5 else "few"


def _within(pairs: Ids | None, samples: Sequence[Ids]) -> Ids | None:
    """Return the pairs whose rows are both in the samples, by their place in them."""
    if pairs is None:
        return None
    inside = np.ones(len(pairs), dtype=bool)
    places = []
    for rows, column in zip(samples, pairs.T, strict=True):
        place = np.minimum(np.searchsorted(rows, column), len(rows) - 1)
        inside &= rows[place] == column
        places.append(place)
    return np.column_stack(places)[inside]
