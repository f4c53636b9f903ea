"""A data set: domains seen through features, and the files that hold them.

Most sets are one .npz file with the arrays `<domain>_<feature>` (a row an image) and `<domain>_y`.
A view may also lie in a file of its own, as `bridgehash extract` writes it (`x`, `y`), named like
the view in a task: `office-home/art.vgg16.npz`. Such a file goes first, since somebody made it on
purpose; then the common file; then public files that the view can be made from, where there are
any.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._core.errors import unknown
from .._core.files import StrPath
from ..models.feature_maps import UnitRows
from .extracted import open_arrays, read_extracted
from .files import DataFile, MissingData, checksum
from .memory import Memory, Rows

BACKBONES = {  # features that `bridgehash extract` computes, and its name for them
    "effnet_lite0": "efficientnet-lite0",
    "effnet_lite2": "efficientnet-lite2",
    "gist512": "gist",
    "resnet50": "resnet50",
    "vgg16": "vgg16",
}
ALONE = "all"  # the domain of a set that has one; it is not part of the names of arrays
MEMORY = Memory(max_bytes=512 * 2**20)


@dataclass(frozen=True)
class View:
    """A domain seen through a feature."""

    domain: str
    feature: str

    def __str__(self) -> str:
        return f"{self.domain}.{self.feature}"


def views(domains: Collection[str], features: Collection[str]) -> tuple[View, ...]:
    """Every domain through every feature."""
    return tuple(View(domain, feature) for domain in domains for feature in features)


@dataclass(frozen=True)
class Source:
    """Files that hold a view, and how to read rows and labels out of them."""

    files: tuple[DataFile, ...]
    read: Callable[[Sequence[Path], View], Rows]

    def locate(self, folder: StrPath | None) -> list[Path] | None:
        """Where the files are, if all of them are on this machine."""
        paths = [file.locate(folder) for file in self.files]
        found = [path for path in paths if path is not None]
        return found if len(found) == len(paths) else None


def named_arrays(arrays: Mapping[str, NDArray[Any]], view: View) -> Rows:
    """`<domain>_<feature>`, times `<feature>_scale` where there is one, and `<domain>_y`."""
    prefix = "" if view.domain == ALONE else f"{view.domain}_"
    X = arrays[f"{prefix}{view.feature}"].astype(np.float64)
    if (scale := f"{view.feature}_scale") in arrays:
        X *= float(arrays[scale])
    return X, arrays[f"{prefix}y"]


@dataclass(frozen=True)
class DataSet:
    """Where a set comes from, what it may be used for, and how its views are read.

    A set without `file` has no list of views: any view that lies in a file of its own is one.
    """

    name: str
    title: str
    citation: str
    licence: str
    views: tuple[View, ...] = ()
    file: DataFile | None = None
    read: Callable[[Mapping[str, NDArray[Any]], View], Rows] = named_arrays
    public: Mapping[View, Source] = field(default_factory=dict)
    n_queries: int | None = 500  # None: a tenth of the target, 500 at most
    own_views: tuple[View, ...] = ()  # not in `file`: each lies in a file of its own, or nowhere

    def check(self, view: View) -> None:
        """Raise unless there is such a view; the message names the nearest."""
        if self.file is not None and view not in (*self.views, *self.own_views):
            names = [str(known) for known in (*self.views, *self.own_views)]
            raise ValueError(unknown(f"view of {self.name}", str(view), names))

    def load(self, view: View, folder: StrPath | None = None, *, unit_rows: bool = False) -> Rows:
        """Rows (float64) and labels of a view, both read-only; the last ones stay in memory.

        `unit_rows` divides every row by its norm.
        """
        source, paths = self._find(view, folder)
        stamps = tuple((str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in paths)

        def make() -> Rows:
            X, y = source.read(paths, view)
            return (UnitRows().fit_transform(X) if unit_rows else X), y

        return MEMORY.get((self.name, view, unit_rows, stamps), make)

    def checksums(self, view: View, folder: StrPath | None = None) -> dict[str, str]:
        """SHA-256 of the files that `load` reads, by name."""
        source, paths = self._find(view, folder)
        return {f.name: checksum(path) for f, path in zip(source.files, paths, strict=True)}

    def _find(self, view: View, folder: StrPath | None) -> tuple[Source, list[Path]]:
        """The first source that is on this machine, else one that can be downloaded."""
        self.check(view)
        own = DataFile(
            f"{self.name}/{view}.npz", hint=_how_to_make(self.name, view, self.file is None)
        )
        sources = [Source((own,), lambda paths, _: read_extracted(paths[0]))]
        if self.file is not None and view not in self.own_views:
            sources.append(Source((self.file,), self._read_arrays))
        public = self.public.get(view)
        for source in [*sources, public]:
            if source is not None and (paths := source.locate(folder)) is not None:
                return source, paths
        if public is not None:
            return public, [file.find(folder) for file in public.files]
        if self.file is None or view in self.own_views:
            raise MissingData(own.missing(folder))
        raise MissingData(f"{self.file.missing(folder)} {own.hint}")

    def _read_arrays(self, paths: Sequence[Path], view: View) -> Rows:
        with open_arrays(paths[0]) as arrays:
            return self.read(arrays, view)


def _how_to_make(name: str, view: View, alone: bool) -> str:
    """How a user gets a view into a file of its own; `alone` if there is no other way."""
    file = f"{name}/{view}.npz"
    backbone = BACKBONES.get(view.feature, "NAME" if alone else None)
    if backbone is None:
        return f"This view by itself may be given as {file} with x (a row a sample) and y (labels)."
    command = f"bridgehash extract FOLDER --backbone {backbone} --out {file}"
    return (
        f"From images in FOLDER, one sub-folder a class, `{command}` makes this view by itself "
        f"(x, a row an image, and y, its class); create {name} first."
    )
