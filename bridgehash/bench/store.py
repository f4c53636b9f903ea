"""Results on disk: one JSON record a line, only ever appended.

A record is on the disk before the next run starts. What a kill or a full disk leaves of a last line
is passed over when reading and cut off before writing on, so finished records are never lost.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from .._core.files import StrPath

Record = dict[str, Any]


class StoreError(ValueError):
    """A store that cannot be used as it is."""


def record_key(identity: Mapping[str, Any]) -> str:
    """A short name for what was run: equal for equal settings, whatever their order.

    >>> record_key({"a": 1, "b": 2}) == record_key({"b": 2, "a": 1})
    True
    """
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class Store:
    """The records in a file; a later record replaces an earlier one of the same key."""

    def __init__(self, path: StrPath) -> None:
        self.path = Path(path)

    def records(self) -> dict[str, Record]:
        """All finished records by key, in the order of their first writing."""
        found: dict[str, Record] = {}
        for number, line in self._lines():
            try:
                record = json.loads(line)
                found[record["key"]] = record
            except (ValueError, KeyError, TypeError) as error:
                raise StoreError(
                    f"{self.path}: line {number} is not a record ({error}); "
                    "move the file away, or mend or delete that line"
                ) from error
        return found

    def _lines(self) -> Iterator[tuple[int, str]]:
        """Whole lines and their numbers; an unfinished last one is left out."""
        if not self.path.exists():
            return
        with self.path.open(encoding="utf-8", errors="replace") as file:
            for number, line in enumerate(file, 1):
                if line.endswith("\n") and line.strip():
                    yield number, line

    @contextmanager
    def writer(self) -> Iterator[Writer]:
        """Append records; only one process may do so at a time."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a+b") as file:
            _lock(file, self.path)
            _cut_unfinished(file)
            yield Writer(file)


class Writer:
    """Appends records, each whole or not at all."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def append(self, record: Record) -> None:
        """Write a record and wait until the disk has it."""
        line = json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n"
        end = self._file.seek(0, os.SEEK_END)
        try:
            self._file.write(line.encode())
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError:
            self._file.truncate(end)
            raise


def _lock(file: IO[bytes], path: Path) -> None:
    try:
        import fcntl
    except ImportError:  # no such locks on Windows
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise StoreError(f"{path}: another run is writing to it; wait for it to end") from error


def _cut_unfinished(file: IO[bytes]) -> None:
    """Drop what follows the last line end."""
    size = file.seek(0, os.SEEK_END)
    block, position = 1 << 16, size
    while position > 0:
        start = max(0, position - block)
        file.seek(start)
        newline = file.read(position - start).rfind(b"\n")
        if newline >= 0:
            file.truncate(start + newline + 1)
            return
        position = start
    file.truncate(0)
