"""An index on disk: changes are written to its journal before anyone can see them."""

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
from .errors import RequestError
from .settings import MAX_ID

_UPSERT, _REMOVE = b"+", b"-"
_HEAD = struct.Struct("<cI")  # kind, number of items
_ID = np.dtype("<i8")

log = logging.getLogger("bridgehash.service")


class Add(NamedTuple):
    """Codes to add. An id that exists is an error."""

    codes: NDArray[np.uint8]
    ids: Ids | None = None  # None: the next free ones
    tags: list[str] | None = None


class Upsert(NamedTuple):
    """Codes to insert, or to replace those with the same ids."""

    codes: NDArray[np.uint8]
    ids: Ids
    tags: list[str] | None = None


class Remove(NamedTuple):
    """Items to remove; unknown ids are ignored."""

    ids: Ids


class ChangeResult(NamedTuple):
    """Ids of a change, and the number of items it affected."""

    ids: Ids
    n_added: int = 0
    n_replaced: int = 0
    n_removed: int = 0


class IndexStore:
    """One index on disk. Reading `index` is thread-safe; changes are made one after another."""

    def __init__(
        self, path: Path, index: HammingIndex, journal: Journal | None, max_journal_bytes: int
    ) -> None:
        self.path, self.index = path, index
        self._journal, self._max_journal_bytes = journal, max_journal_bytes
        self._lock = Lock()
        n = len(index)
        self._next_id = int(index.page(n - 1, 1)[0][0]) + 1 if n else 0
        self.version = 0  # number of changes so far

    @classmethod
    def open(cls, path: Path, *, writable: bool, max_journal_bytes: int = 64 << 20) -> Self:
        """Load an index file and replay its journal."""
        index = HammingIndex.load(path, n_jobs=1)
        about = {"journal": 1, "n_bits": index.n_bits, **index.about}
        header = json.dumps(about, sort_keys=True).encode("ascii")
        journal_path = path.with_name(path.name + ".journal")
        journal: Journal | None = None
        records: list[bytes] = []
        if writable:
            journal, records = Journal.open(journal_path, header)
        elif journal_path.exists():
            records = read_records(journal_path, header)
        for record in records:
            _apply(index, from_record(record, index.n_bits))
        store = cls(path, index, journal, max_journal_bytes)
        if records and journal is not None:
            log.info("%s: replayed %d changes from the journal", path.name, len(records))
            store._merge(journal)
        return store

    @property
    def problem(self) -> str:
        """Why changes cannot be written; empty if they can."""
        return "" if self._journal is None else self._journal.broken

    @property
    def journal_bytes(self) -> int:
        """Size of the journal."""
        return 0 if self._journal is None else self._journal.size

    def change(self, changes: Sequence[Add | Upsert | Remove]) -> list[ChangeResult | RequestError]:
        """Make changes in order. One fsync writes them all before any becomes visible."""
        with self._lock:
            if self._journal is None:
                return [RequestError(403, "this service is read-only") for _ in changes]
            resolved = self._resolve(changes)
            valid = [change for change in resolved if not isinstance(change, RequestError)]
            try:
                self._journal.append(map(as_record, valid))
            except JournalError as error:
                return [RequestError(503, str(error)) for _ in changes]
            self.version += 1
            results: list[ChangeResult | RequestError] = [
                change if isinstance(change, RequestError) else _apply(self.index, change)
                for change in resolved
            ]
            if self._journal.size > self._max_journal_bytes:
                self._merge(self._journal)
            return results

    def close(self) -> None:
        """Merge the journal into the index file and release both."""
        with self._lock:
            if self._journal is not None:
                if not self._journal.is_empty:
                    self._merge(self._journal)
                self._journal.close()
                self._journal = None

    def _merge(self, journal: Journal) -> None:
        """Rewrite the index file with all changes, then clear the journal."""
        try:
            self.index.save(self.path)
            journal.clear()
        except OSError as error:  # nothing is lost: the journal still has the changes
            log.warning("%s: not written (%s); the journal is kept", self.path.name, error.strerror)

    def _resolve(
        self, changes: Sequence[Add | Upsert | Remove]
    ) -> list[Upsert | Remove | RequestError]:
        """Give each `Add` its ids and make it an `Upsert`, or an error if an id exists by then."""
        resolved: list[Upsert | Remove | RequestError] = []
        changed: dict[int, bool] = {}  # whether an id exists after the changes before
        stored: Ids | None = None
        next_id = self._next_id
        for change in changes:
            if isinstance(change, Add):
                ids = change.ids
                if ids is None:
                    ids = np.arange(next_id, next_id + len(change.codes))
                    if ids[-1] > MAX_ID:
                        problem = "no free id above the highest one; send ids"
                        resolved.append(RequestError(422, problem, "ids"))
                        continue
                else:
                    stored = self.index.ids if stored is None else stored
                    exists = np.searchsorted(stored, ids, "right") > np.searchsorted(stored, ids)
                    pairs = zip(ids.tolist(), exists.tolist(), strict=True)
                    taken = [item for item, there in pairs if changed.get(item, there)]
                    if taken:
                        problem = f"item {taken[0]} exists; replace it with PUT"
                        resolved.append(RequestError(409, problem, "ids"))
                        continue
                change = Upsert(change.codes, ids, change.tags)
            resolved.append(change)
            inserts = isinstance(change, Upsert)
            changed.update(dict.fromkeys(change.ids.tolist(), inserts))
            if inserts:
                next_id = max(next_id, int(change.ids.max()) + 1)
        self._next_id = next_id
        return resolved


def as_record(change: Upsert | Remove) -> bytes:
    """Return a change as bytes."""
    ids = np.ascontiguousarray(change.ids, dtype=_ID)
    if isinstance(change, Remove):
        return _HEAD.pack(_REMOVE, len(ids)) + ids.tobytes()
    tags = b"" if change.tags is None else json.dumps(change.tags).encode("ascii")
    codes = np.ascontiguousarray(change.codes)
    return _HEAD.pack(_UPSERT, len(ids)) + ids.tobytes() + codes.tobytes() + tags


def from_record(record: bytes, n_bits: int) -> Upsert | Remove:
    """Return the change that `as_record` wrote."""
    kind, n = _HEAD.unpack_from(record)
    ids = np.frombuffer(record, _ID, n, _HEAD.size).astype(np.int64)
    if kind == _REMOVE:
        return Remove(ids)
    start, width = _HEAD.size + n * _ID.itemsize, n_bytes(n_bits)
    codes = np.frombuffer(record, np.uint8, n * width, start).reshape(n, width)
    tags = record[start + n * width :]
    return Upsert(codes, ids, json.loads(tags) if tags else None)


def _apply(index: HammingIndex, change: Upsert | Remove) -> ChangeResult:
    if isinstance(change, Remove):
        return ChangeResult(change.ids, n_removed=index.remove(change.ids))
    before = len(index)
    tags = None if change.tags is None else np.array([*change.tags, None], dtype=object)[:-1]
    index.upsert(change.codes, change.ids, tags=tags)
    n_added = len(index) - before
    return ChangeResult(change.ids, n_added, len(change.ids) - n_added)
