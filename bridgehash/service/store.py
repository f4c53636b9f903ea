"""An index with its file and its journal: changes that last, folded into the file when large."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import Any, Self

import numpy as np

from ..index import HammingIndex
from .changes import Change, Changed, Put, apply, as_record, from_record
from .errors import Refused
from .journal import Journal, JournalError, read_records
from .settings import MOST_ID

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
        about: dict[str, Any] = {"journal": 1, "n_bits": index.n_bits, **index.about}
        beside = path.with_name(path.name + ".journal")
        journal = None
        if writable:
            journal, records = Journal.open(beside, about)
        else:
            records = read_records(beside, about) if beside.exists() else []
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
            journal.empty()
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
