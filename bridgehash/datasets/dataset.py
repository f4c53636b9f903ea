"""A data set: domains seen through features, and the files that hold them.

Most sets are one .npz file with the arrays `<domain>_<feature>` (one row per image) and
`<domain>_y`. A view may also have a file of its own, as `bridgehash extract` writes it, named like
the view in a task: `office-home/art.vgg16.npz`. Files are looked for in this order: the file of the
view, the file of the set, public files from which the view can be made.
"""

from __future__ import annotations

import threading
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._core.errors import InputError, MissingDataError, named, unknown
from .._core.files import StrPath
from .._core.linalg import Array
from ..models.feature_maps import UnitRows
from .files import DataFile, checksum

Rows = tuple[Array, NDArray[Any]]  # X of shape (n, d), y of shape (n,)

BACKBONES = {  # features that `bridgehash extract` computes, and its names for them
    "effnet_lite0": "efficientnet-lite0",
    "effnet_lite2": "efficientnet-lite2",
    "gist512": "gist",
    "resnet50": "resnet50",
    "vgg16": "vgg16",
}
ALONE = "all"  # all rows of a set; if they are its only domain, not part of the names of its arrays


class RowCache:
    """Read-only rows and labels, up to a number of bytes; the least recently used are dropped.

    Rows larger than the limit are returned but not kept.

    >>> cache = RowCache(max_bytes=100)
    >>> X, y = cache.get("a", lambda: (np.zeros((3, 2)), np.arange(3)))
    >>> cache.get("a", lambda: 1 / 0)[0] is X, X.flags.writeable
    (True, False)
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._rows: OrderedDict[Hashable, Rows] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def n_bytes(self) -> int:
        """Return the number of bytes held."""
        return sum(X.nbytes + y.nbytes for X, y in self._rows.values())

    def get(self, key: Hashable, make: Callable[[], Rows]) -> Rows:
        """Return the rows of a key; `make` is called if they are not in memory."""
        with self._lock:
            if key in self._rows:
                self._rows.move_to_end(key)
                return self._rows[key]
        X, y = make()
        X.flags.writeable = y.flags.writeable = False
        with self._lock:
            if X.nbytes + y.nbytes <= self.max_bytes:
                self._rows[key] = X, y
            while self.n_bytes > self.max_bytes:
                self._rows.popitem(last=False)
        return X, y

    def clear(self) -> None:
        """Drop all rows."""
        with self._lock:
            self._rows.clear()


MEMORY = RowCache(max_bytes=512 * 2**20)


@dataclass(frozen=True)
class DataView:
    """A domain seen through a feature."""

    domain: str
    feature: str

    def __str__(self) -> str:
        return f"{self.domain}.{self.feature}"


def views(domains: Collection[str], features: Collection[str]) -> tuple[DataView, ...]:
    """Return the views of every domain through every feature."""
    return tuple(DataView(domain, feature) for domain in domains for feature in features)


@dataclass(frozen=True)
class DataSource:
    """Files that hold a view, and a function that reads rows and labels from them."""

    files: tuple[DataFile, ...]
    read: Callable[[Sequence[Path], DataView], Rows]

    def locate(self, folder: StrPath | None) -> list[Path] | None:
        """Return the paths of the files, or None if one of them is not on this machine."""
        paths = [path for file in self.files if (path := file.locate(folder)) is not None]
        return paths if len(paths) == len(self.files) else None


def named_arrays(arrays: Mapping[str, NDArray[Any]], view: DataView) -> Rows:
    """Return `<domain>_<feature>`, times `<feature>_scale` if there is one, and `<domain>_y`."""
    prefix = f"{view.domain}_"
    if view.domain == ALONE and f"{prefix}y" not in arrays:
        prefix = ""
    X = arrays[f"{prefix}{view.feature}"].astype(np.float64)
    if (scale := f"{view.feature}_scale") in arrays:
        X *= float(arrays[scale])
    return X, arrays[f"{prefix}y"]


@dataclass(frozen=True)
class DataSet:
    """Origin, licence and views of a data set, and how they are read.

    A set without `file` has no list of views: every view that has a file of its own is one.
    """

    name: str
    title: str
    citation: str
    licence: str
    views: tuple[DataView, ...] = ()
    file: DataFile | None = None
    read: Callable[[Mapping[str, NDArray[Any]], DataView], Rows] = named_arrays
    public: Mapping[DataView, DataSource] = field(default_factory=dict)
    n_queries: int | None = 500  # None: a tenth of the target, at most 500
    own_views: tuple[DataView, ...] = ()  # not in `file`: each needs a file of its own
    class_names: tuple[str, ...] = ()  # of the labels 0, 1, ...; empty if labels are the names

    def check(self, view: DataView) -> None:
        """Raise `InputError` unless the set has this view."""
        known = (*self.views, *self.own_views)
        if self.file is not None and view not in known:
            raise InputError(unknown(f"view of {self.name}", str(view), [str(v) for v in known]))

    def check_classes(self, classes: Collection[str]) -> None:
        """Raise `InputError` for a class that is neither a name nor a number of this set.

        Nothing is checked if the names follow from the files.
        """
        numbers = {str(number) for number in range(len(self.class_names))}
        for name in classes:
            if self.class_names and name not in self.class_names and name not in numbers:
                raise InputError(unknown(f"class of {self.name}", name, self.class_names))

    def load(
        self, view: DataView, folder: StrPath | None = None, *, unit_rows: bool = False
    ) -> Rows:
        """Return rows (float64) and labels of a view, both read-only; recent ones are cached.

        `unit_rows` divides every row by its norm.
        """
        source, paths = self._find(view, folder)
        stamps = tuple((str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in paths)

        def make() -> Rows:
            X, y = source.read(paths, view)
            return (UnitRows().fit_transform(X) if unit_rows else X), y

        return MEMORY.get((self.name, view, unit_rows, stamps), make)

    def checksums(self, view: DataView, folder: StrPath | None = None) -> dict[str, str]:
        """Return the SHA-256 of the files that `load` reads, by name."""
        source, paths = self._find(view, folder)
        return {f.name: checksum(path) for f, path in zip(source.files, paths, strict=True)}

    def is_present(self, view: DataView, folder: StrPath | None = None) -> bool:
        """Whether the files of a view are on this machine; nothing is downloaded."""
        return any(source.locate(folder) is not None for source in self._sources(view))

    def _sources(self, view: DataView) -> list[DataSource]:
        """Return what may hold a view: its own file, the file of the set, public files."""
        self.check(view)
        own = DataFile(f"{self.name}/{view}.npz", hint=self._how_to_make(view))
        sources = [DataSource((own,), lambda paths, _: read_extracted(paths[0]))]
        if self.file is not None and view not in self.own_views:
            sources.append(DataSource((self.file,), self._read_arrays))
        return [*sources, self.public[view]] if view in self.public else sources

    def _find(self, view: DataView, folder: StrPath | None) -> tuple[DataSource, list[Path]]:
        """Return the first source that is on this machine, else one that can be downloaded."""
        sources = self._sources(view)
        for source in sources:
            if (paths := source.locate(folder)) is not None:
                return source, paths
        if (public := self.public.get(view)) is not None:
            return public, [file.find(folder) for file in public.files]
        [own] = sources[0].files
        if self.file is None or view in self.own_views:
            raise MissingDataError(own.missing(folder))
        raise MissingDataError(f"{self.file.missing(folder)} {own.hint}")

    def _read_arrays(self, paths: Sequence[Path], view: DataView) -> Rows:
        with named(paths[0], "copy it again"):
            return _read_npz(paths[0], lambda arrays: self.read(arrays, view))

    def _how_to_make(self, view: DataView) -> str:
        """Return how to make a file for one view."""
        file = f"{self.name}/{view}.npz"
        backbone = BACKBONES.get(view.feature, "NAME" if self.file is None else None)
        if backbone is None:
            return (
                f"This view alone can also be given as {file} with the arrays x (one row per "
                "sample) and y (labels)."
            )
        return (
            f"To make this view alone from images in FOLDER, one sub-folder per class, create the "
            f"folder {self.name} and run `bridgehash extract FOLDER --backbone {backbone} --out "
            f"{file}`. It writes x (one row per image) and y (its class)."
        )


def read_extracted(path: StrPath) -> Rows:
    """Return rows (float64) and labels of a file as `bridgehash extract` writes it.

    The file is .npz with the arrays `x` (one row per sample) and `y` (labels), or Parquet with a
    column `x` of vectors and a column `y`. Every row needs a label.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        try:
            import pyarrow.parquet
        except ImportError as error:
            raise ImportError("Parquet needs pyarrow; pip install 'bridgehash[parquet]'") from error
    with named(path, "copy it again"):
        if suffix == ".parquet":
            x, y = _read_parquet(pyarrow.parquet.ParquetFile(path))
        elif suffix == ".npz":
            x, y = _read_npz(path, lambda arrays: (arrays["x"], arrays["y"]))
        else:
            raise InputError("must end in .npz or .parquet")
        if x.ndim != 2 or x.dtype.kind not in "biuf" or y.shape != (len(x),):
            raise InputError(
                f"x has shape {x.shape} and type {x.dtype}, y has shape {y.shape}; x must be a "
                "matrix of numbers and y must have one label per row"
            )
        if y.dtype.kind == "U" and (empty := int(np.sum(y == ""))):
            raise InputError(
                f"{empty} of {len(y)} rows have no label in y; put every image into a sub-folder "
                "named after its class before `bridgehash extract`, or give texts a --labels-column"
            )
    return x.astype(np.float64), y


def _read_npz(path: Path, read: Callable[[Mapping[str, NDArray[Any]]], Rows]) -> Rows:
    if path.is_file() and not zipfile.is_zipfile(path):
        raise InputError("is not an .npz file, or is damaged; copy it again")
    with np.load(path) as arrays:
        try:
            return read(arrays)
        except KeyError as error:
            raise InputError(f"{error.args[0]}; it holds {', '.join(arrays.files)}") from error


def _read_parquet(file: Any) -> Rows:
    missing = {"x", "y"} - set(file.schema_arrow.names)
    if missing:
        held = ", ".join(file.schema_arrow.names)
        raise InputError(f"has no column {' and '.join(sorted(missing))}; it holds {held}")
    x, y = (file.read(columns=[name]).column(0) for name in ("x", "y"))
    if x.null_count or y.null_count:
        raise InputError(
            f"{x.null_count} rows have no x and {y.null_count} have no y; drop these rows"
        )
    vectors, labels = x.to_numpy(), y.to_numpy()
    if len({np.shape(vector) for vector in vectors}) > 1:
        raise InputError("x must be a column of vectors of one length")
    stacked = np.stack(list(vectors)) if len(vectors) else np.empty((0, 0))
    return stacked, labels.astype(np.str_) if labels.dtype == object else labels
