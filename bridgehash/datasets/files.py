"""Data files: where they are looked for, how they are downloaded, and their checksums.

A file is looked for in the folder given by the caller, then in $BRIDGEHASH_DATA, then in a cache
($BRIDGEHASH_CACHE, else the cache folder of the user). Only files with a known URL and SHA-256 are
downloaded, into the cache. A download that is larger than declared, or too slow, is stopped. A
failed download leaves nothing behind.
"""

from __future__ import annotations

import hashlib
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import IO, Any

from .._core.errors import InputError, MissingDataError
from .._core.files import StrPath, atomic_write

DATA_VARIABLE = "BRIDGEHASH_DATA"
CACHE_VARIABLE = "BRIDGEHASH_CACHE"
_CHUNK = 1 << 16  # bytes downloaded at a time
_MAX_SIZE = 1 << 30  # bytes, of a file without a declared size
_TIMEOUT = 30.0  # seconds without any byte
_PATIENCE = 60.0  # seconds for any file, and more for a large one:
_SLOWEST = 20_000  # bytes per second

_checksums: dict[tuple[str, int, int], str] = {}


@dataclass(frozen=True)
class DataFile:
    """A data file by name."""

    name: str  # in any of the folders; may include sub-folders
    sha256: str | None = None  # of the file that this version was tested with
    url: str | None = None  # where to download it; needs a checksum
    size: int | None = None  # in bytes
    hint: str = ""  # how to get or make the file, in a sentence or two

    def __post_init__(self) -> None:
        if self.url is not None and self.sha256 is None:
            raise InputError("a url needs a sha256 to check the download", self.name)

    def locate(self, folder: StrPath | None = None) -> Path | None:
        """Return the path of the file, or None if it is not on this machine.

        A file with another checksum is used too, with a warning: it may be a newer version.
        """
        for place in data_places(folder):
            path = place / self.name
            if path.is_file():
                if self.sha256 is not None and checksum(path) != self.sha256:
                    warnings.warn(
                        f"{path}: its sha256 is {checksum(path)[:12]}…, not the known "
                        f"{self.sha256[:12]}…; it is used, but results may differ from published "
                        "ones",
                        stacklevel=3,
                    )
                return path
        return None

    def find(self, folder: StrPath | None = None) -> Path:
        """Return the path of the file; download it if it is missing and has a URL."""
        path = self.locate(folder)
        if path is not None:
            return path
        if self.url is None:
            raise MissingDataError(self.missing(folder))
        try:
            return self._download()
        except (ImportError, OSError, ValueError) as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            problem = f"it could not be downloaded from {self.url} ({reason[:300]})"
            raise MissingDataError(self.missing(folder, problem)) from error

    def missing(self, folder: StrPath | None = None, problem: str = "") -> str:
        """Return the message for a file that is not on this machine."""
        size = "" if self.size is None else f" ({self.size / 1e6:,.1f} MB)"
        places = " or ".join(str(place) for place in data_places(folder))
        put = f"put it into {places}" if places else "put it into a folder"
        unset = "" if os.environ.get(DATA_VARIABLE) else f", or set {DATA_VARIABLE} to its folder"
        parts = [f"{self.name}{size} is not on this machine", problem, f"{put}{unset}"]
        return "; ".join(filter(None, parts)) + "." + (f" {self.hint}" if self.hint else "")

    def _download(self) -> Path:
        _pooch()  # it installs what `_fetch` needs
        path = cache_folder() / self.name
        path.parent.mkdir(parents=True, exist_ok=True)
        limit = _MAX_SIZE if self.size is None else self.size
        with atomic_write(path) as temporary:
            with open(temporary, "wb") as file, _progress_bar(self.name, self.size) as reach:
                _fetch(str(self.url), file, limit, reach)
            if self.size not in (None, n_bytes := temporary.stat().st_size):
                raise InputError(f"{n_bytes} bytes instead of {self.size}; the file was deleted")
            if (actual := checksum(temporary)) != self.sha256:
                raise InputError(f"sha256 is {actual}, not {self.sha256}; the file was deleted")
        return path


def _fetch(url: str, file: IO[bytes], limit: int, reach: Callable[[int], None]) -> None:
    """Write what a server sends; stop if it sends more than `limit` bytes, or too slowly."""
    import requests
    import urllib3

    deadline = monotonic() + _PATIENCE + limit / _SLOWEST
    plain = {"Accept-Encoding": "identity"}  # the declared size is that of the file itself
    n_bytes = 0
    with requests.get(url, stream=True, timeout=_TIMEOUT, headers=plain) as response:
        response.raise_for_status()
        try:
            # read1 returns what has arrived: read would wait for a whole chunk of a slow server
            while chunk := response.raw.read1(_CHUNK):
                n_bytes += len(chunk)
                if n_bytes > limit:
                    raise InputError(f"the server sends more than the declared {limit} bytes")
                if monotonic() > deadline:
                    raise InputError(f"too slow: {n_bytes} bytes so far; try again later")
                file.write(chunk)
                reach(n_bytes)
        except urllib3.exceptions.HTTPError as error:
            raise OSError(str(error)) from error


def checksum(path: StrPath) -> str:
    """Return the SHA-256 of a file; cached until its size or modification time changes."""
    path = Path(path).resolve()
    status = path.stat()
    key = (str(path), status.st_size, status.st_mtime_ns)
    if key not in _checksums:
        with open(path, "rb") as file:
            _checksums[key] = hashlib.file_digest(file, "sha256").hexdigest()
    return _checksums[key]


def data_places(folder: StrPath | None = None) -> list[Path]:
    """Return the folders that are searched, in order."""
    named = [folder, os.environ.get(DATA_VARIABLE)]
    places = [Path(place).expanduser() for place in named if place]
    with suppress(ImportError):  # without pooch there is no cache
        places.append(cache_folder())
    return list(dict.fromkeys(places))


def cache_folder() -> Path:
    """Return where downloads go: $BRIDGEHASH_CACHE, else the cache folder of the user."""
    if given := os.environ.get(CACHE_VARIABLE):
        return Path(given).expanduser()
    return Path(_pooch().os_cache("bridgehash"))


def _pooch() -> Any:
    try:
        import pooch
    except ImportError as error:
        raise ImportError("downloads need pooch; pip install 'bridgehash[data]'") from error
    return pooch


@contextmanager
def _progress_bar(title: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Yield `reach(n_bytes)`, which moves a bar on stderr if that is a terminal."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda n_bytes: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeElapsedColumn

    columns = ("{task.description}", BarColumn(), DownloadColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(title, total=total)
        yield lambda n_bytes: bar.update(task, completed=n_bytes)
