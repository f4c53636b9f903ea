"""Items put in or taken out, and their form in the journal."""

from __future__ import annotations

import json
import struct
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..codes import n_bytes
from ..index import HammingIndex
from ..index.batch import Ids

_PUT, _TAKE = b"+", b"-"
_HEAD = struct.Struct("<cI")  # kind, number of items
_ID = np.dtype("<i8")


class Put(NamedTuple):
    """Codes to add, in place of those that have their ids."""

    codes: NDArray[np.uint8]
    ids: Ids | None = None  # None: the next free ones
    tags: list[str] | None = None


class Take(NamedTuple):
    """Items to remove."""

    ids: Ids


Change = Put | Take


class Changed(NamedTuple):
    """What a change has done."""

    ids: Ids
    n_new: int = 0
    n_replaced: int = 0
    n_removed: int = 0


def as_record(change: Change) -> bytes:
    """A change as bytes; ids must be known by now."""
    ids = np.ascontiguousarray(change.ids, dtype=_ID)
    if isinstance(change, Take):
        return _HEAD.pack(_TAKE, len(ids)) + ids.tobytes()
    tags = b"" if change.tags is None else json.dumps(change.tags).encode("ascii")
    codes = np.ascontiguousarray(change.codes)
    return _HEAD.pack(_PUT, len(ids)) + ids.tobytes() + codes.tobytes() + tags


def from_record(record: bytes, n_bits: int) -> Change:
    """The change behind a record."""
    kind, n = _HEAD.unpack_from(record)
    ids = np.frombuffer(record, _ID, n, _HEAD.size).astype(np.int64)
    if kind == _TAKE:
        return Take(ids)
    start, width = _HEAD.size + n * _ID.itemsize, n_bytes(n_bits)
    codes = np.frombuffer(record, np.uint8, n * width, start).reshape(n, width)
    tags = record[start + n * width :]
    return Put(codes, ids, json.loads(tags) if tags else None)


def apply(index: HammingIndex, change: Change) -> Changed:
    """Carry out a change in memory."""
    assert change.ids is not None, "ids are given before a change is kept"
    before = len(index)
    if isinstance(change, Take):
        return Changed(change.ids, n_removed=index.remove(change.ids))
    tags = None if change.tags is None else np.array([*change.tags, None], dtype=object)[:-1]
    index.upsert(change.codes, change.ids, tags=tags)
    n_new = len(index) - before
    return Changed(change.ids, n_new, len(change.ids) - n_new)
