"""Rows that are done, in a file that outlives the process: what makes long work resumable.

The first line says what the rows are of. Every batch is appended as a line (checksum, then JSON)
and its numbers, so it costs the same however many came before. A batch cut short by a kill or a
full disk fails its checksum and is dropped; those before it stay.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from .._core.files import atomic_write
from .folder import Unreadable

_FLOAT = np.dtype("<f4")
_MAX_LINE = 100_000_000  # bytes; a line of another kind of file may have no end


@dataclass
class Journal:
    """Finished batches of images: their rows, and which could not be read."""

    path: Path
    about: Mapping[str, Any]  # JSON; decides whether a file may be continued
    dimension: int
    n_done: int = 0  # images, readable or not
    batches: list[NDArray[np.float32]] = field(default_factory=list)
    unreadable: list[Unreadable] = field(default_factory=list)

    def start(self) -> None:
        """Begin an empty file, whatever was there."""
        with atomic_write(self.path) as temporary:
            temporary.write_bytes(_line(self.about))

    def resume(self) -> None:
        """Take over the finished batches of the file, or begin one where there is none.

        A file about something else is refused; `ValueError` says what differs.
        """
        if not self.path.exists():
            self.start()
            return
        with open(self.path, "r+b") as file:
            self._check_first_line(file.readline(_MAX_LINE))
            end = file.tell()
            while self._read_batch(file):
                end = file.tell()
            file.truncate(end)

    def append(self, rows: NDArray[np.float32], unreadable: Sequence[Unreadable]) -> None:
        """Keep one more batch, on disk before this returns."""
        entry = _line({"rows": len(rows), "unreadable": unreadable})
        data = np.ascontiguousarray(rows, dtype=_FLOAT).tobytes()
        with open(self.path, "ab") as file:
            file.write(b"%08x " % zlib.crc32(data, zlib.crc32(entry)) + entry + data)
            file.flush()
            os.fsync(file.fileno())
        self._take(rows, unreadable)

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)

    def _take(self, rows: NDArray[np.float32], unreadable: Sequence[Unreadable]) -> None:
        self.batches.append(rows)
        self.unreadable += unreadable
        self.n_done += len(rows) + len(unreadable)

    def _read_batch(self, file: IO[bytes]) -> bool:
        """Take the next batch, if it is whole."""
        checksum, _, entry = file.readline(_MAX_LINE).partition(b" ")
        try:
            record = json.loads(entry)
            data = file.read(record["rows"] * self.dimension * _FLOAT.itemsize)
            whole = int(checksum, 16) == zlib.crc32(data, zlib.crc32(entry))
        except (ValueError, TypeError, KeyError):  # the line itself is cut
            return False
        if whole:
            rows = np.frombuffer(data, dtype=_FLOAT).reshape(record["rows"], self.dimension)
            self._take(rows, [Unreadable(*pair) for pair in record["unreadable"]])
        return whole

    def _check_first_line(self, line: bytes) -> None:
        try:
            found = json.loads(line)
            kept = {key: found.get(key) for key in self.about}
        except (ValueError, AttributeError) as error:
            raise ValueError(f"{self.path}: is no unfinished extraction") from error
        for key, now in self.about.items():
            if kept[key] != now:
                raise ValueError(
                    f"{self.path}: is an unfinished extraction with other {key}: "
                    f"{kept[key]} then, {now} now"
                )


def _line(record: Mapping[str, Any]) -> bytes:
    return json.dumps(record).encode("ascii") + b"\n"
