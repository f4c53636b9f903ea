"""Benchmark results on disk: one JSON record per line, appended and never changed.

A record is on disk before the next fit starts. A torn last line is ignored by readers and removed
by the next writer (see `bridgehash._core.journal`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from .._core.errors import InputError
from .._core.files import StrPath
from .._core.journal import LineFile, read_lines

Record = dict[str, Any]


def record_key(identity: Mapping[str, Any]) -> str:
    """Return a short key for the settings of a fit; their order does not matter.

    >>> record_key({"a": 1, "b": 2}) == record_key({"b": 2, "a": 1})
    True
    """
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class ResultStore:
    """The records in a file; a later record replaces an earlier one with the same key."""

    def __init__(self, path: StrPath) -> None:
        self.path = Path(path)

    def records(self) -> dict[str, Record]:
        """Return all records by key, in the order in which the keys were first written."""
        records: dict[str, Record] = {}
        lines = read_lines(self.path) if self.path.exists() else []
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
                records[record["key"]] = record
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                raise InputError(
                    f"line {number} is not a record ({error}); fix or delete the line, or move "
                    "the file away",
                    str(self.path),
                ) from error
        return records

    @contextmanager
    def writer(self) -> Iterator[Callable[[Record], None]]:
        """Yield a function that appends a record; one process at a time may write."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with closing(LineFile(self.path)) as file:
            yield lambda record: file.append(
                json.dumps(record, ensure_ascii=False, allow_nan=False)
            )
