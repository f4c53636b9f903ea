"""Read and write arrays: features, labels, pairs and codes.

An input is named by a path, or by `path:key` if a file holds several arrays or columns. One
function per format lists what a file holds before anything is read; choosing, checking and error
messages are common to all formats. Pickled arrays are refused, since they can run code.
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
import re
import zipfile
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bridgehash._core.errors import InputError, named
from bridgehash._core.files import StrPath, atomic_write
from bridgehash._core.progress import countdown
from bridgehash.cli.console import counted, may_animate
from bridgehash.streaming.formats import (
    MATRIX,
    Column,
    Field,
    Want,
    arrow,
    check_finite,
    check_not_empty,
    check_regular,
    choose,
    float_type,
    is_feature,
    npy_header,
    parquet_columns,
)

if TYPE_CHECKING:
    from bridgehash.models.decoder import CorrectedCodes
    from bridgehash.models.encoder import LinearEncoder

T = TypeVar("T")

_LABELS: Want = (1, "number byte text", "labels have one dimension of whole numbers or text")
_IDS: Want = (1, "number byte text", "ids have one dimension of whole numbers or text")
_CODES: Want = (2, "byte binary", "codes have two dimensions of packed bytes (uint8)")
_CORRECTIONS: Want = (2, "number", "corrections have two dimensions of numbers")
_PAIR = ("offset", "slope")  # columns of a Parquet file of codes, as in an exported index
_MANY = 8192  # rows from which encoding shows a progress bar

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|[+-]?(nan|inf(inity)?)", re.A | re.I)
_WHOLE = re.compile(r"[+-]?\d{1,30}", re.A)
_ID = re.compile(r"0|[1-9]\d{0,29}", re.A)
_EXPONENT = re.compile(r"\de", re.A | re.I)  # 1e3 may be a name, and is not the label 1000
_DECIMAL_COMMA = re.compile(r"\s*[+-]?\d+,\d+\s*", re.A)

_Rows = Iterator[tuple[int, list[str]]]


def read_matrix(spec: str) -> NDArray[np.floating[Any]]:
    """Read the feature matrix of shape (n, d) that `spec` names, finite and not empty.

    float32 and float64 stay; other numbers become float32 if it holds them exactly, else float64.
    Without a key, a Parquet file gives its only vector column. Otherwise Parquet and CSV files
    give all their numeric columns side by side. A CSV column without a name (the row index that
    pandas writes) is not a feature.
    """
    return _read(spec, MATRIX, _as_matrix)


@dataclass(frozen=True)
class FeatureTable:
    """A feature matrix with the names of its columns, which `fit` keeps."""

    X: NDArray[np.floating[Any]]
    columns: list[str] | None  # None: the file does not name them
    unused: tuple[str, ...] = ()  # columns of numbers that are ids or labels

    @property
    def shape(self) -> tuple[int, ...]:
        return self.X.shape

    def __len__(self) -> int:
        return len(self.X)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self.X, dtype=dtype)


def read_table(
    spec: str, *, unused: Collection[str] = (), wanted: list[str] | None = None
) -> FeatureTable:
    """Read the features that `spec` names, without ids and labels.

    Parameters
    ----------
    spec : str
    unused : names of columns that are labels or ids
    wanted : list of str, optional
        Names and order of the columns that a model takes. The file may have others, too.
    """
    field = _field(spec, MATRIX)
    with named(spec):
        X, names = _as_matrix(field.load()), list(field.columns)
        if not names:
            return FeatureTable(X, None)
        if wanted is not None and field.name == "":
            missing = [name for name in wanted if name not in names]
            if missing:
                raise InputError(
                    f"lacks the column {missing[0]!r} of the fit"
                    + (f" and {len(missing) - 1} more" if len(missing) > 1 else "")
                    + "; rename the columns as they were in the fit"
                )
            kept = wanted
        else:
            kept = [name for name in names if is_feature(name) and name not in unused]
        if not kept:
            raise InputError(f"{', '.join(names)}: ids or labels, no features; name another file")
        left = tuple(name for name in names if name not in kept)
        return FeatureTable(X[:, [names.index(name) for name in kept]], kept, left)


def read_labels(spec: str) -> NDArray[Any]:
    """Read the labels of shape (n,) that `spec` names: integers or strings.

    Whole floats become integers. Columns of a CSV file without a header are named 1, 2, ….
    """
    return _read(spec, _LABELS, _as_labels)


def read_codes(spec: str) -> NDArray[np.uint8]:
    """Read the packed codes of shape (n, n_bytes) that `spec` names."""
    return _read(spec, _CODES, lambda codes: np.ascontiguousarray(_not_empty(codes)))


def read_row_labels(spec: str, n_rows: int, data: str, noun: str = "label") -> NDArray[Any]:
    """Read labels, one for each of the `n_rows` rows of `data`."""
    return _one_per_row(read_labels(spec), spec, n_rows, data, noun)


def _one_per_row(
    labels: NDArray[Any], spec: str, n_rows: int, data: str, noun: str
) -> NDArray[Any]:
    if len(labels) != n_rows:
        raise InputError(
            f"holds {counted(len(labels), noun)}, but {data} has {counted(n_rows, 'row')}; "
            f"one {noun} per row is needed",
            spec,
        )
    return labels


def read_ids(spec: str) -> NDArray[Any]:
    """Read the ids of shape (n,) that `spec` names: integers or strings.

    Cells of a CSV file such as 007 or +7 are text: as numbers they would lose characters.
    """
    path, _ = _split(spec)
    exact = partial(_csv, whole=_ID) if path.suffix.lower() == ".csv" else None
    return _read(spec, _IDS, _as_labels, exact)


def read_row_ids(spec: str, n_rows: int, data: str) -> NDArray[Any]:
    """Read ids, one for each of the `n_rows` rows of `data`."""
    return _one_per_row(read_ids(spec), spec, n_rows, data, "id")


def check_same_kind(labels: dict[str, NDArray[Any]]) -> None:
    """Refuse text labels on one side and numbers on the other: they have no class in common."""
    kinds = {
        spec: "text" if y.dtype.kind in "US" else "whole numbers" for spec, y in labels.items()
    }
    if len(set(kinds.values())) > 1:
        described = " and ".join(f"{spec} holds {kind}" for spec, kind in kinds.items())
        raise InputError(f"labels must be all text or all numbers, but {described}; convert one")


def read_features(spec: str, encoder: LinearEncoder, model: Path) -> NDArray[Any]:
    """Read the columns that the encoder of a model takes, by name if both have names."""
    X = read_table(spec, wanted=encoder.feature_names_in_).X
    check_width(X.shape[1], encoder, spec, f"this encoder of {model}")
    return X


def check_width(width: int, encoder: LinearEncoder, spec: StrPath, who: str) -> None:
    """Refuse rows of another width than the encoder takes."""
    if width != encoder.n_features_in_:
        raise InputError(
            f"has {counted(width, 'column')}, but {who} takes {encoder.n_features_in_}; "
            "check the file and the domain",
            os.fspath(spec),
        )


def encode_rows(
    encoder: LinearEncoder, X: NDArray[Any], title: str, spec: str = ""
) -> NDArray[np.uint8]:
    """Return packed codes of all rows of `spec`; show a progress bar for many."""
    return _encoded(encoder.encode, X, title, spec)


def encode_corrected_rows(
    encoder: LinearEncoder, X: NDArray[Any], title: str, spec: str = ""
) -> CorrectedCodes:
    """Return packed codes and corrections of all rows of `spec`, as `encode_rows` does."""
    return _encoded(encoder.encode_corrected, X, title, spec)


def _encoded(encode: Callable[..., T], X: NDArray[Any], title: str, spec: str) -> T:
    try:
        with countdown(title, visible=may_animate() and len(X) > _MANY) as reach:
            return encode(X, done=lambda rows: reach(rows, len(X)))
    except InputError as error:
        raise InputError(error.problem, spec or error.argument) from error


def check_decoder(encoder: LinearEncoder, model: Path) -> None:
    """Refuse a model that cannot compute corrections."""
    if encoder.decoder_ is None:
        raise InputError(
            "was fitted by an earlier version and cannot compute corrections; fit it again, or "
            "leave out --corrections",
            str(model),
        )


def check_output(path: StrPath, suffixes: Collection[str] = (".npy", ".parquet")) -> Path:
    """Return the path if a file can be written there; called before long work."""
    path = Path(path)
    with named(path, writing=True):
        if path.suffix.lower() not in suffixes:
            raise InputError(f"must end in {' or '.join(suffixes)}, not {path.suffix!r}")
        if path.is_dir():
            raise InputError("is a directory; name a file in it")
        if path.exists() and not path.is_file():
            raise InputError("is a pipe or a device; name a file")
        if not path.parent.is_dir():
            raise InputError(f"the directory {path.parent} does not exist; create it first")
        if not os.access(path.parent, os.W_OK | os.X_OK):
            raise InputError(f"the directory {path.parent} is not writable; choose another one")
        if path.suffix.lower() == ".parquet":
            arrow()
    return path


def check_not_an_input(out: Path, *specs: str) -> None:
    """Refuse an output that would overwrite an input."""
    for spec in specs:
        for path in (spec, spec.rpartition(":")[0]):
            if out.exists() and os.path.exists(path) and out.samefile(path):
                raise InputError(f"is also the input {spec}; choose another name", str(out))


def write_codes(
    path: StrPath,
    codes: NDArray[np.uint8],
    ids: ArrayLike | None = None,
    about: dict[str, str] | None = None,
    corrections: NDArray[np.float16] | None = None,
) -> None:
    """Write packed codes of shape (n, n_bytes) atomically.

    A Parquet file has a column `code` of n_bytes bytes per row and, if given, a column `id`, and
    the columns `offset` and `slope` of corrections. Where the codes come from is written to its
    metadata. Beside a .npy file both are in files of their own.
    """
    if codes.dtype != np.uint8 or codes.ndim != 2:
        raise InputError(f"codes must be uint8 of shape (n, n_bytes), not {codes.dtype}")
    path = check_output(path, _WRITERS if ids is None else (".parquet",))
    ids = None if ids is None else np.asarray(ids)
    if ids is not None and ids.shape != (len(codes),):
        raise InputError(f"ids of shape {ids.shape} do not match {len(codes)} codes", str(path))
    if corrections is not None and corrections.shape != (len(codes), 2):
        raise InputError(f"corrections of shape {corrections.shape} for {len(codes)} codes")
    is_npy = path.suffix.lower() == ".npy"
    if is_npy:  # before the codes, so that codes never lack their corrections
        _write_corrections(corrections_path(path), corrections)
    with named(path, writing=True), atomic_write(path) as temporary:
        _WRITERS[path.suffix.lower()](
            temporary, np.ascontiguousarray(codes), ids, about or {}, corrections
        )
    if is_npy:
        _write_beside(path, codes, about, corrections)


def corrections_path(path: Path) -> Path:
    """Return where the corrections of a .npy file of codes are.

    >>> corrections_path(Path("a/codes.npy")).as_posix()
    'a/codes.corrections.npy'
    """
    return path.with_name(f"{path.stem}.corrections.npy")


def _write_corrections(path: Path, corrections: NDArray[np.float16] | None) -> None:
    """Write the corrections of a .npy file; remove those of codes written before."""
    if corrections is None:
        path.unlink(missing_ok=True)
        return
    with named(path, writing=True), atomic_write(path) as temporary:
        _write_npy(temporary, corrections)


def read_corrections(spec: str, n_codes: int) -> NDArray[np.float16] | None:
    """Return the corrections that were written with the codes of a file; None if there are none."""
    from bridgehash.index.batch import checked_corrections

    path, _ = _split(spec)
    numbers: NDArray[Any]
    if path.suffix.lower() == ".parquet":
        with named(spec):
            if not set(_PAIR) <= set(arrow().parquet.read_schema(path).names):
                return None
            table = arrow().parquet.read_table(path, columns=list(_PAIR))
            numbers = np.column_stack([table[name].to_numpy() for name in _PAIR])
    else:
        spec = os.fspath(corrections_path(path))
        if path.suffix.lower() != ".npy" or not os.path.isfile(spec):
            return None
        numbers = _read(spec, _CORRECTIONS, _not_empty)
        digest = _record_beside(path).get(_CORRECTED)
        if digest not in (None, _digest(numbers)):
            raise InputError(f"is not what was written with {path.name}; encode them again", spec)
    try:
        return checked_corrections(numbers, n_codes)
    except InputError as error:
        raise InputError(error.problem, spec) from error


_BESIDE = ".origin.json"  # added to the name of a .npy file of codes
_METADATA = b"bridgehash_origin"  # key in a Parquet file of codes
_CODED, _CORRECTED = "codes", "corrections"  # digests in the file beside


def _digest(array: NDArray[Any]) -> str:
    return hashlib.sha256(array.tobytes()).hexdigest()


def _write_beside(
    path: Path,
    codes: NDArray[np.uint8],
    about: dict[str, str] | None,
    corrections: NDArray[np.float16] | None,
) -> None:
    """Write the origin of codes beside their file; remove that of codes written before."""
    beside = path.with_name(path.name + _BESIDE)
    if about is None:
        beside.unlink(missing_ok=True)
        return
    record = about | {_CODED: _digest(codes)}
    if corrections is not None:
        record[_CORRECTED] = _digest(corrections)
    with named(beside, writing=True), atomic_write(beside) as temporary:
        temporary.write_text(json.dumps(record, indent=1), encoding="utf-8")


def read_origin(spec: str) -> dict[str, str]:
    """Return where the codes of a file come from: code_space, domain, n_bits; empty if unknown.

    What is written beside a .npy file counts only if the codes are still those it was written for.
    """
    path, _ = _split(spec)
    if path.suffix.lower() == ".parquet":
        with named(spec):
            metadata = arrow().parquet.read_schema(path).metadata or {}
        record = _parsed_record(spec, metadata.get(_METADATA, b"{}").decode())
    else:
        record = _record_beside(path)
    digest = record.get(_CODED)
    if digest is not None and _digest(read_codes(spec)) != digest:
        raise InputError(
            f"has changed since {path.name}{_BESIDE} was written; encode the rows again, or remove "
            "that file if you know where the codes come from",
            spec,
        )
    return {name: text for name, text in record.items() if name not in (_CODED, _CORRECTED)}


def _record_beside(path: Path) -> dict[str, str]:
    """Return what is written beside a .npy file of codes; empty if there is no such file."""
    beside = path.with_name(path.name + _BESIDE)
    text = beside.read_text(encoding="utf-8") if beside.is_file() else "{}"
    return _parsed_record(os.fspath(path), text)


def _parsed_record(spec: str, text: str) -> dict[str, str]:
    with named(spec, "encode the rows again"):
        record = json.loads(text)
        if not isinstance(record, dict) or not all(isinstance(v, str) for v in record.values()):
            raise InputError("the record of its origin is damaged")
        return record


@dataclass(frozen=True)
class _LoadableField(Field):
    """An array or column of a file, and the function that reads it."""

    load: Callable[[], NDArray[Any]]
    columns: tuple[str, ...] = ()  # names, of columns that stand side by side


def _read(
    spec: str,
    want: Want,
    convert: Callable[[NDArray[Any]], NDArray[Any]],
    reader: Callable[[Path], list[_LoadableField]] | None = None,
) -> NDArray[Any]:
    field = _field(spec, want, reader)
    with named(spec):
        return convert(field.load())


def _field(
    spec: str, want: Want, reader: Callable[[Path], list[_LoadableField]] | None = None
) -> _LoadableField:
    """Return the array or column that a spec names, before it is read."""
    path, key = _split(spec)
    if not path.exists():
        raise InputError(f"File not found: {path}")
    with named(spec):
        if path.is_dir():
            raise InputError("is a directory; name a file in it")
        check_regular(path)
        if path.suffix.lower() not in _READERS:
            raise InputError(f"unknown file type {path.suffix!r}; use {', '.join(_READERS)}")
        fields = (reader or _READERS[path.suffix.lower()])(path)
        return choose(fields, path, key, want)


def _split(spec: str) -> tuple[Path, str | None]:
    """Split `path:key`; a path may contain colons, so existing files take precedence."""
    splits: list[tuple[str, str | None]] = [(spec, None)]
    splits += [(spec[:i], spec[i + 1 :]) for i in range(len(spec) - 1, 0, -1) if spec[i] == ":"]
    named = [split for split in splits if Path(split[0]).suffix.lower() in _READERS]
    existing = [split for split in splits if os.path.isfile(split[0])]
    path, key = [*existing, *named, *splits][0]
    return Path(path), key


def _not_empty(array: NDArray[Any]) -> NDArray[Any]:
    check_not_empty(array.shape)
    return array


def _as_matrix(array: NDArray[Any]) -> NDArray[np.floating[Any]]:
    X = np.asarray(_not_empty(array), dtype=float_type(array.dtype), order="C")
    check_finite(X)
    return X


def _as_labels(labels: NDArray[Any]) -> NDArray[Any]:
    y = _not_empty(labels)
    if y.dtype.kind == "S":
        y = np.char.decode(y, "utf-8")
    if y.dtype.kind in "iu":
        return y
    text = y.dtype.kind == "U"
    whole = y if text else y.astype(np.float64)
    bad = y == "" if text else ~((np.trunc(whole) == whole) & (np.abs(whole) < 2**53))
    if bad.any():
        row = int(np.argmax(bad))
        first = f"the first in row {row} (counted from 0): {y[row].item()!r}"
        raise InputError(f"{bad.sum()} labels are neither whole nor text, {first}; fill or drop")
    return y if text else whole.astype(np.int64)


def _npy(path: Path) -> list[_LoadableField]:
    return [_npy_field("", lambda: open(path, "rb"), path.stat().st_size)]


def _npz(path: Path) -> list[_LoadableField]:
    archive = zipfile.ZipFile(path)
    members = [info for info in archive.infolist() if info.filename.endswith(".npy")]
    return [_npy_field(m.filename[:-4], partial(archive.open, m), m.file_size) for m in members]


def _npy_field(name: str, open_file: Callable[[], IO[bytes]], size: int) -> _LoadableField:
    """Describe an array by its header."""
    with open_file() as file:
        header = npy_header(file, size)

    def load() -> NDArray[Any]:
        with open_file() as file:
            array: NDArray[Any] = np.lib.format.read_array(file, allow_pickle=False)
            file.read(1)  # at the end of a zip member its checksum is compared
            return array

    return _loadable(header.field(name), load)


def _loadable(
    field: Field, load: Callable[[], NDArray[Any]], columns: tuple[str, ...] = ()
) -> _LoadableField:
    return _LoadableField(field.name, field.kind, field.ndim, field.note, load, columns)


def _parquet(path: Path) -> list[_LoadableField]:
    file = arrow().parquet.ParquetFile(path)

    def load(column: Column) -> NDArray[Any]:
        return column.convert(file.read(columns=list(column.columns)), 0)

    return [
        _loadable(each, partial(load, each), () if each.name else each.columns)
        for each in parquet_columns(file.schema_arrow)
    ]


def _csv(path: Path, whole: re.Pattern[str] = _WHOLE) -> list[_LoadableField]:
    delimiter = _delimiter(path)
    headed = _has_header(path, delimiter)
    rows = partial(_csv_rows, path, delimiter, headed)
    _, first = next(_csv_rows(path, delimiter), (0, []))
    _, sample = next(rows(), (0, []))
    if not sample:
        raise InputError("is empty; at least one row below the header line is needed")
    fields = []
    for i, cell in enumerate(sample):
        if delimiter != "," and _DECIMAL_COMMA.fullmatch(cell):
            raise InputError(f"{cell!r} has a decimal comma; write numbers with a point")
        name = first[i] if headed else str(i + 1)
        kind = "number" if not cell or _is_number(cell) else "text"
        fields.append(
            _LoadableField(
                name, kind if name else "other", 1, kind, partial(_column, rows, i, whole)
            )
        )
    numeric = [
        i
        for i, (field, cell) in enumerate(zip(fields, sample, strict=True))
        if field.kind == "number" or (field.name and _is_odd_number(cell))
    ]
    if numeric:
        names = tuple(first[i] for i in numeric) if headed else ()
        fields.append(_LoadableField("", "number", 2, "", partial(_columns, rows, numeric), names))
    return fields


def _delimiter(path: Path) -> str:
    """Return what separates the cells of the first line: a comma, a semicolon or a tab."""
    with open(path, newline="", encoding="utf-8-sig") as file:
        line = next(filter(str.strip, file), "")
    for delimiter in ("\t", ";"):
        cells = line.strip().split(delimiter)
        if len(cells) == 1:
            continue
        if "," not in line:
            return delimiter
        if all(_is_number(cell) or _DECIMAL_COMMA.fullmatch(cell) for cell in cells):
            raise InputError(
                f"line 1 has commas and {delimiter!r}; separate cells by one of them and write "
                "numbers with a point"
            )
    return ","


def _csv_rows(path: Path, delimiter: str, headed: bool = False) -> _Rows:
    """Yield line number and cells of each record; skip the header line if `headed`."""
    width = 0
    with open(path, newline="", encoding="utf-8-sig") as file:
        reader = csv.reader(file, delimiter=delimiter, strict=True)
        for row in filter(None, reader):  # blank lines are skipped
            if width and len(row) != width:
                raise InputError(f"line {reader.line_num} has {len(row)} cells, line 1 has {width}")
            if width or not headed:
                yield reader.line_num, [cell.strip() for cell in row]
            width = len(row)


def _has_header(path: Path, delimiter: str) -> bool:
    """Whether the first line names the columns: it has no number, unlike the lines below.

    If all cells are text, a first line that repeats a value of its column is data. The column
    names 0, 1, 2, … that pandas writes are recognised by fractions below them.
    """
    _, first = next(_csv_rows(path, delimiter), (0, []))
    names = [cell for cell in first if cell]
    numbered = len(names) > 1 and names == [str(i) for i in range(len(names))]
    if any(map(_is_number, first)) and not numbered:
        return False
    for _, row in _csv_rows(path, delimiter, headed=True):
        if numbered:
            return any(_is_number(cell) and "." in cell for cell in row)
        if any(map(_is_number, row)):
            return True
        if any(name and name == cell for name, cell in zip(first, row, strict=True)):
            return False
    return not numbered


def _is_number(text: str) -> bool:
    """Whether a cell is a number in ASCII digits; `float` also accepts 1_0 and other digits."""
    return _NUMBER.fullmatch(text) is not None


def _is_odd_number(text: str) -> bool:
    """Whether only Python reads this as a number; a matrix with such a cell is refused."""
    try:
        float(text)
    except ValueError:
        return False
    return not _is_number(text)


def _column(rows: Callable[[], _Rows], i: int, whole: re.Pattern[str]) -> NDArray[Any]:
    """Return a column as integers if possible, else as floats, else as text."""
    cells = [row[i] for _, row in rows()]
    if all(map(whole.fullmatch, cells)):
        with suppress(OverflowError):
            return np.array([int(cell) for cell in cells], dtype=np.int64)
    if whole is _ID and not any("." in cell for cell in cells):
        return np.array(cells)
    if all(map(_is_number, cells)) and not any(map(_EXPONENT.search, cells)):
        return np.array([float(cell) for cell in cells])
    return np.array(cells)


def _columns(rows: Callable[[], _Rows], chosen: list[int]) -> NDArray[Any]:
    parsed = []
    for line, row in rows():
        cells = [row[i] for i in chosen]
        bad = [cell for cell in cells if not _is_number(cell)]
        if bad:
            raise InputError(f"line {line}: {bad[0][:40]!r} is not a number; fill or drop it")
        parsed.append(np.array([float(cell) for cell in cells]))
    return np.array(parsed)


def _write_npy(path: Path, array: NDArray[Any], *_: Any) -> None:
    with open(path, "wb") as file:
        np.save(file, array)


def _write_parquet(
    path: Path,
    codes: NDArray[np.uint8],
    ids: NDArray[Any] | None,
    about: dict[str, str],
    corrections: NDArray[np.float16] | None,
) -> None:
    pa = arrow()
    kind, buffers = pa.binary(codes.shape[1]), [None, pa.py_buffer(codes)]
    columns = {"code": pa.FixedSizeBinaryArray.from_buffers(kind, len(codes), buffers)}
    if ids is not None:
        columns = {"id": pa.array(ids), **columns}
    if corrections is not None:
        numbers = corrections.T.astype(np.float32)
        columns |= {name: pa.array(each) for name, each in zip(_PAIR, numbers, strict=True)}
    table = pa.table(columns)
    if about:
        table = table.replace_schema_metadata({_METADATA: json.dumps(about)})
    pa.parquet.write_table(table, path)


_READERS = {".npy": _npy, ".npz": _npz, ".parquet": _parquet, ".csv": _csv}
_WRITERS: dict[str, Callable[..., None]] = {".npy": _write_npy, ".parquet": _write_parquet}
