"""Changes on disk before they are acknowledged: records behind a length and a checksum.

A record is there when `append` has returned, whatever happens to the process or to the machine.
A kill in the middle of a write leaves a torn end, which the next opening drops: nobody was told
that it is there. The first record says what the others belong to. Replaying records that the index
holds already changes nothing, so a kill between folding and emptying does no harm.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from .._files import fsync_directory

try:
    import fcntl
except ImportError:  # Windows: two services on one index are not noticed
    fcntl = None  # type: ignore[assignment]

_FRAME = struct.Struct("<II")  # length, CRC-32


class JournalError(RuntimeError):
    """A change that could not be kept; nothing of it was."""


class Journal:
    """Records in a file that one process at a time may open."""

    def __init__(self, path: Path, descriptor: int, start: int, size: int) -> None:
        self.path = path
        self.size = size  # bytes, all of them on disk
        self._start = start  # where the first record after the head begins
        self._descriptor = descriptor
        self._broken = ""

    @classmethod
    def open(cls, path: Path, about: Mapping[str, Any]) -> tuple[Self, list[bytes]]:
        """A journal for these codes, and the records in it."""
        descriptor = _locked(path)
        try:
            records, end = _whole(path.read_bytes())
            os.ftruncate(descriptor, end)  # else what comes next could make a torn end whole again
            if not records:
                head = framed([_json(about)])
                _write_at(descriptor, 0, head)
                fsync_directory(path.parent)
                return cls(path, descriptor, len(head), len(head)), []
            _check_head(path, records[0], about)
            return cls(path, descriptor, len(framed(records[:1])), end), records[1:]
        except BaseException:
            os.close(descriptor)
            raise

    @property
    def broken(self) -> str:
        """Why nothing can be kept any more; empty while all is well."""
        return self._broken

    @property
    def is_empty(self) -> bool:
        return self.size == self._start

    def append(self, records: Iterable[bytes]) -> None:
        """Keep records, on disk before this returns: all of them, or none."""
        if self._broken:
            raise JournalError(self._broken)
        data = framed(records)
        try:
            _write_at(self._descriptor, self.size, data)
        except OSError as error:
            reason = f"{self.path.name}: cannot be written ({error.strerror})"
            self._take_back(reason)
            raise JournalError(f"{reason}; nothing was changed") from error
        self.size += len(data)

    def empty(self) -> None:
        """Forget all records: they are in the index file now."""
        os.ftruncate(self._descriptor, self._start)
        os.fsync(self._descriptor)
        self.size = self._start

    def close(self) -> None:
        """Let go of the file; one without records is removed."""
        if self.is_empty and not self._broken:
            self.path.unlink(missing_ok=True)
        os.close(self._descriptor)

    def _take_back(self, reason: str) -> None:
        """Cut off what was half written; where even that fails, nothing more is promised."""
        try:
            os.ftruncate(self._descriptor, self.size)
            os.fsync(self._descriptor)
        except OSError:
            self._broken = f"{reason} and was not repaired; restart the service"


def read_records(path: Path, about: Mapping[str, Any]) -> list[bytes]:
    """The records of a journal that is left as it is."""
    records, _ = _whole(path.read_bytes())
    if records:
        _check_head(path, records[0], about)
    return records[1:]


def framed(records: Iterable[bytes]) -> bytes:
    """Records as they stand in the file."""
    return b"".join(_FRAME.pack(len(r), zlib.crc32(r)) + r for r in records)


def _whole(data: bytes) -> tuple[list[bytes], int]:
    """All records up to the first that is not whole, and where they end."""
    records, end = [], 0
    for record in _records(data):
        records.append(record)
        end += _FRAME.size + len(record)
    return records, end


def _records(data: bytes) -> Iterator[bytes]:
    at = 0
    while at + _FRAME.size <= len(data):
        length, checksum = _FRAME.unpack_from(data, at)
        record = data[at + _FRAME.size : at + _FRAME.size + length]
        if not length or len(record) < length or zlib.crc32(record) != checksum:
            return
        yield record
        at += _FRAME.size + length


def _check_head(path: Path, head: bytes, about: Mapping[str, Any]) -> None:
    if head != _json(about):
        raise ValueError(
            f"{path}: holds changes of another index; put that index back, or move this file away "
            "to do without them"
        )


def _json(about: Mapping[str, Any]) -> bytes:
    return json.dumps(dict(about), sort_keys=True).encode("ascii")


def _write_at(descriptor: int, offset: int, data: bytes) -> None:
    """Write, and wait for the disk."""
    left = memoryview(data)
    while left:
        n = os.pwrite(descriptor, left, offset)
        left, offset = left[n:], offset + n
    os.fsync(descriptor)


def _locked(path: Path) -> int:
    """The open file, which is this process's alone."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o666)
    except OSError as error:
        raise ValueError(
            f"{path}: cannot be written ({error.strerror}); the folder of an index must allow it "
            "where items are added"
        ) from error
    try:
        if fcntl is not None:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(descriptor).st_ino != os.stat(path).st_ino:
                raise BlockingIOError  # the other process has removed it just now
    except OSError as error:
        os.close(descriptor)
        raise ValueError(f"{path}: another service has this index open; stop it first") from error
    return descriptor
