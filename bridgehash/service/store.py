"""Items put in or taken out, and their form in the journal."""

from __future__ import annotations

import json
import logging
import struct
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from .._core.errors import JournalError
from .._core.journal import Journal, read_records
from ..codes import n_bytes
from ..index import HammingIndex
from ..index.batch import Ids
from .errors import Refused
from .settings import MOST_ID

_PUT, _TAKE = b"+", b"-"
_HEAD = struct.Struct("<cI")  # kind, number of items
_ID = np.dtype("<i8")


class Put(NamedTuple):
    """Codes to add, in place of those that have their ids."""

    codes: NDArray[np.uint8]
    ids: Ids | None = None  # None: the next free ones
    tags: list[str] | None = None


class Take(NamedTuple):
    """Items to remove."""

    ids: Ids


Change = Put | Take


class Changed(NamedTuple):
    """What a change has done."""

    ids: Ids
    n_new: int = 0
    n_replaced: int = 0
    n_removed: int = 0


def as_record(change: Change) -> bytes:
    """A change as bytes; ids must be known by now."""
    ids = np.ascontiguousarray(change.ids, dtype=_ID)
    if isinstance(change, Take):
        return _HEAD.pack(_TAKE, len(ids)) + ids.tobytes()
    tags = b"" if change.tags is None else json.dumps(change.tags).encode("ascii")
    codes = np.ascontiguousarray(change.codes)
    return _HEAD.pack(_PUT, len(ids)) + ids.tobytes() + codes.tobytes() + tags


def from_record(record: bytes, n_bits: int) -> Change:
    """The change behind a record."""
    kind, n = _HEAD.unpack_from(record)
    ids = np.frombuffer(record, _ID, n, _HEAD.size).astype(np.int64)
    if kind == _TAKE:
        return Take(ids)
    start, width = _HEAD.size + n * _ID.itemsize, n_bytes(n_bits)
    codes = np.frombuffer(record, np.uint8, n * width, start).reshape(n, width)
    tags = record[start + n * width :]
    return Put(codes, ids, json.loads(tags) if tags else None)


def apply(index: HammingIndex, change: Change) -> Changed:
    """Carry out a change in memory."""
    assert change.ids is not None, "ids are given before a change is kept"
    before = len(index)
    if isinstance(change, Take):
        return Changed(change.ids, n_removed=index.remove(change.ids))
    tags = None if change.tags is None else np.array([*change.tags, None], dtype=object)[:-1]
    index.upsert(change.codes, change.ids, tags=tags)
    n_new = len(index) - before
    return Changed(change.ids, n_new, len(change.ids) - n_new)


log = logging.getLogger("bridgehash.service")


class Store:
    """One index on disk. Any thread may read `index`; changes take their turn."""

    def __init__(
        self, path: Path, index: HammingIndex, journal: Journal | None, fold_at: int
    ) -> None:
        self.path, self.index = path, index
        self._journal, self._fold_at = journal, fold_at
        self._writing = Lock()
        self._next_id = _after(index)
        self.version = 0  # counts changes

    @classmethod
    def open(cls, path: Path, *, writable: bool, fold_at: int = 64 << 20) -> Self:
        """The index of a file, with all that its journal has kept besides."""
        index = HammingIndex.load(path, n_jobs=1)
        about = {"journal": 1, "n_bits": index.n_bits, **index.about}
        header = json.dumps(about, sort_keys=True).encode("ascii")
        beside = path.with_name(path.name + ".journal")
        journal = None
        if writable:
            journal, records = Journal.open(beside, header)
        else:
            records = read_records(beside, header) if beside.exists() else []
        for record in records:
            apply(index, from_record(record, index.n_bits))
        store = cls(path, index, journal, fold_at)
        if records and journal is not None:
            log.info("%s: %d changes taken from the journal", path.name, len(records))
            store.fold()
        return store

    @property
    def problem(self) -> str:
        """Why changes cannot be kept; empty while they can."""
        return "" if self._journal is None else self._journal.broken

    @property
    def journal_bytes(self) -> int:
        return 0 if self._journal is None else self._journal.size

    def change(self, changes: Sequence[Change]) -> list[Changed | Exception]:
        """Carry out changes in turn; on disk, all by one fsync, before anyone can see them."""
        with self._writing:
            if self._journal is None:
                return [Refused(403, "this service is read-only") for _ in changes]
            known = [self._numbered(change) for change in changes]
            kept = [change for change in known if not isinstance(change, Exception)]
            try:
                self._journal.append(map(as_record, kept))
            except JournalError as error:
                return [Refused(503, str(error)) for _ in changes]
            self.version += 1
            done: list[Changed | Exception] = [
                change if isinstance(change, Exception) else apply(self.index, change)
                for change in known
            ]
            if self._journal.size > self._fold_at:
                self._fold(self._journal)
            return done

    def fold(self) -> None:
        """Write the index file anew, with all changes in it, and empty the journal."""
        with self._writing:
            if self._journal is not None and not self._journal.is_empty:
                self._fold(self._journal)

    def close(self) -> None:
        """Fold, and let go of the files."""
        self.fold()
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    def _fold(self, journal: Journal) -> None:
        try:
            self.index.save(self.path)
            journal.clear()
        except OSError as error:  # nothing is lost: the journal still has it
            log.warning("%s: not written (%s); the journal is kept", self.path.name, error.strerror)

    def _numbered(self, change: Change) -> Change | Exception:
        """A change whose ids are known."""
        if isinstance(change, Put) and change.ids is None:
            n = len(change.codes)
            if self._next_id + n - 1 > MOST_ID:
                return Refused(422, "ids: the highest possible id is taken; give ids", "ids")
            change = change._replace(ids=np.arange(self._next_id, self._next_id + n))
        if isinstance(change, Put) and change.ids is not None and len(change.ids):
            self._next_id = max(self._next_id, int(change.ids.max()) + 1)
        return change


def _after(index: HammingIndex) -> int:
    n = len(index)
    return int(index.page(n - 1, 1)[0][0]) + 1 if n else 0
