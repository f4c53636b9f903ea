"""Files of data: where they are looked for, how they are fetched, and what they hash to.

A file is looked for in the folder that the caller names, then in $BRIDGEHASH_DATA, then in a cache
($BRIDGEHASH_CACHE, else the usual place for the user's caches). Only a file whose address and
SHA-256 are both known is ever downloaded, into the cache, whole or not at all.
"""

from __future__ import annotations

import hashlib
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .._core.files import StrPath, atomic_write

DATA_VARIABLE = "BRIDGEHASH_DATA"
CACHE_VARIABLE = "BRIDGEHASH_CACHE"
_CHUNK = 1 << 16  # bytes downloaded at a time

_checksums: dict[tuple[str, int, int], str] = {}


class MissingData(FileNotFoundError):
    """A file that is nowhere; the message says what to put where, and how to get or make it."""


@dataclass(frozen=True)
class DataFile:
    """A file of data by its name.

    Parameters
    ----------
    name : str
        The file's name in any of the folders; may begin with sub-folders.
    sha256 : str, optional
        The checksum of the file that this version was tested with.
    url : str, optional
        Where it can be downloaded; needs a checksum, so that what arrives is what was meant.
    size : int, optional
        Bytes.
    hint : str
        How to get the file, or to make it, in a sentence or two.
    """

    name: str
    sha256: str | None = None
    url: str | None = None
    size: int | None = None
    hint: str = ""

    def __post_init__(self) -> None:
        if self.url is not None and self.sha256 is None:
            raise ValueError(f"{self.name}: a url needs a sha256 to check the download against")

    def locate(self, folder: StrPath | None = None) -> Path | None:
        """Where the file is on this machine, if it is.

        One that differs from the known one may be a newer one that somebody wants to use: it is
        not refused, but a warning says so.
        """
        for place in data_places(folder):
            path = place / self.name
            if path.is_file():
                self._warn_if_other(path)
                return path
        return None

    def find(self, folder: StrPath | None = None, download: bool = True) -> Path:
        """Where the file is; downloaded if it is on no disk, may be, and has a known address."""
        path = self.locate(folder)
        if path is not None:
            return path
        if self.url is None or not download:
            raise MissingData(self.missing(folder))
        try:
            return self._download()
        except (ImportError, OSError, ValueError) as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            problem = f"it could not be downloaded from {self.url} ({reason[:300]})"
            raise MissingData(self.missing(folder, problem)) from error

    def missing(self, folder: StrPath | None = None, problem: str = "") -> str:
        """What to say when the file is nowhere."""
        size = "" if self.size is None else f" ({self.size / 1e6:,.1f} MB)"
        places = " or ".join(str(place) for place in data_places(folder))
        put = f"put it into {places}" if places else "put it into a folder"
        unset = "" if os.environ.get(DATA_VARIABLE) else f", or set {DATA_VARIABLE} to its folder"
        parts = [f"{self.name}{size} is not on this machine", problem, f"{put}{unset}"]
        return "; ".join(filter(None, parts)) + "." + (f" {self.hint}" if self.hint else "")

    def _warn_if_other(self, path: Path) -> None:
        if self.sha256 is not None and checksum(path) != self.sha256:
            warnings.warn(
                f"{path}: its sha256 is {checksum(path)[:12]}…, not the known "
                f"{self.sha256[:12]}…; it is used, but results may differ from published ones",
                stacklevel=4,
            )

    def _download(self) -> Path:
        """Fetch the file into the cache, or leave nothing there."""
        pooch = _pooch()
        path = cache_folder() / self.name
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as temporary:
            answers: list[Any] = []
            hooks = {"response": lambda answer, **_: answers.append(answer)}
            with _bar(self.name) as bar:
                get = pooch.HTTPDownloader(progressbar=bar, chunk_size=_CHUNK, hooks=hooks)
                try:
                    get(self.url, str(temporary), None)
                finally:  # pooch leaves the answer open when something fails
                    for answer in answers:
                        answer.close()
            if (found := checksum(temporary)) != self.sha256:
                raise ValueError(f"what arrived was thrown away: sha256 {found}, not {self.sha256}")
        return path


def checksum(path: StrPath) -> str:
    """SHA-256 of a file, remembered as long as its size and time stay the same."""
    path = Path(path).resolve()
    status = path.stat()
    key = (str(path), status.st_size, status.st_mtime_ns)
    if key not in _checksums:
        with open(path, "rb") as file:
            _checksums[key] = hashlib.file_digest(file, "sha256").hexdigest()
    return _checksums[key]


def data_places(folder: StrPath | None = None) -> list[Path]:
    """The folders that are searched, in order."""
    named = [folder, os.environ.get(DATA_VARIABLE)]
    places = [Path(place).expanduser() for place in named if place]
    with suppress(ImportError):  # without pooch nothing was downloaded: no cache to look in
        places.append(cache_folder())
    return list(dict.fromkeys(places))


def cache_folder() -> Path:
    """Where downloads go: $BRIDGEHASH_CACHE, else the usual place for the user's caches."""
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
def _bar(title: str) -> Iterator[_Bar | bool]:
    """A progress bar for pooch, if somebody is watching stderr."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield False
        return
    bar = _Bar(title)
    try:
        yield bar
    finally:
        bar.close()


class _Bar:
    """What pooch expects of a progress bar, drawn by rich."""

    def __init__(self, title: str) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TimeElapsedColumn(),
        )
        self.total = 0  # bytes; pooch sets it when it knows
        self._progress = Progress(*columns, console=Console(stderr=True))
        self._task = self._progress.add_task(title, total=None)
        self._progress.start()

    def update(self, n_bytes: int) -> None:
        self._progress.update(self._task, advance=n_bytes, total=self.total or None)

    def reset(self) -> None:
        self._progress.update(self._task, completed=0)

    def close(self) -> None:
        self._progress.stop()
