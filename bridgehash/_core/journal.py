"""Records appended to a file, on disk before `append` returns.

The index store writes changes, `extract` finished batches (both as a `Journal`), and `bench` lines
of text (a `LineFile`). One process at a time may write.

A journal begins with the number of the last acknowledged record. After it come frames: a mark,
length, owner, number and two checksums, then the record. The first frame (number 0) is the header;
the owner of a record is a digest of that header, so that a record is never taken for one of another
file. Damage is therefore found, and limited to the records it hits: readers continue at the next
mark. A kill or a full disk leaves at most a torn end. It was never acknowledged, so it is dropped
silently; an acknowledged record that cannot be read is reported as missing.
"""

from __future__ import annotations

import hashlib
import os
import struct
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Self

from .errors import InputError, JournalError, named
from .files import atomic_write
from .locks import IN_USE, open_locked

_MARK = b"\xb5bhJ"
_SLOT = struct.Struct("<4sQI")  # mark, number of the last acknowledged record, CRC-32 of both
_FRAME = struct.Struct("<4sIQQII")  # mark, length, owner, number, CRC-32 of record, of all before
_PROBE = bytes(4096)


class Frame(NamedTuple):
    """One record and its place in a journal."""

    end: int
    owner: int
    number: int
    record: bytes


class JournalContent(NamedTuple):
    """What a journal holds."""

    header: bytes  # empty if it cannot be read
    frames: list[Frame]  # intact, without the header
    end: int  # of the last intact frame
    acknowledged: int  # number of the last acknowledged record, as far as is known
    is_journal: bool  # False: nothing in the file can be read as part of a journal

    def records(self, header: bytes) -> list[bytes]:
        """Return the records that belong to a header, in order."""
        owner = _owner(header)
        return [frame.record for frame in self.frames if frame.owner == owner]

    def missing(self, header: bytes) -> list[int]:
        """Return the numbers of acknowledged records of this header that cannot be read."""
        if not self.belongs_to(header):
            return []
        owner = _owner(header)
        numbers = {frame.number for frame in self.frames if frame.owner == owner}
        last = max(self.acknowledged, *numbers, 0)
        return [number for number in range(1, last + 1) if number not in numbers]

    def belongs_to(self, header: bytes) -> bool:
        """Return whether this is the journal of a header, or an empty one."""
        owners = {frame.owner for frame in self.frames}
        if self.header == header or _owner(header) in owners:
            return True
        return self.is_journal and not self.header and not owners


def read_journal(path: Path) -> JournalContent:
    """Read a journal without opening it for writing; an absent file is an empty journal."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return JournalContent(b"", [], 0, 0, True)
    frames = list(_frames(data))
    header = next((frame.record for frame in frames if frame.number == 0), b"")
    end = frames[-1].end if frames else 0
    acknowledged = _acknowledged(data)
    is_journal = bool(frames) or acknowledged is not None
    if acknowledged is None:  # damaged: a bad end may have been acknowledged, too
        last = max((frame.number for frame in frames), default=0)
        acknowledged = last + (end < len(data)) if frames else 0
    records = [frame for frame in frames if frame.number]
    return JournalContent(header, records, end, acknowledged, is_journal)


def _acknowledged(data: bytes) -> int | None:
    if len(data) < _SLOT.size:
        return None
    mark, number, checksum = _SLOT.unpack_from(data)
    intact = mark == _MARK and zlib.crc32(data[: _SLOT.size - 4]) == checksum
    return number if intact else None


def _slot(number: int) -> bytes:
    data = _SLOT.pack(_MARK, number, 0)[:-4]
    return data + struct.pack("<I", zlib.crc32(data))


def _frame(owner: int, number: int, record: bytes) -> bytes:
    data = _FRAME.pack(_MARK, len(record), owner, number, zlib.crc32(record), 0)[:-4]
    return data + struct.pack("<I", zlib.crc32(data)) + record


def _frames(data: bytes) -> Iterator[Frame]:
    """Yield all intact frames; after damage, continue at the next mark."""
    at = min(_SLOT.size, len(data))
    while 0 <= at <= len(data) - _FRAME.size:
        mark, length, owner, number, of_record, of_head = _FRAME.unpack_from(data, at)
        start = at + _FRAME.size
        if mark == _MARK and zlib.crc32(data[at : start - 4]) == of_head:
            record, at = data[start : start + length], start + length
            if len(record) == length and zlib.crc32(record) == of_record:
                yield Frame(at, owner, number, record)
        else:
            at = data.find(_MARK, at + 1)


def _owner(header: bytes) -> int:
    return int.from_bytes(hashlib.sha256(header).digest()[:8], "little")


class AppendedFile:
    """A locked file to which whole pieces are appended; each is on disk before `_append` returns.

    Attributes
    ----------
    size : int
        Bytes, all of them on disk.
    broken : str
        Why nothing can be written any more; empty if all is well.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = 0
        self.broken = ""
        with named(path, "check permissions", writing=True):
            self._descriptor = open_locked(path)
        if self._descriptor < 0:
            raise InputError(IN_USE, str(path))

    def _append(self, data: bytes) -> None:
        """Write data at the end, all of it or nothing, and wait for the disk."""
        if self.broken:
            raise JournalError(self.broken)
        try:
            self._write(self.size, data)
        except OSError as error:
            reason = f"{self.path.name}: cannot be written ({error.strerror})"
            try:
                self._cut(self.size)
            except OSError:
                self.broken = f"{reason} and could not be repaired; restart to recover"
            raise JournalError(
                f"{reason}; nothing was changed. Free some space or check the disk"
            ) from error
        self.size += len(data)

    def probe(self) -> str:
        """Return why nothing can be written now; empty if something can."""
        with suppress(JournalError):
            self._append(_PROBE)
            self.size -= len(_PROBE)
            try:
                self._cut(self.size)
                return ""
            except OSError as error:
                self.broken = f"{self.path.name}: cannot be written ({error.strerror}); restart"
        return self.broken or f"{self.path.name}: cannot be written; free some space on the disk"

    def is_there(self) -> bool:
        """Return whether the file is still at its path, not moved or deleted."""
        try:
            return os.path.samestat(os.fstat(self._descriptor), os.stat(self.path))
        except FileNotFoundError:
            return False

    def close(self) -> None:
        """Release the file."""
        os.close(self._descriptor)

    def _write(self, offset: int, data: bytes) -> None:
        left = memoryview(data)
        while left:
            n = os.pwrite(self._descriptor, left, offset)
            left, offset = left[n:], offset + n
        os.fsync(self._descriptor)

    def _cut(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)
        os.fsync(self._descriptor)


class Journal(AppendedFile):
    """Records in a file that one process at a time may write; call `resume` or `restart` first.

    Parameters
    ----------
    path : Path
    header : bytes
        Of the file that is created if there is none.

    Attributes
    ----------
    content : JournalContent
        What the file held when it was opened.
    """

    def __init__(self, path: Path, header: bytes) -> None:
        if path.parent.is_dir() and not path.exists():
            _create(path, header)
        super().__init__(path)
        self.content = read_journal(path)
        self._owner = 0
        self._n_records = -1

    @classmethod
    def open(cls, path: Path, header: bytes) -> Self:
        """Open a journal, or create it. One of something else than the header is refused."""
        journal = cls(path, header)
        try:
            if not journal.content.belongs_to(header):
                raise InputError("belongs to something else; move the file away", str(path))
            journal.resume(header)
        except BaseException:
            journal.close()
            raise
        return journal

    def resume(self, header: bytes) -> None:
        """Keep the records, which belong to this header; a torn end is cut off."""
        owner, content = _owner(header), self.content
        if content.end == 0:  # not even the header is left
            self.restart(header)
            return
        numbers = [frame.number for frame in content.frames if frame.owner == owner]
        self._owner, self._n_records = owner, max(content.acknowledged, *numbers, 0)
        self.size = content.end
        os.ftruncate(self._descriptor, self.size)  # else a torn record could become complete

    def restart(self, header: bytes) -> None:
        """Delete all records; the next ones belong to this header.

        The new start is written before the old records are cut off: the file is never without one.
        """
        start = _start(header)
        try:
            self._write(0, start)
            self._cut(len(start))
        except OSError as error:
            self.broken = f"{self.path.name}: cannot be written ({error.strerror}); restart"
            raise
        self.size = len(start)
        self._owner, self._n_records = _owner(header), 0

    @property
    def is_empty(self) -> bool:
        """Whether there are no records."""
        return self._n_records == 0

    def append(self, records: Iterable[bytes]) -> None:
        """Write records, all of them or none, and wait for the disk."""
        numbered = list(enumerate(records, self._n_records + 1))
        self._append(b"".join(_frame(self._owner, number, record) for number, record in numbered))
        self._n_records += len(numbered)
        with suppress(OSError):  # not waited for: it only helps to notice lost records
            os.pwrite(self._descriptor, _slot(self._n_records), 0)

    def close(self) -> None:
        """Release the file; delete it if there are no records."""
        if self.is_empty and not self.broken and self.is_there():
            self.path.unlink()
        super().close()


def _start(header: bytes) -> bytes:
    return _slot(0) + _frame(_owner(header), 0, header)


def _create(path: Path, header: bytes) -> None:
    """Create a journal with its header at once, so that a shorter file is a damaged one."""

    def place(temporary: Path) -> None:
        try:
            os.link(temporary, path)  # unlike a rename it never replaces a file
        except FileExistsError:
            pass  # created by another process just now
        except OSError:  # a file system without links
            os.replace(temporary, path)

    with named(path, "check permissions", writing=True), atomic_write(path, place) as temporary:
        temporary.write_bytes(_start(header))


class LineFile(AppendedFile):
    """Lines of text in a file that one process at a time may write; a torn last line is cut off."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.size = path.read_bytes().rfind(b"\n") + 1
        os.ftruncate(self._descriptor, self.size)

    def append(self, line: str) -> None:
        """Write a line and wait for the disk."""
        self._append(line.encode() + b"\n")


def read_lines(path: Path) -> list[bytes]:
    """Return all complete lines of a file."""
    return path.read_bytes().split(b"\n")[:-1]
