"""Changes of an index, and how a journal stores them."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..codes import n_bytes
from . import state as states
from .attributes import AttributeTable, BatchAttributes, make_attributes
from .batch import Batch, checked_batch, valid_corrections
from .ids import Ids, TextIds, kind_of
from .state import IndexState

_UPSERT, _REMOVE = b"+", b"-"
_CORRECTED = b"*"  # an upsert with corrections
_NUMBERS, _TEXT = b"n", b"t"
_HEAD = struct.Struct("<ccI")  # kind of change, kind of ids, number of items
_SIZE = struct.Struct("<I")  # of the attributes, as JSON
_ID, _LENGTH, _NUMBER = np.dtype("<i8"), np.dtype("<u2"), np.dtype("<u4")
_CORRECTION = np.dtype("<f2")


class Add(NamedTuple):
    """Codes to add. An id that exists is an error."""

    codes: ArrayLike
    ids: ArrayLike | None = None  # None: free ones
    tags: ArrayLike | None = None
    domain: ArrayLike | None = None
    corrections: ArrayLike | None = None


class Upsert(NamedTuple):
    """Codes to insert, or to replace those with the same ids."""

    codes: ArrayLike
    ids: ArrayLike
    tags: ArrayLike | None = None
    domain: ArrayLike | None = None
    corrections: ArrayLike | None = None


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
    """Return a change as bytes: head, ids, codes, corrections and attributes if there are any."""
    ids = _ids_as_bytes(change.ids)
    kind = _NUMBERS if kind_of(change.ids) == "numbers" else _TEXT
    if isinstance(change, Remove):
        return _HEAD.pack(_REMOVE, kind, len(change.ids)) + ids
    codes = np.ascontiguousarray(change.codes).tobytes()
    action = _UPSERT
    if change.corrections is not None:
        action, codes = _CORRECTED, codes + change.corrections.astype(_CORRECTION).tobytes()
    head = _HEAD.pack(action, kind, len(change.ids))
    if change.attributes is None:
        return head + ids + codes
    text = json.dumps(change.attributes.entries).encode("ascii")
    numbers = change.attributes.numbers.astype(_NUMBER).tobytes()
    return head + ids + codes + _SIZE.pack(len(text)) + text + numbers


def _ids_as_bytes(ids: Ids) -> bytes:
    if kind_of(ids) == "numbers":
        return ids.astype(_ID).tobytes()
    arrays = TextIds.of(ids).arrays()
    lengths = np.diff(arrays["id_ends"], prepend=0).astype(_LENGTH)
    return lengths.tobytes() + arrays["id_text"].tobytes()


def from_record(record: bytes, n_bits: int) -> Batch | Remove:
    """Return the change that `as_record` wrote."""
    change, kind, n = _HEAD.unpack_from(record)
    if change not in (_UPSERT, _CORRECTED, _REMOVE) or kind not in (_NUMBERS, _TEXT):
        raise ValueError("a record of an unknown kind")
    ids, start = _ids_from_bytes(record, kind, n)
    if change == _REMOVE:
        return Remove(ids)
    width = n_bytes(n_bits)
    codes = np.frombuffer(record, np.uint8, n * width, start).reshape(n, width)
    batch, start = checked_batch(codes, ids, None, None, n_bits), start + n * width
    if change == _CORRECTED:
        pairs = np.frombuffer(record, _CORRECTION, 2 * n, start).reshape(n, 2)
        if not valid_corrections(pairs):
            raise ValueError("corrections out of range")
        batch, start = batch._replace(corrections=pairs), start + pairs.nbytes
    if start == len(record):
        return batch
    (size,) = _SIZE.unpack_from(record, start)
    start += _SIZE.size
    named = json.loads(record[start : start + size])
    entries = [make_attributes(domain, tags) for domain, tags in named]
    numbers = np.frombuffer(record, _NUMBER, n, start + size).astype(np.intp)
    if n and numbers.max() >= len(entries):
        raise ValueError("attributes out of range")
    return batch._replace(attributes=BatchAttributes(entries, numbers))


def _ids_from_bytes(record: bytes, kind: bytes, n: int) -> tuple[Ids, int]:
    """Return the ids of a record and where they end."""
    start = _HEAD.size
    if kind == _NUMBERS:
        return np.frombuffer(record, _ID, n, start).astype(np.int64), start + n * _ID.itemsize
    ends = np.cumsum(np.frombuffer(record, _LENGTH, n, start), dtype=np.int64)
    start += n * _LENGTH.itemsize
    size = int(ends[-1]) if n else 0
    text = np.frombuffer(record, np.uint8, size, start)
    return TextIds(text, ends).between(0, n), start + size


def apply_records(state: IndexState, records: Sequence[bytes], n_bits: int) -> IndexState:
    """Return a state after all changes of a journal."""
    changes = [from_record(record, n_bits) for record in records]
    kinds = {kind_of(change.ids) for change in changes if len(change.ids)}
    if len(kinds) > 1 or state.ids.kind not in (None, *(kinds or [state.ids.kind])):
        raise ValueError("ids of another kind")
    return make_changes(state, changes, n_bits)


def make_changes(state: IndexState, changes: Sequence[Batch | Remove], n_bits: int) -> IndexState:
    """Return a state after changes, made at once: the last one of an id counts.

    Arrays of a large index are copied once, and not once per change.
    """
    changes = [change for change in changes if len(change.ids)]
    if len(changes) == 1:
        (change,) = changes
        if isinstance(change, Batch):
            return states.upsert(state, change)
        return states.remove(state, change.ids)[0]
    if not changes:
        return state
    ids = np.concatenate([change.ids for change in changes])
    codes = np.concatenate([_codes(change, n_bits) for change in changes])
    table = AttributeTable()
    numbers = np.concatenate([_numbers(change, table) for change in changes])
    kept = np.repeat([isinstance(c, Batch) for c in changes], [len(c.ids) for c in changes])
    _, backwards = np.unique(ids[::-1], return_index=True)
    last = len(ids) - 1 - backwards  # of each id, ids increasing
    upserted, removed = last[kept[last]], last[~kept[last]]
    if len(removed):
        state, _ = states.remove(state, ids[removed])
    has_any = any(isinstance(change, Batch) and change.attributes for change in changes)
    attributes = BatchAttributes(table.entries, numbers[upserted]) if has_any else None
    corrections = None
    if any(isinstance(change, Batch) and change.corrections is not None for change in changes):
        corrections = np.concatenate(list(map(_corrections, changes)))[upserted]
    return states.upsert(state, Batch(codes[upserted], ids[upserted], attributes, corrections))


def _codes(change: Batch | Remove, n_bits: int) -> NDArray[np.uint8]:
    if isinstance(change, Remove):
        return np.zeros((len(change.ids), n_bytes(n_bits)), np.uint8)
    return change.codes


def _corrections(change: Batch | Remove) -> NDArray[np.float16]:
    if isinstance(change, Remove) or change.corrections is None:
        return np.full((len(change.ids), 2), np.nan, np.float16)
    return change.corrections


def _numbers(change: Batch | Remove, table: AttributeTable) -> NDArray[np.intp]:
    if isinstance(change, Remove) or change.attributes is None:
        return np.zeros(len(change.ids), np.intp)
    entries, numbers = change.attributes
    return table.add(entries)[numbers].astype(np.intp)
