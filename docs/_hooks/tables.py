"""Right-align the numbers of tables and mark the best when the site is built.

A column is right-aligned if all its cells are numbers. The best figures are marked in tables whose
comment has `best: column` or `best: group`; see measured.py. Tables can be scrolled by keyboard.
"""

from __future__ import annotations

import re
from typing import Any

_TABLE = re.compile(
    r"(?P<comment><!-- record: (?:(?!-->).)*-->\s*)?(?P<table><table>.*?</table>)", re.DOTALL
)
_ROW = re.compile(r"<tr>.*?</tr>", re.DOTALL)
_CELL = re.compile(r"<(?P<tag>t[hd])>(?P<text>.*?)</t[hd]>", re.DOTALL)
_BEST = re.compile(r"\| best: (column|group)\b")
_HIDDEN = re.compile(r"<!--.*?-->|</?strong>", re.DOTALL)
_NUMBER = r"[+-]?(?:\d+(?:,\d{3})*(?:\.\d+)?|\.\d+)"
_FIGURE = re.compile(rf"{_NUMBER}(?: ± {_NUMBER})?")
_CELL_OF_NUMBERS = re.compile(rf"(?:{_FIGURE.pattern}(?: (?:%|s|ms|MiB|GiB|kills))?(?: / |, |$))+")
_COMPARED = ("ref", "paper")  # columns with figures of others
_NOTE = {
    "column": "Bold: the best of the column.",
    "group": "Bold: the best of the column, among rows with the same first cell.",
}


def on_page_content(html: str, **_: Any) -> str:
    """Return a page with its tables formatted."""
    return _TABLE.sub(_formatted, html)


def _formatted(match: re.Match[str]) -> str:
    comment, table = match["comment"] or "", match["table"]
    rows = [[cell["text"] for cell in _CELL.finditer(row)] for row in _ROW.findall(table)]
    best = _BEST.search(comment)
    if best:
        ours = [j for j in range(1, len(rows[0])) if rows[0][j] not in _COMPARED]
        _mark(rows[1:], ours, best[1] == "group")
    numbers = [_is_numbers([row[j] for row in rows[1:]]) for j in range(len(rows[0]))]
    texts = iter(rows)

    def row_of_cells(found: re.Match[str]) -> str:
        cells = enumerate(next(texts))
        return _CELL.sub(lambda cell: _cell(cell["tag"], *next(cells), numbers), found[0])

    note = f'<p class="note">{_NOTE[best[1]]}</p>' if best else ""
    return f'{comment}<div class="table" tabindex="0">{_ROW.sub(row_of_cells, table)}</div>{note}'


def _cell(tag: str, column: int, text: str, numbers: list[bool]) -> str:
    kind = ' class="number"' if numbers[column] else ""
    return f"<{tag}{kind}>{text}</{tag}>"


def _is_numbers(cells: list[str]) -> bool:
    """Return whether the cells of a column are numbers, as far as there are any.

    >>> _is_numbers(["97.4 ± 0.7 / .5", "-", ""]), _is_numbers(["64 bits"]), _is_numbers(["-"])
    (True, False, False)
    """
    texts = [text for cell in cells if (text := _HIDDEN.sub("", cell).strip()) not in ("", "-")]
    return bool(texts) and all(_CELL_OF_NUMBERS.fullmatch(text) for text in texts)


def _mark(rows: list[list[str]], columns: list[int], by_group: bool) -> None:
    """Set the largest figure of columns in bold; each figure of a cell counts separately."""
    groups: dict[str, list[list[str]]] = {}
    for row in rows:
        groups.setdefault(row[0] if by_group else "", []).append(row)
    for group in groups.values():
        for column in columns:
            if not _is_numbers([row[column] for row in group]):
                continue
            figures = [_figures(row[column]) for row in group]
            largest = [max(column) for column in zip(*filter(None, figures), strict=True)]
            for row in group if len(group) > 1 else []:
                tops = iter(largest)
                row[column] = _FIGURE.sub(
                    lambda found, tops=tops: _bold(found[0], next(tops)),  # type: ignore[misc]
                    row[column],
                )


def _figures(cell: str) -> list[float]:
    return [_value(figure) for figure in _FIGURE.findall(cell)]


def _value(figure: str) -> float:
    return float(figure.partition(" ")[0].replace(",", ""))


def _bold(figure: str, largest: float) -> str:
    return f"<strong>{figure}</strong>" if _value(figure) == largest else figure
