"""Compare the figures in README and documentation with the records they come from, or renew them.

    python docs/_hooks/measured.py            # renew all figures whose records exist
    python docs/_hooks/measured.py --check    # change nothing; fail if a figure differs

A comment before a table names its record in `docs/results/records`, labels that all figures share,
and, where the text of the table is not the label, the labels of rows, columns and of the figures
within a cell (in one column: `columns: cross / single; map`). `-` is a column that is not measured,
`keys: 2` means that the first two columns name a row. On the site, `best: column` marks the largest
figure of each column, `best: group` the largest among rows with the same first cell:

    <!-- record: levels.json | 64 | rows: ITQ; ATH_U | columns: mnist-usps | cells: cross area -->

A figure in running text has its record behind it: `97.7<!-- levels.json: ATH_S, 64, ... -->`. A
table of such figures has `<!-- record: inline -->`. A figure is the mean over the splits, with
± the standard deviation; a label `max`, `min`, `median` or `count` asks for something else, and
`percent` multiplies by 100. Number of digits and form are kept as the writer chose them.

`not rerun` at the end of a comment marks figures that are older than their record. It is removed
when the record has them. Tables without a record say so: `<!-- no record: REASON -->`; tables with
numbers that nobody measured have `<!-- not measured -->`.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
RECORDS = ROOT / "docs" / "results" / "records"
Labels = frozenset[str]
Values = dict[Labels, list[float]]

STATISTICS = {"max": max, "min": min, "median": np.median, "count": len}
PERCENT = "percent"  # of a record that has shares
PENDING = "not rerun"
_NUMBER = r"(?:\d+(?:,\d{3})*(?:\.\d+)?|\.\d+)"
FIGURE = re.compile(rf"(?<![\w.@-])[+-]?{_NUMBER}(?: ± {_NUMBER})?(?![\w@]|\.\d)")
_INLINE = re.compile(rf"({FIGURE.pattern})<!-- ([\w.-]+): (.*?) -->")
_FENCE = re.compile(r"^(```.*?^```)", re.DOTALL | re.MULTILINE)
_TABLE = re.compile(
    r"(?P<comment><!--(?:(?!-->).)*-->)?(?P<gap>\s*?\n)?(?P<table>(?:^\|[^\n]*\|[ ]*$\n?)+)",
    re.DOTALL | re.MULTILINE,
)
_PROSE = re.compile(r"`[^`\n]*`|\$[^$\n]*\$|<!--.*?-->")  # code, formulas, comments


@dataclass
class Outcome:
    """A page with figures from the records, and what is to be said about it."""

    text: str
    wrong: list[str] = field(default_factory=list)  # figures that differ, tables without a record
    pending: list[str] = field(default_factory=list)  # tables that were not rerun
    unrecorded: list[str] = field(default_factory=list)  # tables that have no record, and why


@dataclass(frozen=True)
class Directive:
    """What the comment before a table says."""

    record: str
    shared: list[str]
    options: dict[str, list[list[list[str]]]]  # by row, column or cell: labels of its figures
    is_pending: bool

    @classmethod
    def parsed(cls, text: str) -> Directive:
        """Read `NAME | LABELS | rows: A; B | columns: ...`."""
        name, *parts = (part.strip() for part in text.split("|"))
        shared: list[str] = []
        options = {}
        for part in parts:
            key, colon, value = part.partition(": ")
            if colon and key in ("rows", "columns", "cells", "keys", "best"):
                options[key] = [_figures(item) for item in value.split(";")]
            elif part != PENDING:
                shared += _labels(part)
        return cls(name, shared, options, PENDING in parts)

    @property
    def n_keys(self) -> int:
        return int(self.options.get("keys", [[["1"]]])[0][0][0])


def renewed(text: str, folder: Path = RECORDS) -> Outcome:
    """Return a page with the figures of the records."""
    outcome = Outcome("")
    parts = _FENCE.split(text)
    for i, part in enumerate(parts):
        if i % 2 == 0:  # not a block of code
            part = _TABLE.sub(lambda match: _renewed_table(match, folder, outcome), part)
            parts[i] = _INLINE.sub(lambda match: _renewed_inline(match, folder, outcome), part)
    outcome.text = "".join(parts)
    return outcome


def _renewed_inline(match: re.Match[str], folder: Path, outcome: Outcome) -> str:
    figure, name, words = match.groups()
    plain = words.removesuffix(f"; {PENDING}")
    found = _values(folder / name, _labels(plain))
    if found is None:
        if plain == words:
            outcome.wrong.append(f"{figure}: {name} has no values for {plain}")
        else:
            outcome.pending.append(f"{figure}, {name}: {plain}")
        return match[0]
    new = _formatted(found, figure)
    if new != figure:
        outcome.wrong.append(f"{figure} should be {new} ({name}: {plain})")
    elif plain != words:
        outcome.wrong.append(f"{figure} is in its record now ({name}: {plain})")
    return f"{new}<!-- {name}: {plain} -->"


def _renewed_table(match: re.Match[str], folder: Path, outcome: Outcome) -> str:
    comment, gap, table = match["comment"] or "", match["gap"] or "", match["table"]
    kind, _, words = comment.removeprefix("<!--").removesuffix("-->").strip().partition(": ")
    title = " ".join(table.split("\n", 1)[0].split())
    if kind == "not measured":
        return match[0]
    if kind == "no record":
        outcome.unrecorded.append(f"{title} {words}")
        return match[0]
    if kind == "record" and words == "inline":
        bare = _PROSE.sub("", _INLINE.sub("", table))
        outcome.wrong += [f"{title} {n} has no record" for n in re.findall(r"\d*\.\d+", bare)]
        return match[0]
    if kind != "record":
        if any(FIGURE.search(_PROSE.sub("", cell)) for row in _rows(table)[2:] for cell in row):
            outcome.wrong.append(f"{title} has figures, but no comment before it names a record")
        return match[0]
    directive = Directive.parsed(words)
    try:
        lines, problems, is_complete = _renewed_lines(table, directive, folder)
    except ValueError as error:
        outcome.wrong.append(f"{title} {error}")
        return match[0]
    if directive.is_pending and not is_complete:
        outcome.pending.append(f"{title} {words}")
        return match[0]
    outcome.wrong += [f"{title} {problem}" for problem in problems]
    if directive.is_pending:
        outcome.wrong.append(f"{title} its record is there now")
        comment = comment.replace(f" | {PENDING}", "")
    return f"{comment}{gap}" + "".join(f"{line}\n" for line in lines)


def _renewed_lines(
    table: str, directive: Directive, folder: Path
) -> tuple[list[str], list[str], bool]:
    """Return the lines of a table, what was wrong, and whether the record has all figures."""
    lines = table.splitlines()
    heads, _, *rows = _rows(table)
    options, n_keys = directive.options, directive.n_keys
    columns = options.get("columns") or [_figures(_plain(head)) for head in heads[n_keys:]]
    names = options.get("rows") or [_figures(", ".join(map(_plain, row[:n_keys]))) for row in rows]
    if len(columns) != len(heads) - n_keys or len(names) != len(rows):
        raise ValueError(
            f"has {len(rows)} rows and {len(heads) - n_keys} columns, but its comment names "
            f"{len(names)} and {len(columns)}"
        )
    problems: list[str] = []
    is_complete = True
    for i, (row, [name]) in enumerate(zip(rows, names, strict=True)):
        for j, column in enumerate(columns, n_keys):
            if column == [["-"]]:
                continue
            found = [
                _values(folder / directive.record, [*directive.shared, *name, *part, *cell])
                for part in column
                for [cell] in options.get("cells", [[[]]])
            ]
            old = row[j]
            row[j], known = _renewed_cell(old, found)
            is_complete &= known
            if row[j] != old or not known:
                why = f"should be {row[j]}" if known else f"is not in {directive.record}"
                problems.append(f"{', '.join(name)}, {heads[j]}: {old or 'nothing'} {why}")
        lines[i + 2] = f"| {' | '.join(row)} |"
    return lines, problems, is_complete


def _renewed_cell(text: str, found: list[list[float] | None]) -> tuple[str, bool]:
    """Return a cell with new figures, and whether each figure is in the record."""
    if text in ("", "-"):  # not possible, or not measured
        return text, not any(found)
    if len(FIGURE.findall(text)) != len(found) or not all(found):
        return text, False
    values = iter(found)
    return FIGURE.sub(lambda match: _formatted(next(values) or [], match[0]), text), True


def _formatted(values: list[float], like: str) -> str:
    """Return mean and spread with the digits and the form of an older figure.

    >>> _formatted([0.25, 0.35], ".412 ± .02"), _formatted([1234.5], "+7,000")
    ('.300 ± .05', '+1,234')
    """
    mean, _, spread = like.partition(" ± ")
    shown = _number(float(np.mean(values)), mean)
    return f"{shown} ± {_number(float(np.std(values)), spread)}" if spread else shown


def _number(value: float, like: str) -> str:
    digits = len(like.partition(".")[2])
    sign, comma = "+" if like[0] in "+-" else "", "," if "," in like or abs(value) >= 1e4 else ""
    text = f"{value:{sign}{comma}.{digits}f}"
    return (
        text.replace("0.", ".", 1) if like.lstrip("+-").startswith(".") and abs(value) < 1 else text
    )


def _rows(table: str) -> list[list[str]]:
    return [
        [cell.strip() for cell in line.strip().strip("|").split("|")] for line in table.splitlines()
    ]


def _plain(text: str) -> str:
    return re.sub(r"<!--.*?-->|[`*]", "", text).strip()


def _figures(text: str) -> list[list[str]]:
    """Return the labels of each figure of a cell."""
    return [_labels(part) for part in text.split(" / ")]


def _labels(text: str) -> list[str]:
    return [label.strip() for label in text.split(", ") if label.strip()]


def _values(path: Path, labels: list[str]) -> list[float] | None:
    """Return the values of all splits, or one statistic of them; None if there are none."""
    found = _record(path).get(frozenset(labels).difference(STATISTICS, [PERCENT]))
    if PERCENT in labels:
        found = found and [100.0 * value for value in found]
    for name in STATISTICS.keys() & set(labels):
        found = found and [float(STATISTICS[name](found))]
    return found


@cache
def _record(path: Path) -> Values:
    """Return the values of a record by their labels; a missing file has none."""
    if not path.exists():
        return {}
    return _suite_values(path) if path.name.endswith(".gz") else _script_values(path)


def _script_values(path: Path) -> Values:
    runs = json.loads(path.read_text(encoding="utf-8"))
    return {frozenset(row["labels"]): row["values"] for run in runs for row in run["rows"]}


def _suite_values(path: Path) -> Values:
    """Return the scores of a suite in per cent, by method, task, bits, side and metric."""
    values: Values = {}
    lines = gzip.decompress(path.read_bytes()).decode().splitlines()
    for record in sorted(map(json.loads, lines), key=lambda record: record["seed"]):
        for side, scores in record.get("scores", {}).items():
            for metric, score in scores.items():
                place = (record["task"], str(record["n_bits"]), side, metric)
                if not isinstance(score, list):
                    key = frozenset((*_labels(record["label"]), *place))
                    values.setdefault(key, []).append(100.0 * score)
    return values


def pages(root: Path = ROOT) -> Iterator[Path]:
    """Return README and all pages of the documentation."""
    yield root / "README.md"
    yield from sorted((root / "docs").rglob("*.md"))


def main(arguments: Iterable[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="change nothing, fail on differences")
    parser.add_argument("pages", nargs="*", type=Path, help="default: README and documentation")
    options = parser.parse_args(None if arguments is None else list(arguments))
    n_wrong = 0
    for page in options.pages or pages():
        text = page.read_text(encoding="utf-8")
        outcome = renewed(text)
        for kind in ("wrong", "pending", "unrecorded"):
            for line in getattr(outcome, kind):
                print(f"{page.name}: {kind}: {line}")
        if not options.check and outcome.text != text:
            page.write_text(outcome.text, encoding="utf-8")
            outcome = renewed(outcome.text)
        n_wrong += len(outcome.wrong)
    return min(n_wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
