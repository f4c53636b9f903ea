"""The calibration of `estimate.py`: models of the precision by signals, and how good they are."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit, logit
from scipy.stats import spearmanr
from sklearn.linear_model import Ridge

from bridgehash.models.bridge_calibration import EDGE, FAR, LogisticModel, kind_of, scaled

Record = dict[str, Any]
SIGNALS: dict[str, tuple[str, ...]] = {  # by kind; chosen on splits 100 and up
    "columns": ("clusters", "reach_target", "tight_source"),
    "structure": ("agreement", "cycle", "structure", "halves"),
    "pairs": ("cycle", "structure", "clusters"),
    "source": ("separable_votes", "raw_agreeing", "purity"),
    "matched": ("agreement", "structure", "cycle_class", "halves"),
    "few": (
        "separable_given_source",
        "separable_given_target",
        "cycle_class",
        "clusters",
        "halves",
    ),
    "both": ("separable_target", "separable_votes", "precision_given", "n_target"),
}
RIDGE = 10.0
COVERED = 0.9
LEAST_GAIN = 0.3  # of what search inside the target has above chance, for a bridge that works


def load(path: Path) -> list[Record]:
    """Return the records, with the kind of bridge and the task without its size."""
    records = []
    for line in path.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        record["signals"] = {
            name: np.nan if value is None else value for name, value in record["signals"].items()
        }
        record["signals"]["agreement"] = record["agreement"] or 0.0
        for name in ("cycle", "structure"):
            pair = (record["signals"][f"{name}_{side}"] for side in ("source", "target"))
            record["signals"][name] = min(pair)
        if "link" not in record:
            record["link"], record["seen"] = link_and_labels(record)
        record["kind"] = kind_of(record["link"], record["seen"])
        record["base"] = record["task"].partition("@")[0]
        records.append(record)
    return records


def link_and_labels(record: Record) -> tuple[str, str]:
    """Return what connects the domains of a record, and which labels are known."""
    labels, same = record["labels"], np.isfinite(record["signals"]["raw"])
    if labels.isdigit():
        return "pairs", "none"
    seen = "source" if record["known"] == "source" else labels
    seen = {"one": "few", "three": "few"}.get(seen, seen)
    if labels in ("both", "one", "three"):
        return "labels", seen
    if record["method"] == "ath-structural":
        return "structure", seen
    if same:
        return "columns", seen
    return ("structure" if record["method"] == "ath-propagated" else "none"), seen


def fitted(records: Sequence[Record], names: Sequence[str]) -> LogisticModel:
    """Return the model of some records, without an interval; each task has the same weight."""
    X = np.array(
        [
            [scaled(name, record["signals"].get(name, np.nan)) for name in names]
            for record in records
        ]
    )
    X = X.reshape(len(records), len(names)).astype(float)
    y = logit(np.clip([record["truth"] for record in records], EDGE, 1 - EDGE))
    base = [record["base"] for record in records]
    weights = np.array([1.0 / base.count(task) for task in base])
    weights *= len(records) / weights.sum()
    mean, scale = np.zeros(len(names)), np.ones(len(names))
    if names:
        mean, scale = np.nanmean(X, axis=0), np.nanstd(X, axis=0) + 1e-3
    Z = np.nan_to_num(np.clip((X - mean) / scale, -FAR, FAR))
    if names:
        model = Ridge(RIDGE).fit(Z, y, sample_weight=weights)
        coefficients, intercept = model.coef_, float(model.intercept_)
    else:
        coefficients, intercept = np.zeros(0), float(np.average(y, weights=weights))
    numbers = [tuple(np.round(values, 5).tolist()) for values in (mean, scale, coefficients)]
    return LogisticModel(tuple(names), *numbers, round(intercept, 5), 0.0, 0.0)


def predict(records: Sequence[Record], names: Sequence[str]) -> None:
    """Add the expected precision and its interval, by models that have not seen the task."""
    tasks = sorted({record["base"] for record in records})
    for task in tasks:
        model = fitted([r for r in records if r["base"] != task and r["learned"]], names)
        for record in records:
            if record["base"] == task:
                record["expected"] = model(record["signals"])[0]
    for task in tasks:
        others = [r for r in records if r["base"] != task and r["learned"]]
        plain = LogisticModel((), (), (), (), 0.0, 0.0, 0.0)
        ends = with_interval(plain, others)
        for record in records:
            if record["base"] == task:
                middle = logit(record["expected"])
                record["low"], record["high"] = expit([middle + ends.below, middle + ends.above])


def with_interval(model: LogisticModel, records: Sequence[Record]) -> LogisticModel:
    """Add quantiles of the errors for left-out tasks, so that 90 % of the truths are inside.

    Errors of one task are alike, so each task has the same weight.
    """
    truth = np.clip([record["truth"] for record in records], EDGE, 1 - EDGE)
    errors = logit(truth) - logit([record["expected"] for record in records])
    tasks = [record["base"] for record in records]
    weights = np.array([1.0 / tasks.count(task) for task in tasks])
    level = min(0.99, COVERED * (1 + 1 / len(set(tasks))))  # as few tasks are known
    low, high = _quantiles(errors, weights, ((1 - level) / 2, (1 + level) / 2))
    return replace(model, below=round(min(low, 0.0), 5), above=round(max(high, 0.0), 5))


COLUMNS = ("fits", "tasks", "Spearman", "mean error", "inside", "width")


def figures(records: Sequence[Record]) -> tuple[float, ...]:
    """Return how well estimates agree with the truth; errors, shares and widths in per cent."""
    expected, truth, low, high = (
        np.array([record[name] for record in records])
        for name in ("expected", "truth", "low", "high")
    )
    return (
        float(len(records)),
        float(len({record["base"] for record in records})),
        float(spearmanr(expected, truth)[0]),
        100 * float(np.abs(expected - truth).mean()),
        100 * float(((low <= truth) & (truth <= high)).mean()),
        100 * float((high - low).mean()),
    )


def _quantiles(values: np.ndarray, weights: np.ndarray, levels: Iterable[float]) -> list[float]:
    order = np.argsort(values)
    shares = np.cumsum(weights[order]) / weights.sum()
    middle = shares - weights[order] / weights.sum() / 2
    return [float(np.interp(level, middle, values[order])) for level in levels]


def regrets(records: Iterable[Record]) -> dict[str, list[float]]:
    """Return what a choice by the estimate loses against the best method, by labels that are known.

    One value per task and split: points of precision, over the methods that could be used.
    """
    groups: dict[tuple[Any, ...], list[Record]] = {}
    for record in records:
        seen = record["labels"] if record["known"] == "as given" else record["known"]
        groups.setdefault((seen, record["task"], record["seed"], record["n_bits"]), []).append(
            record
        )
    found: dict[str, list[float]] = {}
    for (seen, *_), mine in groups.items():
        if len(mine) > 1:
            chosen = max(mine, key=lambda record: record["expected"])
            best = max(record["truth"] for record in mine)
            name = f"{seen} pairs" if seen.isdigit() else seen
            found.setdefault(name, []).append(100 * (best - chosen["truth"]))
    return found


def at_chance(record: Record) -> bool:
    """Whether search across is hardly better than chance, compared with search inside the target.

    Features that say little about the classes are not the fault of a bridge.
    """
    possible = max(record["own"] - record["chance"], EDGE)
    return bool((record["truth"] - record["chance"]) / possible < LEAST_GAIN)
