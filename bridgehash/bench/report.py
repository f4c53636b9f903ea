"""The report of one or more suites: one HTML file with tables and figures.

It depends on the suites and the records alone. Missing and failed results are shown as such, and
published numbers are kept apart from ours.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, groupby
from math import isnan
from typing import Any, NamedTuple

from .._core.files import StrPath, atomic_write
from .._version import __version__
from .drawing import NEEDS, matplotlib_is_there, svg
from .figures import plot_of, task_title
from .runner import jobs_of
from .spec import Suite, suite_names
from .store import Record
from .tables import (
    MANY_ROWS,
    Cell,
    Run,
    ScoreTable,
    agreements,
    published,
    result_table,
    runs_by,
    runs_of,
)

_SIDES = {
    "cross": "Search in the source (cross-domain)",
    "single": "Search in the target (single-domain)",
}


class ReportCell(NamedTuple):
    """What a cell of a table shows."""

    text: str
    rank: int = 0  # in its column, 1 for the best
    spread: str = ""
    n_failed: int = 0
    n_splits: int = 0  # if it is fewer than for other cells
    lead: str = ""  # of the best cell: its p against the second best


@dataclass(frozen=True)
class ReportTable:
    """A table as the template needs it."""

    title: str
    tally: str
    columns: list[tuple[str, str, int]]  # kind and name of the heading, number of bits
    rows: dict[str, list[ReportCell]]
    notes: list[str] = field(default_factory=list)
    chance: list[str] = field(default_factory=list)  # empty if it is not known
    conclusion: str = ""

    @property
    def groups(self) -> list[tuple[str, str, list[int]]]:
        """Return kind, name and numbers of bits of neighbouring columns with one heading."""
        return [
            (*heading, [bits for _, _, bits in columns])
            for heading, columns in groupby(self.columns, lambda column: column[:2])
        ]

    @property
    def starts(self) -> set[int]:
        """Return the first column of each group."""
        return {0, *accumulate(len(lengths) for _, _, lengths in self.groups)}


class ReportSection:
    """A suite in the report."""

    def __init__(self, number: int, suite: Suite, records: list[Record]) -> None:
        self.id = f"suite-{number}"  # the name of a suite may hold any character
        self.suite = suite
        self.runs = runs_of(suite, records)
        self.done = [run for run in self.runs if run.finished]
        self.failed = [run for run in self.runs if not run.finished]
        self.lengths = list(dict.fromkeys(run.n_bits for run in self.runs))
        self.n_splits = len({run.seed for run in self.done})
        self.duration = _duration(_seconds(self.done))
        self.agreements = agreements(self.runs)
        self.sides = {
            _SIDES[side]: [
                _score_table(suite, records, side, metric) for metric in suite.metrics_of(side)
            ]
            for side in suite.sides
        }
        self.published = None if suite.paper is None else _published_table(suite.paper)
        self.plot = plot_of(suite, records) if matplotlib_is_there() else None

    @property
    def is_quick_look(self) -> bool:
        """Return whether most results are based on one split, although the suite has several."""
        n_splits = [len(runs) for runs in runs_by(self.done, "label", "task", "n_bits").values()]
        return self.suite.seeds > 1 and 2 * n_splits.count(1) > len(n_splits)

    @property
    def conclusions(self) -> dict[str, str]:
        """Return what the first table of each side says."""
        return {side: tables[0].conclusion for side, tables in self.sides.items() if tables}

    @property
    def progress(self) -> str:
        """Return how many fits are done, of how many."""
        if not self.runs:
            return "not run"
        is_quick = self.lengths and not set(self.lengths) & set(self.suite.n_bits)
        n_done = len(self.done)
        return f"{n_done}, quick" if is_quick else f"{n_done} of {len(jobs_of(self.suite)):,}"

    @property
    def argument(self) -> str:
        """Return the name of the suite on the command line."""
        name = self.suite.name
        return name if name in suite_names() else shlex.quote(f"{name}.toml")

    @property
    def failures(self) -> dict[tuple[str, str], list[int]]:
        """Return the seeds of failed fits by place and error."""
        seeds: dict[tuple[str, str], list[int]] = {}
        for run in self.failed:
            place = f"{run.label} on {task_title(run.task)}, {run.n_bits} bits"
            seeds.setdefault((place, str(run.record.get("error"))), []).append(run.seed)
        return seeds


def write_report(suites: Sequence[Suite], records: Iterable[Record], path: StrPath) -> None:
    """Write the report of some suites; the file is replaced whole or not at all."""
    text = report_page(suites, list(records))
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def report_page(
    suites: Sequence[Suite], records: list[Record], back: tuple[str, str] | None = None
) -> str:
    """Return the report as text: a page that loads no other file.

    `back` is the address and the title of a page to link to.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup, escape

    def breakable(text: str) -> Markup:
        """Allow a line break after each dot and slash of a long name."""
        shown = str(escape(text.replace("->", " → "))).replace(" → ", " →\N{NO-BREAK SPACE}")
        return Markup(re.sub(r"([./])(?=\w)", r"\1<wbr>", shown))

    templates = Environment(
        loader=PackageLoader("bridgehash.bench"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
    )
    templates.filters |= {"breakable": breakable, "svg": lambda *args: Markup(svg(*args))}
    sections = [ReportSection(i, suite, records) for i, suite in enumerate(suites, 1)]
    alone = len(sections) == 1
    return templates.get_template("report.html").render(
        version=__version__,
        title=f"bridgehash bench: {suites[0].name if alone else 'report'}",
        heading=suites[0].title if alone else "Benchmark report",
        sections=sections,
        back=back,
        totals=_totals(sections),
        command=" ".join(["bridgehash bench run", *(section.argument for section in sections)]),
        many_rows=MANY_ROWS,
        can_draw=matplotlib_is_there,
        install=NEEDS,
        sources=_sources([run.record for section in sections for run in section.runs]),
    )


def _totals(sections: list[ReportSection]) -> str:
    runs = (run for section in sections for run in section.runs)
    fits = {run.record.get("key", id(run.record)): run for run in runs}.values()
    done = [run for run in fits if run.finished]  # suites may share fits: each counts once
    return (
        f"{len(done):,} {'fit' if len(done) == 1 else 'fits'} finished and "
        f"{len(fits) - len(done):,} failed. Fitting and scoring took "
        f"{_duration(_seconds(done))}, summed over all cores."
    )


def _seconds(runs: Iterable[Run]) -> float:
    return float(sum(sum(run.record["seconds"].values()) for run in runs))


def _duration(seconds: float) -> str:
    """Return a duration as text.

    >>> _duration(7.24), _duration(95), _duration(7300)
    ('7.2 s', '1 min 35 s', '2 h 1 min')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def _score_table(suite: Suite, records: list[Record], side: str, metric: str) -> ReportTable:
    """Return our results: the mean, below it the spread over splits."""
    table = result_table(suite, records, side, metric)
    usual = max((cell.n for cells in table.rows.values() for cell in cells), default=0)

    leads = [table.lead(column) for column in range(len(table.columns))]

    def show(cell: Cell, rank: int, column: int) -> ReportCell:
        if cell.missing:
            return ReportCell("failed" if cell.n_failed else "missing")
        spread = f"± {cell.spread:.1f}" if cell.n > 1 else ""
        n_splits = cell.n if cell.n < usual else 0
        lead = str(leads[column] or "") if rank == 1 and usual > 1 else ""
        return ReportCell(f"{cell.mean:.1f}", rank, spread, cell.n_failed, n_splits, lead)

    columns = [(*task_title(task).partition(": ")[::2], bits) for task, bits in table.columns]
    chance = [] if all(map(isnan, table.chance)) else [_number(x) for x in table.chance]
    rows = _report_rows(table, show)
    return ReportTable(metric, table.tally, columns, rows, [], chance, table.conclusion)


def _number(value: float) -> str:
    return "" if isnan(value) else f"{value:.1f}"


def _published_table(name: str) -> ReportTable:
    """Return the numbers of the paper as they were printed."""
    table = published(name)
    rows = _report_rows(table, lambda text, rank, _: ReportCell(text, rank))
    return ReportTable("“MAP”", table.tally, table.columns, rows, table.notes)


def _report_rows(
    table: ScoreTable, show: Callable[[Any, int, int], ReportCell]
) -> dict[str, list[ReportCell]]:
    ranks = [table.rank(column) for column in range(len(table.columns))]
    return {
        label: [
            show(cell, ranks[column].get(label, 0), column) for column, cell in enumerate(cells)
        ]
        for label, cells in table.rows.items()
    }


def _sources(records: list[Record]) -> dict[str, list[str] | list[tuple[str, str]]]:
    """Return data, packages and machines that the numbers come from."""
    if not records:
        return {}
    versions = {
        ", ".join(f"{name} {version}" for name, version in record.get("versions", {}).items())
        for record in records
    }
    return {
        "data": sorted({item for record in records for item in record.get("data", {}).items()}),
        "versions": sorted(versions),
        "commits": sorted({record["commit"] for record in records if "commit" in record}),
        "devices": sorted({str(record.get("device", "")) for record in records}),
        "finished": sorted(str(record["finished"]) for record in records if "finished" in record),
    }
