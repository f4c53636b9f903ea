"""Tables of stored records: mean and spread over splits, and whether a lead could be chance.

Missing results are shown as missing.
"""

from __future__ import annotations

import csv
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from math import isnan, nan
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from .spec import QUICK_BITS, REJECTION, Suite
from .store import Record

MANY_ROWS = 14  # longer tables are those of sweeps, which have a figure
CHANCE = "chance"
LEVEL = 0.05  # a smaller p is called clear
LEAST_SPLITS = 6  # with five, the smallest p of a signed-rank test is 2 / 2**5 = 0.06

Place = tuple[str, int]  # task and number of bits of a column


class Run(NamedTuple):
    """A record, and which fit of a suite it is."""

    label: str
    task: str
    n_bits: int
    seed: int
    record: Record

    @property
    def finished(self) -> bool:
        return "scores" in self.record

    def score(self, side: str, metric: str = "radius_pr_area") -> float:
        """Return a score in per cent; NaN if the record does not have it."""
        value = self.record["scores"][side].get(metric)
        return nan if value is None else 100.0 * float(value)

    def chance(self, side: str) -> float:
        """Return the score of random codes in per cent: the share of relevant pairs."""
        scores = self.record["scores"][side]
        if CHANCE in scores:
            return 100.0 * float(scores[CHANCE])
        n_pairs = sum(scores.get("pairs", ()))
        return 100.0 * sum(scores["relevant"]) / n_pairs if n_pairs else nan


def runs_of(suite: Suite, records: Iterable[Record]) -> list[Run]:
    """Return the fits of a suite that were run, each once, in the order of the suite.

    A fit may have several records: with more extras, or on an older data file. A finished record
    is preferred to a failed one, then the latest. Records with other settings, such as an older
    default, are ignored, and so are records that were kept for another suite.
    """
    labels = {_setting(m.use, m.labels, m.settings): m.label for m in suite.methods}
    tasks = [str(task) for task in suite.tasks]
    best: dict[tuple[Any, ...], Run] = {}
    for record in sorted(records, key=lambda r: ("scores" in r, r.get("finished", ""))):
        settings = record.get("settings", {})
        label = labels.get(_setting(record["use"], record["labels"], settings))
        mine = record.get("suite", suite.name) == suite.name
        wanted = mine and record["task"] in tasks and record["seed"] < suite.seeds
        if label is not None and wanted and set(suite.extras) <= set(record.get("extras", ())):
            run = Run(label, record["task"], record["n_bits"], record["seed"], record)
            best[run[:4]] = run
    lengths = _lengths(suite, {run.n_bits for run in best.values()})
    rows = [method.label for method in suite.methods]

    def place(run: Run) -> tuple[int, ...]:
        return tasks.index(run.task), lengths.index(run.n_bits), rows.index(run.label), run.seed

    return sorted((run for run in best.values() if run.n_bits in lengths), key=place)


def runs_by(runs: Iterable[Run], *names: str) -> dict[Any, list[Run]]:
    """Return runs by a field, or by a tuple of fields, in order of first occurrence."""
    key, groups = attrgetter(*names), dict[Any, list[Run]]()
    for run in runs:
        groups.setdefault(key(run), []).append(run)
    return groups


def agreements(runs: Iterable[Run]) -> list[str]:
    """Return one line per task and method on how far independent searches agreed."""
    known = [run for run in runs if run.record.get("agreement") is not None]
    lines = []
    for (task, label), here in runs_by(known, "task", "label").items():
        values = np.array([run.record["agreement"] for run in here], dtype=float)
        lines.append(
            f"{task}, {label}: agreement of searches {values.mean():.2f} ± {values.std():.2f}"
        )
    return lines


def _lengths(suite: Suite, ran: set[int]) -> list[int]:
    """Return the code lengths of the suite that were run, or else those of a quick run."""
    quick = [bits for bits in QUICK_BITS if bits in ran]
    return [bits for bits in suite.n_bits if bits in ran] or quick or list(suite.n_bits)


@dataclass(frozen=True)
class Cell:
    """The scores of the finished splits, in per cent."""

    scores: Mapping[int, float] = field(default_factory=dict)  # by seed
    n_failed: int = 0

    @property
    def n(self) -> int:
        return len(self.scores)

    @property
    def missing(self) -> bool:
        return self.n == 0

    @property
    def mean(self) -> float:
        return nan if self.missing else float(np.mean(list(self.scores.values())))

    @property
    def spread(self) -> float:
        """Return the standard deviation over the splits."""
        return nan if self.missing else float(np.std(list(self.scores.values())))

    def __str__(self) -> str:
        if self.missing:
            return "failed" if self.n_failed else "-"
        spread = f" ± {self.spread:.1f}" if self.n > 1 else ""
        return f"{self.mean:.1f}{spread}"


class Lead(NamedTuple):
    """Whether the best method of a column is better than the second best on the same splits."""

    best: str
    second: str
    n_splits: int  # that both have
    p: float  # of a paired Wilcoxon signed-rank test; NaN with too few splits

    @property
    def clear(self) -> bool:
        return self.p < LEVEL

    def __str__(self) -> str:
        return "too few splits" if isnan(self.p) else f"p = {self.p:.2g}"


def signed_rank_p(ours: Mapping[int, float], others: Mapping[int, float]) -> tuple[int, float]:
    """Return how many splits two methods share, and the p of a paired Wilcoxon test, two-sided.

    With fewer than six splits p cannot fall below 0.05, so it is NaN.

    >>> signed_rank_p({0: 2.0, 1: 4.0, 2: 7.0}, {0: 1.0, 1: 2.0, 2: 3.0, 3: 4.0})
    (3, nan)
    >>> signed_rank_p({s: 2.0 * s + 1.0 for s in range(6)}, {s: 1.0 * s for s in range(6)})
    (6, 0.03125)
    """
    from scipy.stats import wilcoxon

    differences = np.array([ours[seed] - others[seed] for seed in ours if seed in others])
    n = len(differences)
    if n < LEAST_SPLITS:
        return n, nan
    if not differences.any():
        return n, 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ties and zeros make p approximate
        return n, float(wilcoxon(differences).pvalue)


class ScoreTable:
    """A table of scores: one row per method."""

    columns: list[Any]
    rows: dict[str, list[Any]]

    def values(self) -> dict[str, list[float]]:
        """Return the scores; NaN if missing."""
        return {label: [cell.mean for cell in cells] for label, cells in self.rows.items()}

    def rank(self, column: int) -> dict[str, int]:
        """Return the rank of each method in a column, 1 for the best; missing ones have none."""
        return column_ranks({label: values[column] for label, values in self.values().items()})

    @property
    def tally(self) -> str:
        """Return how often each method is best, in words."""
        return _tally(self.values())


@dataclass(frozen=True)
class ResultTable(ScoreTable):
    """Methods by tasks and code lengths, for one side and one metric."""

    side: str
    metric: str
    columns: list[Place]
    rows: dict[str, list[Cell]]
    chance: list[float] = field(default_factory=list)  # by column, in per cent; NaN if not known

    @property
    def conclusion(self) -> str:
        """Return which method is best on average, and whether its lead could be chance.

        Averages are over the columns in which every method has a score.
        """
        scored = {label: row for label, row in self.values().items() if not all(map(isnan, row))}
        whole = [
            i for i in range(len(self.columns)) if not any(isnan(r[i]) for r in scored.values())
        ]
        if not scored or not whole:
            return ""
        means = {label: float(np.mean([row[i] for i in whole])) for label, row in scored.items()}
        best, *others = sorted(means, key=lambda label: -means[label])
        text = f"{best} has the best mean, {means[best]:.1f}"
        if len(whole) > 1:
            text += f" over {len(whole)} columns"
        if others:
            text += f"; next is {others[0]} with {means[others[0]]:.1f}"
        known = [self.chance[i] for i in whole] if self.chance else [nan]
        if not any(map(isnan, known)):
            text += f"; chance is {np.mean(known):.1f}"
        return f"{text}. {self._order}" if others else f"{text}."

    @property
    def _order(self) -> str:
        """Return in how many columns which method is clearly best, as a sentence."""
        leads = [lead for i in range(len(self.columns)) if (lead := self.lead(i)) is not None]
        tested = [lead for lead in leads if not isnan(lead.p)]
        if not tested:
            return f"The order is not tested: that needs {LEAST_SPLITS} splits."
        clear = Counter(lead.best for lead in tested if lead.clear)
        if not clear:
            return f"No method is clearly best in any column (p < {LEVEL:g})."
        first, *more = (f"{label} is clearly best in {n}" for label, n in clear.most_common())
        rest = "".join(f", {text}" for text in more)
        return f"{first} of {len(leads)} columns (p < {LEVEL:g}){rest}."

    def lead(self, column: int) -> Lead | None:
        """Compare the two best methods of a column; None if fewer than two have a score."""
        cells = {label: row[column] for label, row in self.rows.items() if not row[column].missing}
        if len(cells) < 2:
            return None
        best, second = sorted(cells, key=lambda label: -cells[label].mean)[:2]
        return Lead(best, second, *signed_rank_p(cells[best].scores, cells[second].scores))

    @property
    def tally(self) -> str:
        """Return in how many columns each method leads clearly, in words.

        With too few splits for a test, return how often each has the best mean, and say so.
        """
        leads = [lead for i in range(len(self.columns)) if (lead := self.lead(i)) is not None]
        if not super().tally or not leads:
            return super().tally
        tested = [lead for lead in leads if not isnan(lead.p)]
        if not tested:
            n = max(lead.n_splits for lead in leads)
            return f"{super().tally} (too few splits to test this: {n})"
        clear = Counter(lead.best for lead in tested if lead.clear)
        counts = ", ".join(f"{label} {n}" for label, n in clear.most_common()) or "none"
        undecided = len(leads) - clear.total()
        return (
            f"clearly best (p < {LEVEL:g}) in {len(leads)} columns: {counts}; undecided {undecided}"
        )


def column_ranks(values: Mapping[str, float]) -> dict[str, int]:
    """Return the rank of each value that is not NaN, 1 for the largest; ties share a rank.

    >>> column_ranks({"A": 1.0, "B": nan, "C": 3.0, "D": 3.0})
    {'A': 3, 'C': 1, 'D': 1}
    """
    known = sorted((value for value in values.values() if not isnan(value)), reverse=True)
    return {name: known.index(value) + 1 for name, value in values.items() if not isnan(value)}


def _tally(rows: Mapping[str, Sequence[float]]) -> str:
    """Return how many columns each method is best in; ties count for all of them.

    The text is empty for a single column, and for the many rows of a sweep.

    >>> _tally({"A": [3.0, 1.0, 5.0], "B": [2.0, 1.0, nan], "C": [1.0, 0.0, nan]})
    'best in 3 columns: A 3, B 1'
    """
    columns = [
        column_ranks(dict(zip(rows, column, strict=True)))
        for column in zip(*rows.values(), strict=True)
    ]
    n_columns = sum(map(bool, columns))
    if n_columns < 2 or len(rows) > MANY_ROWS:
        return ""
    wins = Counter(label for ranks in columns for label in rows if ranks.get(label) == 1)
    ordered = sorted(rows, key=lambda label: -wins[label])
    counts = ", ".join(f"{label} {wins[label]}" for label in ordered if wins[label])
    return f"best in {n_columns} columns: {counts}"


def result_table(suite: Suite, records: Iterable[Record], side: str, metric: str) -> ResultTable:
    """Return the table of a suite; records of other suites are ignored."""
    runs = runs_of(suite, records)
    lengths = _lengths(suite, {run.n_bits for run in runs})
    columns = [(str(task), bits) for task in suite.tasks for bits in lengths]
    by_place = runs_by(runs, "label", "task", "n_bits")
    rows = {
        method.label: [
            _cell(by_place.get((method.label, *column), []), side, metric) for column in columns
        ]
        for method in suite.methods
    }
    chance = [_chance(runs, column, side, metric) for column in columns]
    return ResultTable(side, metric, columns, rows, chance)


def _chance(runs: list[Run], column: Place, side: str, metric: str) -> float:
    """Return the mean score of random codes over the splits of a column; NaN if not known."""
    if metric == REJECTION:
        return 50.0
    here = [run for run in runs if run.finished and (run.task, run.n_bits) == column]
    return float(np.mean([run.chance(side) for run in here])) if here else nan


def _cell(runs: list[Run], side: str, metric: str) -> Cell:
    scores = {run.seed: run.score(side, metric) for run in runs if run.finished}
    n_failed = len(runs) - len(scores)
    return Cell({seed: score for seed, score in scores.items() if not isnan(score)}, n_failed)


def _setting(use: str, labels: str, settings: Mapping[str, str]) -> tuple[Any, ...]:
    return use, labels, *sorted(settings.items())


@dataclass(frozen=True)
class Published(ScoreTable):
    """A table of the paper, on the data of the paper."""

    columns: list[tuple[str, str, int]]  # subtask, task, bits
    rows: dict[str, list[str]]
    notes: list[str]  # remarks on some of the numbers

    def values(self) -> dict[str, list[float]]:
        """Return the printed numbers; NaN if missing."""
        return {label: [number(text) for text in cells] for label, cells in self.rows.items()}


def number(text: str) -> float:
    """Return a printed number, or NaN."""
    try:
        return float(text)
    except ValueError:
        return nan


def published(name: str) -> Published:
    """Return a table of the paper by the name of its file."""
    file = resources.files("bridgehash.bench") / "paper" / name
    lines = list(csv.DictReader(file.read_text(encoding="utf-8").splitlines()))
    columns = list(dict.fromkeys((x["subtask"], x["task"], int(x["n_bits"])) for x in lines))
    values = {(x["method"], x["subtask"], x["task"], int(x["n_bits"])): x["value"] for x in lines}
    methods = dict.fromkeys(x["method"] for x in lines)
    rows = {m: [values.get((m, *column), "-") or "-" for column in columns] for m in methods}
    return Published(columns, rows, _notes(lines, len(columns)))


def _notes(lines: list[dict[str, str]], n_columns: int) -> list[str]:
    """Return each note once, with its places unless it holds for a whole row."""
    places: dict[tuple[str, str], list[str]] = {}
    for x in lines:
        if x["note"]:
            place = f"{x['task']} at {x['n_bits']} bits"
            places.setdefault((x["method"], x["note"]), []).append(place)
    return [
        f"{method}{'' if len(where) == n_columns else ', ' + ', '.join(where)}: {note}"
        for (method, note), where in places.items()
    ]
