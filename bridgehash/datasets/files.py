"""Data files: where they are looked for, how they are downloaded, and their checksums.

A file is looked for in the folder given by the caller, then in $BRIDGEHASH_DATA, then in a cache
($BRIDGEHASH_CACHE, else the cache folder of the user). Only files with a known URL and SHA-256 are
downloaded, into the cache. A failed download leaves nothing behind.
"""

from __future__ import annotations

import hashlib
import os
import sys
import warnings
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .._core.errors import InputError, MissingDataError
from .._core.files import StrPath, atomic_write

DATA_VARIABLE = "BRIDGEHASH_DATA"
CACHE_VARIABLE = "BRIDGEHASH_CACHE"
_CHUNK = 1 << 16  # bytes downloaded at a time

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
        pooch = _pooch()
        path = cache_folder() / self.name
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as temporary:
            opened: list[Any] = []  # closed at the end: pooch leaves them open after an error
            hooks = {"response": lambda response, **_: opened.append(response)}
            bar: Any = False
            if sys.stderr is not None and sys.stderr.isatty():
                opened.append(bar := _DownloadBar(self.name))
            get = pooch.HTTPDownloader(progressbar=bar, chunk_size=_CHUNK, hooks=hooks)
            try:
                get(self.url, str(temporary), None)
            finally:
                for item in opened:
                    item.close()
            if (actual := checksum(temporary)) != self.sha256:
                raise InputError(f"sha256 is {actual}, not {self.sha256}; the file was deleted")
        return path


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


class _DownloadBar:
    """The progress bar that pooch expects, drawn by rich."""

    def __init__(self, title: str) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TimeElapsedColumn

        self.total = 0  # bytes; set by pooch
        columns = ("{task.description}", BarColumn(), DownloadColumn(), TimeElapsedColumn())
        self._progress = Progress(*columns, console=Console(stderr=True))
        self._task = self._progress.add_task(title, total=None)
        self._progress.start()

    def update(self, n_bytes: int) -> None:
        self._progress.update(self._task, advance=n_bytes, total=self.total or None)

    def reset(self) -> None:
        self._progress.update(self._task, completed=0)

    def close(self) -> None:
        self._progress.stop()
