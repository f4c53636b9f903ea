"""Records appended to a file, on disk before `append` returns: the one journal of the package.

The service stores changes of an index, `extract` its finished batches, `bench` its results. One
process at a time may write. A kill or a full disk leaves at most a torn record at the end; readers
skip it and the next writer cuts it off, so an acknowledged record is never lost.

Records are `FRAMES` (a length, a checksum, then any bytes) or `LINES` (text that people can read).
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple, Self

from .errors import InputError, JournalError
from .files import fsync_directory

try:
    import fcntl
except ImportError:  # Windows: two writers are not detected
    fcntl = None  # type: ignore[assignment]

_FRAME = struct.Struct("<II")  # length, CRC-32


class RecordFormat(NamedTuple):
    """How records are written one after another."""

    join: Callable[[Iterable[bytes]], bytes]
    split: Callable[[bytes], tuple[list[bytes], int]]  # whole records, and where they end


def _join_frames(records: Iterable[bytes]) -> bytes:
    return b"".join(_FRAME.pack(len(r), zlib.crc32(r)) + r for r in records)


def _split_frames(data: bytes) -> tuple[list[bytes], int]:
    records, end = [], 0
    while end + _FRAME.size <= len(data):
        length, checksum = _FRAME.unpack_from(data, end)
        record = data[end + _FRAME.size : end + _FRAME.size + length]
        if not length or len(record) < length or zlib.crc32(record) != checksum:
            break
        records.append(record)
        end += _FRAME.size + length
    return records, end


def _split_lines(data: bytes) -> tuple[list[bytes], int]:
    *lines, _ = data.split(b"\n")
    return lines, data.rfind(b"\n") + 1


FRAMES = RecordFormat(_join_frames, _split_frames)
LINES = RecordFormat(lambda records: b"".join(r + b"\n" for r in records), _split_lines)


class Journal:
    """Records in a file that one process at a time may write; made by `open`."""

    def __init__(
        self, path: Path, descriptor: int, start: int, size: int, format: RecordFormat
    ) -> None:
        self.path = path
        self.size = size  # bytes, all of them on disk
        self.broken = ""  # why nothing can be written any more; empty if all is well
        self._start = start  # where the first record after the header begins
        self._descriptor = descriptor
        self._format = format

    @classmethod
    def open(
        cls, path: Path, header: bytes = b"", format: RecordFormat = FRAMES
    ) -> tuple[Self, list[bytes]]:
        """Open a journal for writing; also return the records in it.

        Parameters
        ----------
        path : Path
            Created if it does not exist.
        header : bytes, optional
            Identifies what the records belong to. A journal with another header is refused.
        format : RecordFormat, default=FRAMES
        """
        head = format.join([header]) if header else b""
        descriptor = _open_locked(path)
        try:
            data = path.read_bytes()
            records, end = format.split(data)
            if header and not head.startswith(data):  # neither new nor cut inside the header
                _check_header(path, records[0] if records else b"", header)
            os.ftruncate(descriptor, end)  # else the next record could complete a torn one
            if head and not records:
                _write_at(descriptor, 0, head)
                fsync_directory(path.parent)
                end = len(head)
            elif header:
                records = records[1:]
            return cls(path, descriptor, len(head), end, format), records
        except BaseException:
            os.close(descriptor)
            raise

    @property
    def is_empty(self) -> bool:
        """Whether there are no records."""
        return self.size == self._start

    def append(self, records: Iterable[bytes]) -> None:
        """Write records, all of them or none, and wait for the disk."""
        if self.broken:
            raise JournalError(self.broken)
        data = self._format.join(records)
        try:
            _write_at(self._descriptor, self.size, data)
        except OSError as error:
            reason = f"{self.path.name}: cannot be written ({error.strerror})"
            try:
                os.ftruncate(self._descriptor, self.size)
                os.fsync(self._descriptor)
            except OSError:
                self.broken = f"{reason} and could not be repaired; restart to recover"
            raise JournalError(f"{reason}; nothing was changed") from error
        self.size += len(data)

    def clear(self) -> None:
        """Delete all records."""
        os.ftruncate(self._descriptor, self._start)
        os.fsync(self._descriptor)
        self.size = self._start

    def close(self) -> None:
        """Release the file; delete it if there are no records."""
        if self.is_empty and not self.broken:
            self.path.unlink(missing_ok=True)
        os.close(self._descriptor)


def read_records(path: Path, header: bytes = b"", format: RecordFormat = FRAMES) -> list[bytes]:
    """Return the records of a journal without opening it for writing."""
    records, _ = format.split(path.read_bytes())
    if header and records:
        _check_header(path, records[0], header)
        return records[1:]
    return records


def _check_header(path: Path, found: bytes, header: bytes) -> None:
    if found != header:
        raise InputError("belongs to something else; move the file away to start anew", str(path))


def _write_at(descriptor: int, offset: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        n = os.pwrite(descriptor, left, offset)
        left, offset = left[n:], offset + n
    os.fsync(descriptor)


def _open_locked(path: Path) -> int:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o666)
    except OSError as error:
        raise InputError(
            f"cannot be written ({error.strerror}); check permissions", str(path)
        ) from error
    try:
        if fcntl is not None:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(descriptor).st_ino != os.stat(path).st_ino:
                raise BlockingIOError  # the other process has just removed it
    except OSError as error:
        os.close(descriptor)
        raise InputError("in use by another process; stop it first", str(path)) from error
    return descriptor
