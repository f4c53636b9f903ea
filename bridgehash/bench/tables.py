"""Tables as pure functions of stored records: mean and spread over seeds, gaps shown as gaps."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from math import isnan, nan
from typing import Any, NamedTuple

import numpy as np

from ..ath.matching import LEAST_AGREEMENT
from .spec import QUICK_BITS, Suite
from .store import Record

_MANY_ROWS = 14

Place = tuple[str, int]  # a column: task and number of bits


class Run(NamedTuple):
    """A record seen from a suite: which of its fits it is."""

    label: str
    task: str
    n_bits: int
    seed: int
    record: Record

    @property
    def finished(self) -> bool:
        return "scores" in self.record

    def score(self, side: str, metric: str = "radius_pr_area") -> float:
        """In per cent."""
        return 100.0 * float(self.record["scores"][side][metric])


def runs_of(suite: Suite, records: Iterable[Record]) -> list[Run]:
    """The fits of a suite that were run, each once, in the order of the suite.

    Records are shared by suites, so a fit may have several: with more extras, or on a data file
    that has changed since. One that finished goes before one that failed, then the latest. Records
    of settings that a method no longer has, by another default say, do not count.
    """
    labels = {_setting(m.use, m.labels, m.settings): m.label for m in suite.methods}
    tasks = [str(task) for task in suite.tasks]
    best: dict[tuple[Any, ...], Run] = {}
    for record in sorted(records, key=lambda r: ("scores" in r, r.get("finished", ""))):
        settings = record.get("settings", {})
        label = labels.get(_setting(record["use"], record["labels"], settings))
        wanted = record["task"] in tasks and record["seed"] < suite.seeds
        if label is not None and wanted and set(suite.extras) <= set(record.get("extras", ())):
            run = Run(label, record["task"], record["n_bits"], record["seed"], record)
            best[run[:4]] = run
    lengths = _lengths(suite, {run.n_bits for run in best.values()})
    rows = [method.label for method in suite.methods]
    return sorted(
        (run for run in best.values() if run.n_bits in lengths),
        key=lambda run: (
            tasks.index(run.task),
            lengths.index(run.n_bits),
            rows.index(run.label),
            run.seed,
        ),
    )


def agreements(runs: Iterable[Run]) -> list[str]:
    """What searched bridges say of themselves, a line a task: agreement, and warnings given."""
    found: dict[tuple[str, str], list[float]] = {}
    for run in runs:
        value = run.record.get("agreement")
        if value is not None:
            found.setdefault((run.task, run.label), []).append(float(value))
    return [
        f"{task}, {label}: searches agree by {np.mean(values):.2f} ± {np.std(values):.2f}, "
        f"warned {sum(value < LEAST_AGREEMENT for value in values)} of {len(values)} times"
        for (task, label), values in found.items()
    ]


def _lengths(suite: Suite, ran: set[int]) -> list[int]:
    """The lengths of the suite that were run, or those of a quick look where none was."""
    quick = [bits for bits in QUICK_BITS if bits in ran]
    return [bits for bits in suite.n_bits if bits in ran] or quick or list(suite.n_bits)


@dataclass(frozen=True)
class Cell:
    """One number of a table, in per cent: its mean and spread over the seeds that finished."""

    mean: float = nan
    spread: float = nan
    n: int = 0
    n_failed: int = 0

    @property
    def missing(self) -> bool:
        return isnan(self.mean)

    def __str__(self) -> str:
        if self.missing:
            return "failed" if self.n_failed else "-"
        spread = f" ± {self.spread:.1f}" if self.n > 1 else ""
        return f"{self.mean:.1f}{spread}"


@dataclass(frozen=True)
class ResultTable:
    """Methods by tasks and code lengths, for one side and one metric."""

    side: str
    metric: str
    columns: list[Place]
    rows: dict[str, list[Cell]]

    def rank(self, column: int) -> dict[str, int]:
        """Place of each method in a column, 1 for the best; without those that are missing."""
        means = {label: cells[column].mean for label, cells in self.rows.items()}
        known = sorted((m for m in means.values() if not isnan(m)), reverse=True)
        return {label: known.index(m) + 1 for label, m in means.items() if not isnan(m)}

    @property
    def tally(self) -> str:
        """Who is best how often, in words."""
        return _tally({label: [cell.mean for cell in row] for label, row in self.rows.items()})


def _tally(rows: Mapping[str, Sequence[float]]) -> str:
    """Who is best in how many columns; a tie counts for all in it, an empty column for none.

    Nothing is said of one column alone, nor of the many rows of a sweep.

    >>> _tally({"A": [3.0, 1.0, 5.0], "B": [2.0, 1.0, nan], "C": [1.0, 0.0, nan]})
    'best in 3 columns: A 3, B 1'
    """
    columns = [
        [value for value in column if not isnan(value)]
        for column in zip(*rows.values(), strict=True)
    ]
    wins = {
        label: sum(
            bool(known) and value == max(known) for value, known in zip(row, columns, strict=True)
        )
        for label, row in rows.items()
    }
    places = sorted(((n, label) for label, n in wins.items() if n), key=lambda pair: -pair[0])
    known = sum(map(bool, columns))
    if known < 2 or len(rows) > _MANY_ROWS:
        return ""
    return f"best in {known} columns: " + ", ".join(f"{label} {n}" for n, label in places)


def result_table(suite: Suite, records: Iterable[Record], side: str, metric: str) -> ResultTable:
    """The table of a suite; records of other suites are passed over."""
    runs = runs_of(suite, records)
    lengths = _lengths(suite, {run.n_bits for run in runs})
    columns = [(str(task), bits) for task in suite.tasks for bits in lengths]
    by_place: dict[tuple[str, str, int], list[Run]] = {}
    for run in runs:
        by_place.setdefault(run[:3], []).append(run)
    rows = {
        method.label: [
            _cell(by_place.get((method.label, *column), []), side, metric) for column in columns
        ]
        for method in suite.methods
    }
    return ResultTable(side, metric, columns, rows)


def _cell(runs: list[Run], side: str, metric: str) -> Cell:
    values = [run.score(side, metric) for run in runs if run.finished]
    n_failed = len(runs) - len(values)
    if not values:
        return Cell(n_failed=n_failed)
    return Cell(float(np.mean(values)), float(np.std(values)), len(values), n_failed)


def _setting(use: str, labels: str, settings: Mapping[str, str]) -> tuple[Any, ...]:
    return use, labels, *sorted(settings.items())


@dataclass(frozen=True)
class Published:
    """The paper's own table, on the paper's own data."""

    columns: list[tuple[str, str, int]]  # subtask, task, bits
    rows: dict[str, list[str]]
    notes: list[str]  # what has to be known of some of the numbers

    @property
    def tally(self) -> str:
        """Who is best how often, in words."""
        return _tally({label: [number(text) for text in row] for label, row in self.rows.items()})


def number(text: str) -> float:
    """A printed number; not a number where there is none."""
    try:
        return float(text)
    except ValueError:
        return nan


def published(name: str) -> Published:
    """A table of the paper by the name of its file."""
    file = resources.files("bridgehash.bench") / "paper" / name
    lines = list(csv.DictReader(file.read_text(encoding="utf-8").splitlines()))
    columns = list(dict.fromkeys((x["subtask"], x["task"], int(x["n_bits"])) for x in lines))
    values = {(x["method"], x["subtask"], x["task"], int(x["n_bits"])): x["value"] for x in lines}
    methods = dict.fromkeys(x["method"] for x in lines)
    rows = {m: [values.get((m, *column), "-") or "-" for column in columns] for m in methods}
    return Published(columns, rows, _notes(lines, len(columns)))


def _notes(lines: list[dict[str, str]], n_columns: int) -> list[str]:
    """Each note once, with the places it holds for unless these are all of a method."""
    places: dict[tuple[str, str], list[str]] = {}
    for x in lines:
        if x["note"]:
            place = f"{x['task']} at {x['n_bits']} bits"
            places.setdefault((x["method"], x["note"]), []).append(place)
    return [
        f"{method}{'' if len(where) == n_columns else ', ' + ', '.join(where)}: {note}"
        for (method, note), where in places.items()
    ]
