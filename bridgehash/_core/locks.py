"""A lock that belongs to a file: at most one process writes it at a time."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from time import monotonic, sleep
from typing import Self

from .errors import InputError, named
from .files import StrPath

try:
    import fcntl
except ImportError:  # Windows: two writers are not detected
    fcntl = None  # type: ignore[assignment]

_PAUSE = 0.02  # seconds between two attempts
IN_USE = "in use by another process; stop it, or wait until it has finished"


class FileLock:
    """Hold the exclusive lock of a file until `release`.

    The lock is on the file itself, not on a second file that could be deleted, and symbolic links
    are resolved first: all names of a file share its lock. `replace` moves the lock to the new
    file. Readers are not affected.

    Parameters
    ----------
    path : path
        Created empty if it does not exist.
    wait : float, default=0
        Seconds to wait for another process. Raises `InputError` after that.

    Attributes
    ----------
    path : Path
        The file without symbolic links.
    is_new : bool
        Whether the file did not exist or was empty.
    """

    def __init__(self, path: StrPath, *, wait: float = 0.0) -> None:
        self.path = Path(path).resolve()
        self._name = os.fspath(path)
        self._created = not self.path.exists()
        deadline = monotonic() + wait
        while not self._try():
            if monotonic() > deadline:
                raise InputError(IN_USE, self._name)
            sleep(_PAUSE)
        self.is_new = os.fstat(self._descriptor).st_size == 0

    def _try(self) -> bool:
        with named(self._name, "check permissions", writing=True):
            if not self.path.parent.is_dir():
                raise InputError(f"the directory {self.path.parent} does not exist; create it")
            if self.path.is_dir():
                raise InputError("is a directory; name a file in it")
            if self.path.exists() and not stat.S_ISREG(self.path.stat().st_mode):
                raise InputError("is not a regular file; choose another name")
            self._descriptor = open_locked(self.path)
        return self._descriptor >= 0

    def holds(self) -> bool:
        """Return whether the locked file is still the one at its path."""
        try:
            return _same_file(self._descriptor, self.path)
        except FileNotFoundError:
            return False

    def replace(self, temporary: Path) -> None:
        """Move a file to the path of the locked one; the lock is never free in between."""
        if self.path.exists() and not self.holds():
            raise InputError(
                "was replaced by another program while in use; move that file away", self._name
            )
        descriptor = open_locked(temporary)
        try:
            os.replace(temporary, self.path)
        except BaseException:
            os.close(descriptor)
            raise
        os.close(self._descriptor)
        self._descriptor = descriptor

    def release(self) -> None:
        """Release the lock; a file that was created and never written is deleted."""
        if self._descriptor >= 0:
            if self._created and self.holds() and os.fstat(self._descriptor).st_size == 0:
                self.path.unlink()
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def open_locked(path: Path) -> int:
    """Open a file for reading and writing and lock it; return -1 if another process holds it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o666)
    try:
        if fcntl is not None:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _same_file(descriptor, path):  # else it was replaced or deleted just before
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return -1


def _same_file(descriptor: int, path: Path) -> bool:
    return os.path.samestat(os.fstat(descriptor), os.stat(path))
