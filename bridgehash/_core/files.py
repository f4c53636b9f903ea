"""Atomic writes: a file is replaced whole or not at all."""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

StrPath = str | os.PathLike[str]


@contextmanager
def atomic_write(path: StrPath, replace: Callable[[Path], object] | None = None) -> Iterator[Path]:
    """Yield a temporary path that replaces `path` if the block succeeds.

    If the block fails, the temporary file is removed and `path` is unchanged. A killed process
    leaves at most a hidden `.bridgehash-*.tmp` beside it. Symbolic links are followed, and
    permissions follow the umask.

    Parameters
    ----------
    path : path
    replace : callable, optional
        Moves the temporary file to its place; `os.replace` by default.
    """
    path = Path(path)
    if path.is_symlink():
        path = path.resolve()
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path}: the directory {path.parent} does not exist; create it")
    if path.is_dir():
        raise IsADirectoryError(f"{path}: is a directory; name a file in it")
    if path.exists() and not path.is_file():  # a pipe or a device would be replaced
        raise FileExistsError(f"{path}: is not a regular file; choose another name")
    temporary = path.with_name(f"{_prefix(path)}{secrets.token_hex(4)}.tmp")
    temporary.touch(exist_ok=False)  # 0666 less the umask, whatever the writer would choose
    try:
        yield temporary
        with open(temporary, "r+b") as file:
            os.fsync(file.fileno())
        if replace is None:
            os.replace(temporary, path)
        else:
            replace(temporary)
    finally:
        temporary.unlink(missing_ok=True)
    fsync_directory(path.parent)


def remove_leftovers(path: Path) -> None:
    """Delete temporary files that killed writers of `path` left; call it as its only writer."""
    for other in path.parent.iterdir():
        if other.name.startswith(_prefix(path)) and other.name.endswith(".tmp"):
            other.unlink(missing_ok=True)


def fsync_directory(directory: Path) -> None:
    """Make a rename survive a power cut; Windows has no such call and needs none."""
    if hasattr(os, "O_DIRECTORY"):
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _prefix(path: Path) -> str:
    """Return how names of temporary files for this path begin: short, whatever its name."""
    return f".bridgehash-{hashlib.sha256(os.fsencode(path.name)).hexdigest()[:12]}-"
