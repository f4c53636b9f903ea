"""Indexes as Parquet files, which other programs can read.

The columns are `id` (int64 or string), `code` (fixed-size binary), `domain` (null if not known) and
`tags` (list of strings); if items have corrections, also `offset` and `slope` (float, null where an
item has none). The metadata of the file has the code length and the origin of the codes.
Rows are written and read in groups, so that no second copy of a large index is in memory.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._core.arrow import arrow
from .._core.errors import InputError, named
from .._core.files import StrPath, atomic_write
from ..codes import MAX_BITS, n_bytes
from .batch import check_number, valid_corrections
from .ids import TABLES, IdKind
from .state import IndexState, as_bytes

_KEY = b"bridgehash"  # of the metadata
_FORMAT = 1
_GROUP = 1 << 16  # rows
_COLUMNS = ("id", "code", "domain", "tags")
_CORRECTIONS = ("offset", "slope")


class ParquetInfo(NamedTuple):
    """What the metadata of an exported index says."""

    n_bits: int
    about: dict[str, str]
    ids: IdKind | None


class ParquetRows(NamedTuple):
    """Some rows of an exported index."""

    codes: NDArray[np.uint8]
    ids: Any
    tags: list[list[str]]
    domains: list[str]
    corrections: NDArray[np.float16] | None  # (n, 2), NaN where there are none


def write_parquet(path: StrPath, info: ParquetInfo, state: IndexState) -> None:
    """Write an index to a Parquet file, completely or not at all."""
    pa = arrow()
    extra = [] if state.corrections is None else _CORRECTIONS
    schema = pa.schema(
        [
            pa.field("id", pa.string() if info.ids == "text" else pa.int64(), nullable=False),
            pa.field("code", pa.binary(n_bytes(info.n_bits)), nullable=False),
            pa.field("domain", pa.string()),
            pa.field("tags", pa.list_(pa.string()), nullable=False),
            *(pa.field(name, pa.float32()) for name in extra),
        ],
        {_KEY: json.dumps({"format": _FORMAT, **info._asdict()})},
    )
    with (
        named(path, writing=True),
        atomic_write(path) as temporary,
        pa.parquet.ParquetWriter(temporary, schema) as writer,
    ):
        for start in range(0, state.n, _GROUP):
            rows = np.arange(start, min(start + _GROUP, state.n))
            columns = [_ids(pa, state, rows), _codes(pa, state, rows, info.n_bits)]
            columns += _attributes(pa, state, rows)
            if state.corrections is not None:
                numbers = state.corrections[:, rows].astype(np.float32)
                columns += [pa.array(each, from_pandas=True) for each in numbers]  # NaN: null
            writer.write_table(pa.table(columns, schema=schema), row_group_size=_GROUP)


def _ids(pa: Any, state: IndexState, rows: NDArray[np.intp]) -> Any:
    arrays = state.ids.select(rows).arrays()
    if "ids" in arrays:
        return pa.array(arrays["ids"])
    offsets = np.append(0, arrays["id_ends"]).astype(np.int32)
    buffers = [pa.py_buffer(array) for array in (offsets, arrays["id_text"])]
    return pa.StringArray.from_buffers(len(rows), *buffers)


def _codes(pa: Any, state: IndexState, rows: NDArray[np.intp], n_bits: int) -> Any:
    codes = np.ascontiguousarray(as_bytes(state.words[:, rows])[:, : n_bytes(n_bits)])
    buffers = [None, pa.py_buffer(codes)]
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(codes.shape[1]), len(rows), buffers)


def _attributes(pa: Any, state: IndexState, rows: NDArray[np.intp]) -> list[Any]:
    numbers = np.zeros(len(rows), np.int32) if state.numbers is None else state.numbers[rows]
    used, places = np.unique(numbers, return_inverse=True)
    entries = [state.attributes.entries[number] for number in used.tolist()]
    try:
        domains = pa.array([entry.domain or None for entry in entries], pa.string())
        tags = pa.array([list(entry.tags) for entry in entries], pa.list_(pa.string()))
    except UnicodeEncodeError as error:
        raise InputError(
            "a tag or domain has half of a surrogate pair, which Parquet cannot store; replace it"
        ) from error
    return [domains.take(pa.array(places)), tags.take(pa.array(places))]


def read_info(path: StrPath) -> ParquetInfo | None:
    """Return the metadata of an exported index, or None if a Parquet file is something else."""
    with named(path):
        metadata = arrow().parquet.read_schema(path).metadata or {}
        if _KEY not in metadata:
            return None
        content = json.loads(metadata[_KEY])
        if not isinstance(content, dict) or content.get("format") != _FORMAT:
            raise InputError(f"is an index of another format; this version reads {_FORMAT}")
        values: list[Any] = [content.get(name) for name in ParquetInfo._fields]
        given = ParquetInfo(*values)
        texts = [*given.about, *given.about.values()] if isinstance(given.about, dict) else [None]
        if not all(isinstance(text, str) for text in texts) or given.ids not in TABLES:
            raise InputError("is not a valid index: its metadata cannot be read; export it again")
        check_number(given.n_bits, "n_bits", 1, MAX_BITS)
        return given


def read_rows(path: StrPath, info: ParquetInfo) -> Iterator[ParquetRows]:
    """Yield the rows of an exported index, group by group."""
    pa = arrow()
    with named(path), pa.parquet.ParquetFile(path) as file:
        types = {"id": pa.string() if info.ids == "text" else pa.int64()}
        types |= {"code": pa.binary(n_bytes(info.n_bits)), "domain": pa.string()}
        types["tags"] = pa.list_(pa.string())
        missing = [name for name in _COLUMNS if name not in file.schema_arrow.names]
        if missing:
            raise InputError(f"has no column {missing[0]!r}; export the index again")
        names = [*_COLUMNS]
        if all(name in file.schema_arrow.names for name in _CORRECTIONS):
            names += _CORRECTIONS
            types |= dict.fromkeys(_CORRECTIONS, pa.float32())
        for table in file.iter_batches(_GROUP, columns=names):
            columns = {name: table.column(name).cast(types[name]) for name in names}
            if any(columns[name].null_count for name in ("id", "code", "tags")):
                raise InputError("has rows without an id, a code or tags; export the index again")
            yield ParquetRows(
                _packed(columns["code"], n_bytes(info.n_bits)),
                columns["id"].to_pylist() if info.ids == "text" else columns["id"].to_numpy(),
                columns["tags"].to_pylist(),
                columns["domain"].fill_null("").to_pylist(),
                _read_corrections(columns),
            )


def _read_corrections(columns: dict[str, Any]) -> NDArray[np.float16] | None:
    if "offset" not in columns:
        return None
    numbers = [columns[name].to_numpy(zero_copy_only=False) for name in _CORRECTIONS]  # null: NaN
    with np.errstate(over="ignore"):
        pairs = np.column_stack(numbers).astype(np.float16)
    if not valid_corrections(pairs):
        raise InputError("has an offset or slope that is out of range; export the index again")
    return pairs


def _packed(column: Any, width: int) -> NDArray[np.uint8]:
    start, size = column.offset * width, len(column) * width
    flat = np.frombuffer(column.buffers()[1], np.uint8, count=size, offset=start)
    return flat.reshape(len(column), width)
