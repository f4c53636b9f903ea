"""`IndexStore`: an index on disk with one writer, whose changes are never lost.

The store locks the index file before it reads it. A change is written to the journal, and is on
disk, before anyone can see it. From time to time, and when the store is closed, the journal is
merged into the index file. The command line, the service and Python programs all write this way.
"""

from __future__ import annotations

import logging
import shutil
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from .._core.errors import BridgehashError, InputError, JournalError, LostChangesWarning
from .._core.files import StrPath, atomic_write, remove_leftovers
from .._core.journal import Journal
from .._core.locks import FileLock
from .batch import Batch, checked_batch, id_exists
from .changes import Add, ChangeResult, Remove, Upsert, as_record
from .exact import HammingIndex
from .ids import MAX_ID, IdKind, Ids, check_kind, free_ids, kind_of, parse_ids
from .index_file import IndexFile, journal_header, journal_path, read_index, read_version

_PROBE_SECONDS = 1.0  # between two tests whether the disk can be written
_RETRY = 2  # a failed merge is tried again when the journal has grown by this factor

log = logging.getLogger("bridgehash.index")


class IndexStore:
    """An index file that can be changed safely; made by `open`.

    Searching `index` is thread-safe. Changes are made one after another, and are on disk when the
    method returns. It is a context manager that closes the store.

    Attributes
    ----------
    path : Path
    index : HammingIndex
        Search it, but change it through the store only.
    version : int
        Number of changes since the store was opened.
    warning : str
        Acknowledged changes that could not be read from a damaged journal; empty if none.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     HammingIndex(8).add([[1], [2]]).save(f"{folder}/a.bhi")
    ...     with IndexStore.open(f"{folder}/a.bhi") as store:
    ...         _ = store.add([[3]], tags=["new"])
    ...     HammingIndex.load(f"{folder}/a.bhi").ids
    array([0, 1, 2])
    """

    def __init__(
        self, path: Path, file: IndexFile, lock: FileLock | None, max_journal_bytes: int
    ) -> None:
        self.path = path
        self.index = HammingIndex.from_file(file, n_jobs=1)
        self.version = 0
        self.warning = file.problem
        self._generation = file.generation
        self._file_lock = lock
        self._journal: Journal | None = None
        self._max_journal_bytes = self._merge_at = max_journal_bytes
        self._merge_problem = self._broken = ""
        self._probed, self._probe_result = -_PROBE_SECONDS, ""
        numbered = self.index.id_kind == "numbers" and len(self.index)
        self._next_id = int(self.index.page(len(self.index) - 1, 1)[0][0]) + 1 if numbered else 0
        self._lock = Lock()

    @classmethod
    def open(
        cls,
        path: StrPath,
        *,
        writable: bool = True,
        wait: float = 0.0,
        max_journal_bytes: int = 64 << 20,
    ) -> Self:
        """Lock and read an index file and its journal.

        Parameters
        ----------
        path : path
        writable : bool, default=True
            False needs no lock: it gives the index as it is now, and changes are refused.
        wait : float, default=0
            Seconds to wait for another process that writes the same index. Raises `InputError`
            after that.
        max_journal_bytes : int, default=64 MiB
            A larger journal is merged into the index file.
        """
        if not writable:
            store = cls(Path(path), read_index(path), None, max_journal_bytes)
        elif not Path(path).exists():
            raise InputError("file not found; build the index first", str(path))
        else:
            lock = FileLock(path, wait=wait)
            try:
                file = read_index(path)
                store = cls(Path(path), file, lock, max_journal_bytes)
                store._open_journal(file, journal_path(lock.path))
                for each in (lock.path, journal_path(lock.path)):
                    remove_leftovers(each)
            except BaseException:
                lock.release()
                raise
        if store.warning:
            with _closed_on_error(store):
                warnings.warn(store.warning, LostChangesWarning, stacklevel=2)
        return store

    def _open_journal(self, file: IndexFile, path: Path) -> None:
        """Open the journal of a file whose changes were just read, and merge it."""
        journal = Journal(path, self._header())
        try:
            if file.problem:
                self.warning += f". The journal is kept as {_keep_copy(path).name}"
            if journal.content.belongs_to(self._header()):
                journal.resume(self._header())
            else:
                journal.restart(self._header())
        except BaseException:
            journal.close()
            raise
        self._journal = journal
        if not journal.is_empty:
            log.info("%s: replayed the changes in its journal", self.path.name)
            self._merge(journal)

    @property
    def journal_bytes(self) -> int:
        """Size of the journal."""
        return 0 if self._journal is None else self._journal.size

    def problem(self) -> str:
        """Return why changes cannot be written or merged now; empty if they can."""
        journal = self._journal
        if journal is None:
            return ""
        if monotonic() - self._probed >= _PROBE_SECONDS and self._lock.acquire(blocking=False):
            try:  # else a change is being written just now, which is as good a test
                if self._journal is journal:  # not closed meanwhile
                    self._probe_result, self._probed = journal.probe(), monotonic()
            finally:
                self._lock.release()
        return self._broken or journal.broken or self._merge_problem or self._probe_result

    def add(
        self,
        codes: ArrayLike,
        ids: ArrayLike | None = None,
        *,
        tags: ArrayLike | None = None,
        domain: ArrayLike | None = None,
        corrections: ArrayLike | None = None,
    ) -> Ids:
        """Add packed codes, as `HammingIndex.add` does, and return their ids.

        Raises `InputError` if an id exists, and `JournalError` if the disk cannot be written; then
        nothing is changed.
        """
        return self._one(Add(codes, ids, tags, domain, corrections)).ids

    def upsert(
        self,
        codes: ArrayLike,
        ids: ArrayLike,
        *,
        tags: ArrayLike | None = None,
        domain: ArrayLike | None = None,
        corrections: ArrayLike | None = None,
    ) -> ChangeResult:
        """Add packed codes; items with the same ids are replaced, with all that belongs to them."""
        return self._one(Upsert(codes, ids, tags, domain, corrections))

    def remove(self, ids: ArrayLike) -> int:
        """Remove codes by id and return how many were removed; unknown ids are ignored."""
        return self._one(Remove(parse_ids(ids))).n_removed

    def _one(self, change: Add | Upsert | Remove) -> ChangeResult:
        (result,) = self.change([change])
        if isinstance(result, BridgehashError):
            raise result
        return result

    def change(
        self, changes: Sequence[Add | Upsert | Remove]
    ) -> list[ChangeResult | BridgehashError]:
        """Make changes in order. One fsync writes them all before any becomes visible.

        The result of a change that was not made is an error.
        """
        with self._lock:
            try:
                journal = self._writable_journal()
                resolved, next_id = self._resolve(changes)
                valid = [each.change for each in resolved if isinstance(each, _Resolved)]
                if valid:
                    journal.append(map(as_record, valid))
            except BridgehashError as error:
                return [error] * len(changes)
            self._next_id = next_id
            self.version += 1
            try:
                self.index.apply(valid)
            except BaseException:
                self._broken = f"{self.path.name}: a change is on disk but not in memory; restart"
                raise
            if journal.size > self._merge_at:
                self._merge(journal)
            return [each.result() if isinstance(each, _Resolved) else each for each in resolved]

    def close(self) -> None:
        """Merge the journal into the index file and release both."""
        with self._lock:
            if self._journal is not None:
                if not (self._journal.is_empty or self._broken):
                    self._merge(self._journal)
                self._journal.close()
                self._journal = None
            if self._file_lock is not None:
                self._file_lock.release()
                self._file_lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _header(self) -> bytes:
        return journal_header(self._generation, self.index.n_bits)

    def _writable_journal(self) -> Journal:
        """Return the journal; if it was deleted, write the index file and begin a new one."""
        if self._journal is None:
            raise InputError("is open for reading only", str(self.path))
        if self._broken:
            raise JournalError(self._broken)
        if not self._journal.is_there():
            name = self._journal.path.name
            log.warning("%s was deleted while in use", name)
            try:
                self._write()
            except OSError as error:
                reason = f"{name}: was deleted, and {self.path.name} cannot be written"
                raise JournalError(f"{reason} ({error.strerror}); nothing was changed") from error
            self._journal.close()
            self._journal = Journal.open(self._journal.path, self._header())
        return self._journal

    def _merge(self, journal: Journal) -> None:
        """Rewrite the index file with all changes, then clear the journal.

        If that fails nothing is lost, since the journal has the changes; it is tried again later.
        """
        try:
            self._write()
            journal.restart(self._header())
            self._merge_problem, self._merge_at = "", self._max_journal_bytes
        except Exception as error:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            self._merge_problem = (
                f"{self.path.name}: cannot be written ({reason}); changes are kept in the journal"
            )
            self._merge_at = _RETRY * journal.size
            log.warning("%s", self._merge_problem)

    def _write(self) -> None:
        """Write the index file as a new generation, if it is still the one that was read."""
        lock = self._file_lock
        assert lock is not None, "changes need the lock"
        if lock.path.exists() and read_version(lock.path).generation != self._generation:
            raise InputError("was replaced by another program; move that file away", str(lock.path))
        index, parent = self.index, self._generation
        self._generation = index.write(lock.path, parent=parent, replace=lock.replace)

    def _resolve(
        self, changes: Sequence[Add | Upsert | Remove]
    ) -> tuple[list[_Resolved | BridgehashError], int]:
        """Check changes and choose automatic ids; also return the next automatic id.

        An `Add` becomes a batch, or an error if an id exists after the changes before it.
        """
        resolved: list[_Resolved | BridgehashError] = []
        changed: dict[int | str, bool] = {}  # whether an id exists after the changes before
        next_id, kind = self._next_id, self.index.id_kind
        for change in changes:
            try:
                checked = self._check(change, changed, next_id, kind)
                existing = self._existing(checked.ids, changed)
                if isinstance(change, Add) and existing:
                    raise id_exists(existing[0])
            except BridgehashError as error:
                resolved.append(error)
                continue
            given = checked.ids if change.ids is None else parse_ids(change.ids)
            resolved.append(_Resolved(checked, given, len(existing)))
            inserts = isinstance(checked, Batch)
            changed.update(dict.fromkeys(checked.ids.tolist(), inserts))
            if inserts and len(checked.ids):
                kind = kind_of(checked.ids)
                if kind == "numbers":
                    next_id = max(next_id, int(checked.ids[-1]) + 1)
        return resolved, next_id

    def _check(
        self,
        change: Add | Upsert | Remove,
        changed: Mapping[int | str, bool],
        next_id: int,
        kind: IdKind | None,
    ) -> Batch | Remove:
        if isinstance(change, Remove):
            known = change.ids if kind else change.ids[:0]  # an index without a kind is empty
            return Remove(np.unique(check_kind(known, kind)))
        codes, ids, tags, domain, corrections = change
        batch = checked_batch(
            codes,
            ids,
            tags,
            domain,
            self.index.n_bits,
            corrections=corrections,
            kind=kind,
            first_id=next_id,
        )
        if ids is None and next_id + len(batch.ids) - 1 > MAX_ID:
            new = [item for item, exists in changed.items() if exists]
            taken = np.union1d(self.index.ids, np.array(new, np.int64))
            batch = batch._replace(ids=free_ids(taken, len(batch.ids)))
        return batch

    def _existing(self, ids: Ids, changed: Mapping[int | str, bool]) -> list[int | str]:
        """Return those of the ids that exist after the changes before, increasing."""
        exists = self.index.contains(ids)
        if not changed:
            return list(ids[exists].tolist())
        pairs = zip(ids.tolist(), exists.tolist(), strict=True)
        return [item for item, known in pairs if changed.get(item, known)]


class _Resolved(NamedTuple):
    """A change that was checked, the ids in the order they were given, and how many existed."""

    change: Batch | Remove
    ids: Ids
    n_existing: int

    def result(self) -> ChangeResult:
        if isinstance(self.change, Remove):
            return ChangeResult(self.change.ids, n_removed=self.n_existing)
        return ChangeResult(self.ids, len(self.ids) - self.n_existing, self.n_existing)


@contextmanager
def _closed_on_error(store: IndexStore) -> Iterator[None]:
    try:
        yield
    except BaseException:  # a warning can be made an error
        store.close()
        raise


def _keep_copy(path: Path) -> Path:
    """Copy a file to a free name beside it, on disk, and return that name."""
    for number in count(1):
        copy = path.with_name(f"{path.name}.kept-{number}")
        if not copy.exists():
            with atomic_write(copy) as temporary:
                shutil.copyfile(path, temporary)
            return copy
    raise AssertionError("unreachable")
