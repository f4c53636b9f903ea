"""Features in files of one's own, and tasks made of them.

A file is .npz with the arrays `x` (a row a sample) and `y` (labels), as `bridgehash extract`
writes it, or Parquet with a column `x` of vectors and a column `y`.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._core.files import StrPath
from ..models.feature_maps import UnitRows
from .memory import Rows
from .task import TransferTask

MAX_QUERIES = 500


def task_from_files(
    source: StrPath,
    target: StrPath | None = None,
    *,
    n_queries: int | None = None,
    n_train: int | None = None,
    seed: int = 0,
    unit_rows: bool = False,
) -> TransferTask:
    """A task from two files of features, or from one.

    Parameters
    ----------
    source, target : path
        Files with rows and labels, .npz or .parquet. Without a target the source is a set alone,
        as in `TransferTask.single`.
    n_queries : int, optional
        Rows of the target to ask with; a tenth of it, 500 at most, unless told otherwise.
    n_train : int, optional
        Training rows to keep of each domain.
    seed : int
        Draws the queries, and the training rows.
    unit_rows : bool
        Divide every row by its norm.
    """
    X_t, y_t = _rows(source if target is None else target, unit_rows)
    wanted = queries_of(len(X_t)) if n_queries is None else n_queries
    if target is None:
        return TransferTask.single(X_t, y_t, n_queries=wanted, n_train=n_train, seed=seed)
    X_s, y_s = _rows(source, unit_rows)
    return TransferTask.split(X_s, y_s, X_t, y_t, n_queries=wanted, n_train=n_train, seed=seed)


def queries_of(n: int) -> int:
    """How many of n rows ask where nothing says so: a tenth, 500 at most.

    >>> queries_of(300), queries_of(9_298)
    (30, 500)
    """
    return max(1, min(MAX_QUERIES, n // 10))


def read_extracted(path: StrPath) -> Rows:
    """Rows (float64) and labels of one file; every row needs a label."""
    path = Path(path)
    readers = {".npz": _read_npz, ".parquet": _read_parquet}
    if path.suffix.lower() not in readers:
        raise ValueError(f"{path}: must end in {' or '.join(readers)}")
    x, y = readers[path.suffix.lower()](path)
    if x.ndim != 2 or x.dtype.kind not in "biuf" or y.shape != (len(x),):
        raise ValueError(
            f"{path}: x has shape {x.shape} and type {x.dtype}, y has shape {y.shape}; "
            "x must be a matrix of numbers and y one label a row"
        )
    if y.dtype.kind == "U" and (empty := int(np.sum(y == ""))):
        raise ValueError(
            f"{path}: {empty} of {len(y)} rows have no label in y; put every image into a "
            "sub-folder of its class before `bridgehash extract`"
        )
    return x.astype(np.float64), y


@contextmanager
def open_arrays(path: Path) -> Iterator[Mapping[str, NDArray[Any]]]:
    """The arrays of an .npz file, read when asked for; an error names the file."""
    if path.is_file() and not zipfile.is_zipfile(path):
        raise ValueError(f"{path}: is not an .npz file, or damaged; copy it again")
    try:
        with np.load(path) as arrays:
            yield arrays
    except KeyError as error:
        with np.load(path) as arrays:
            held = ", ".join(arrays.files)
        raise ValueError(f"{path}: {error.args[0]}; it holds {held}") from error
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise ValueError(f"{path}: is damaged ({error}); copy it again") from error


def _rows(path: StrPath, unit_rows: bool) -> Rows:
    X, y = read_extracted(path)
    return (UnitRows().fit_transform(X) if unit_rows else X), y


def _read_npz(path: Path) -> Rows:
    with open_arrays(path) as arrays:
        return arrays["x"], arrays["y"]


def _read_parquet(path: Path) -> Rows:
    try:
        import pyarrow.parquet as pq
    except ImportError as error:
        raise ImportError("Parquet needs pyarrow; pip install 'bridgehash[parquet]'") from error
    file = pq.ParquetFile(path)
    missing = {"x", "y"} - set(file.schema_arrow.names)
    if missing:
        held = ", ".join(file.schema_arrow.names)
        raise ValueError(f"{path}: has no column {' and '.join(sorted(missing))}; it holds {held}")
    x, y = (file.read(columns=[name]).column(0) for name in ("x", "y"))
    if x.null_count or y.null_count:
        raise ValueError(
            f"{path}: {x.null_count} rows have no x and {y.null_count} no y; drop them"
        )
    vectors, labels = x.to_numpy(), y.to_numpy()
    if len({np.shape(vector) for vector in vectors}) > 1:
        raise ValueError(f"{path}: x must be a column of vectors of one length")
    stacked = np.stack(list(vectors)) if len(vectors) else np.empty((0, 0))
    return stacked, labels.astype(np.str_) if labels.dtype == object else labels
