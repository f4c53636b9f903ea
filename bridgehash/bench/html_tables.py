"""Tables of a report as HTML: our own results, and the paper's set apart."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from itertools import groupby
from math import nan

from .panels import task_title
from .spec import Suite
from .tables import Cell, Published, ResultTable, number

_MANY_COLUMNS = 12  # more stand closer together
_RANKED = {1: "<strong>{}</strong>", 2: "<u>{}</u>"}  # best and second of a column


def score_table(suite: Suite, table: ResultTable, title: str) -> str:
    """Methods by tasks and lengths: the mean, below it the spread over splits.

    `title` is the caption, in HTML.
    """
    ranks = [table.rank(column) for column in range(len(table.columns))]
    usual = max((cell.n for cells in table.rows.values() for cell in cells), default=0)
    starts = _starts([task for task, _ in table.columns])
    rows = {
        label: [
            _score(cell, rank.get(label, 0), usual, first)
            for cell, rank, first in zip(cells, ranks, starts, strict=True)
        ]
        for label, cells in table.rows.items()
    }
    groups = [(_task_head(task), bits) for task, bits in table.columns]
    return _table(_caption(title, table.tally), _head(groups), rows)


def _score(cell: Cell, rank: int, usual: int, first: bool) -> str:
    if cell.missing:
        word = "failed" if cell.n_failed else "missing"
        return _td(f'<span class="{word}">{word}</span>', first)
    notes = [f"± {cell.spread:.1f}"] if cell.n > 1 else []
    if cell.n_failed:
        notes.append(f'<span class="failed">{cell.n_failed} failed</span>')
    elif cell.n < usual:
        notes.append(f"of {cell.n}")
    small = "".join(f"<small>{note}</small>" for note in notes)
    return _td(_RANKED.get(rank, "{}").format(f"{cell.mean:.1f}") + small, first)


def published_table(table: Published, title: str) -> str:
    """The numbers as they were printed."""
    columns = range(len(table.columns))
    ordered = [
        sorted({number(cells[i]) for cells in table.rows.values()} - {nan}, reverse=True)
        for i in columns
    ]
    starts = _starts([(subtask, task) for subtask, task, _ in table.columns])
    rows = {
        label: [
            _td(_RANKED.get(_place(cells[i], ordered[i]), "{}").format(escape(cells[i])), starts[i])
            for i in columns
        ]
        for label, cells in table.rows.items()
    }
    groups = [
        (f"<small>{escape(subtask)}</small>{_breakable(task)}", bits)
        for subtask, task, bits in table.columns
    ]
    return _table(_caption(title, table.tally), _head(groups), rows)


def _caption(title: str, tally: str) -> str:
    return f"{title}; {escape(tally)}" if tally else title


def _place(text: str, ordered: list[float]) -> int:
    return ordered.index(number(text)) + 1 if number(text) in ordered else 0


def _td(content: str, first: bool) -> str:
    """A cell; the first of a task has a rule before it."""
    return f"<td{' class=apart' if first else ''}>{content}</td>"


def _starts(groups: Sequence[object]) -> list[bool]:
    return [i == 0 or groups[i] != groups[i - 1] for i in range(len(groups))]


def _head(columns: Sequence[tuple[str, int]]) -> str:
    """One row of tasks and one of lengths; a single row if every task has one length."""
    groups = [
        (name, [bits for _, bits in group]) for name, group in groupby(columns, lambda c: c[0])
    ]
    if all(len(lengths) == 1 for _, lengths in groups):
        cells = "".join(
            f'<th scope="col" class="apart task">{name}<small>{lengths[0]} bits</small></th>'
            for name, lengths in groups
        )
        return f'<tr><th scope="col" class="first">Method</th>{cells}</tr>'
    tasks = "".join(
        f'<th scope="colgroup" class="group apart" colspan="{len(lengths)}">{name}</th>'
        for name, lengths in groups
    )
    bits = "".join(
        f'<th scope="col"{" class=apart" if i == 0 else ""}>{length}</th>'
        for _, lengths in groups
        for i, length in enumerate(lengths)
    )
    return (
        f'<tr><td></td>{tasks}</tr>\n<tr><th scope="col" class="first">Method, bits</th>{bits}</tr>'
    )


def _task_head(task: str) -> str:
    name, _, views = task_title(task).partition(": ")
    return f"<small>{_breakable(name)}</small>{_breakable(views)}"


def _breakable(text: str) -> str:
    """Escaped, with places where a long name may be broken."""
    shown = escape(text.replace("->", " → ")).replace(" → ", " →\N{NO-BREAK SPACE}")
    return re.sub(r"([./])(?=\w)", r"\1<wbr>", shown)


def _table(caption: str, head: str, rows: dict[str, list[str]]) -> str:
    wide = max(map(len, rows.values()), default=0) > _MANY_COLUMNS
    kind = "scores wide" if wide else "scores"
    body = "\n".join(
        f'<tr><th scope="row">{escape(label)}</th>{"".join(cells)}</tr>'
        for label, cells in rows.items()
    )
    return (
        f'<div class="scroll" tabindex="0"><table class="{kind}">'
        f"<caption><span>{caption}</span></caption>\n"
        f"<thead>\n{head}\n</thead>\n<tbody>\n{body}\n</tbody></table></div>"
    )
