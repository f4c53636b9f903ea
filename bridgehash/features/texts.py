"""Texts in a file: .txt (one per line), .csv:COLUMN or .jsonl:COLUMN, in UTF-8.

A text that is empty, or no text at all (a number, null), is not an error of the file: it stays in
the list as `None`, and is reported like an image that cannot be read.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

from .._core.errors import InputError, named

SUFFIXES = (".txt", ".csv", ".jsonl")
HOW = "a file of texts (.txt, .csv:COLUMN or .jsonl:COLUMN)"
_LONGEST_CELL = 2**31 - 1  # characters of a .csv file


class Texts(NamedTuple):
    """The rows of a file of texts."""

    ids: list[str]
    texts: list[str | None]  # None: empty, or not a text
    labels: list[str]  # empty text: no label


def split_source(source: str) -> tuple[Path, str]:
    """Split `texts.csv:column` into the file and the column; folders have no column.

    >>> split_source("a:b/texts.csv:title")[1], split_source("texts.txt")[1]
    ('title', '')
    """
    path, colon, column = source.rpartition(":")
    if colon and not Path(source).exists() and path.lower().endswith(SUFFIXES):
        return Path(path), column
    return Path(source), ""


def read_texts(path: Path, column: str, labels_column: str = "", ids_column: str = "") -> Texts:
    """Read the texts of one column, with labels and ids from other columns if they are given.

    Without a column of ids, the id of a row is its number: 0 for the first.
    """
    plain = path.suffix.lower() == ".txt"
    columns = [name for name in (column, labels_column, ids_column) if name]
    if plain and columns:
        raise InputError(f"a .txt file has no column {columns[0]!r}; omit it", str(path))
    if not plain and not column:
        raise InputError(f"which column holds the texts? Give it as {path.name}:COLUMN", str(path))
    with named(path, f"give {HOW} in UTF-8"), _utf8(path) as file:
        rows = list(_ROWS[path.suffix.lower()](file))
        if not rows:
            raise InputError("has no rows; give at least one text")
        for name in columns:
            if not any(name in row for row in rows):
                known = ", ".join(key for key in rows[0] if key)  # more cells than names: None
                raise InputError(f"has no column {name!r}; its columns are {known}")
        texts = [_text(row.get(column)) for row in rows]
        labels, ids = [""] * len(rows), [str(i) for i in range(len(rows))]
        if labels_column:
            labels = [_as_text(row.get(labels_column)) for row in rows]
        if ids_column:
            ids = [_as_text(row.get(ids_column)) for row in rows]
            _check_ids(ids, ids_column)
    return Texts(ids, texts, labels)


@contextmanager
def _utf8(path: Path) -> Iterator[IO[str]]:
    try:
        newline = None if path.suffix.lower() == ".txt" else ""
        with open(path, encoding="utf-8-sig", newline=newline) as file:
            yield file
    except UnicodeDecodeError as error:
        raise InputError(f"is not UTF-8 ({error.reason}); convert it to UTF-8") from error


def _lines(file: IO[str]) -> Iterator[Mapping[str, Any]]:
    for line in file:
        yield {"": line.rstrip("\n")}


def _cells(file: IO[str]) -> Iterator[Mapping[str, Any]]:
    before = csv.field_size_limit(_LONGEST_CELL)
    try:
        yield from csv.DictReader(file, strict=True)
    finally:
        csv.field_size_limit(before)


def _objects(file: IO[str]) -> Iterator[Mapping[str, Any]]:
    for number, line in enumerate(file, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(f"line {number} is not JSON ({error}); correct it") from error
        if not isinstance(row, dict):
            raise InputError(f"line {number} is not a JSON object; write {{column: text}}")
        yield row


_ROWS = {".txt": _lines, ".csv": _cells, ".jsonl": _objects}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value.strip() else None


def _as_text(value: Any) -> str:
    return "" if value is None else str(value)


def _check_ids(ids: list[str], column: str) -> None:
    seen: set[str] = set()
    for number, name in enumerate(ids):
        if not name or name in seen:
            problem = f"the id {name!r} again" if name else "no id"
            raise InputError(f"row {number} has {problem} in column {column!r}; make ids unique")
        seen.add(name)
