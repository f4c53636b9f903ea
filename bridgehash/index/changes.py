"""Changes of an index, and how a journal stores them."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..codes import n_bytes
from . import state as states
from .batch import Batch, Ids, checked_batch
from .state import IndexState

_UPSERT, _REMOVE = b"+", b"-"
_HEAD = struct.Struct("<cI")  # kind, number of items
_ID = np.dtype("<i8")


class Add(NamedTuple):
    """Codes to add. An id that exists is an error."""

    codes: ArrayLike
    ids: ArrayLike | None = None  # None: free ones
    tags: ArrayLike | None = None


class Upsert(NamedTuple):
    """Codes to insert, or to replace those with the same ids."""

    codes: ArrayLike
    ids: ArrayLike
    tags: ArrayLike | None = None


class Remove(NamedTuple):
    """Items to remove; unknown ids are ignored."""

    ids: Ids


class ChangeResult(NamedTuple):
    """Ids of a change, and the number of items it affected."""

    ids: Ids
    n_added: int = 0
    n_replaced: int = 0
    n_removed: int = 0


def as_record(change: Batch | Remove) -> bytes:
    """Return a change as bytes."""
    ids = np.ascontiguousarray(change.ids, dtype=_ID)
    if isinstance(change, Remove):
        return _HEAD.pack(_REMOVE, len(ids)) + ids.tobytes()
    tags = b"" if change.tags is None else json.dumps(list(change.tags)).encode("ascii")
    codes = np.ascontiguousarray(change.codes)
    return _HEAD.pack(_UPSERT, len(ids)) + ids.tobytes() + codes.tobytes() + tags


def from_record(record: bytes, n_bits: int) -> Batch | Remove:
    """Return the change that `as_record` wrote."""
    kind, n = _HEAD.unpack_from(record)
    ids = np.frombuffer(record, _ID, n, _HEAD.size).astype(np.int64)
    if kind == _REMOVE:
        return Remove(ids)
    start, width = _HEAD.size + n * _ID.itemsize, n_bytes(n_bits)
    codes = np.frombuffer(record, np.uint8, n * width, start).reshape(n, width)
    text = record[start + n * width :]
    return checked_batch(codes, ids, as_texts(json.loads(text)) if text else None, n_bits, 0)


def as_texts(tags: Any) -> NDArray[Any]:
    """Return texts as an array of objects, which keeps trailing zero characters."""
    return np.array([*tags, None], dtype=object)[:-1]


def apply_records(state: IndexState, records: Sequence[bytes], n_bits: int) -> IndexState:
    """Return a state after all changes of a journal, made at once: the last one of an id counts."""
    changes = [from_record(record, n_bits) for record in records]
    if not changes:
        return state
    ids = np.concatenate([change.ids for change in changes])
    codes = np.concatenate([_codes(change, n_bits) for change in changes])
    tags = np.concatenate([_tags(change) for change in changes])
    kept = np.repeat([isinstance(c, Batch) for c in changes], [len(c.ids) for c in changes])
    _, backwards = np.unique(ids[::-1], return_index=True)
    last = len(ids) - 1 - backwards  # of each id, ids increasing
    upserted, removed = last[kept[last]], last[~kept[last]]
    if len(removed):
        state, _ = states.remove(state, ids[removed])
    has_tags = any(isinstance(change, Batch) and change.tags is not None for change in changes)
    batch = Batch(codes[upserted], ids[upserted], tags[upserted] if has_tags else None)
    return states.upsert(state, batch) if len(upserted) else state


def _codes(change: Batch | Remove, n_bits: int) -> NDArray[np.uint8]:
    if isinstance(change, Remove):
        return np.zeros((len(change.ids), n_bytes(n_bits)), np.uint8)
    return change.codes


def _tags(change: Batch | Remove) -> NDArray[Any]:
    if isinstance(change, Remove) or change.tags is None:
        return np.full(len(change.ids), "", object)
    return change.tags
