"""The codes of an index at one moment. A state is replaced, never changed, while it can be read.

Codes are stored in the order of their ids, word by word. Each code has a number that points into
the table of attributes; number 0 is neither a domain nor tags.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .attributes import Attributes, AttributeTable, ItemFilter
from .batch import Batch
from .ids import Ids, IdTable, append

_UNUSED_ATTRIBUTES = 1024  # entries that may be kept although no code has them


class IndexState(NamedTuple):
    """Codes, ids and attributes of an index. Arrays may have unused columns after the first n."""

    words: NDArray[np.uint64]  # (n_words, capacity)
    ids: IdTable  # of n ids
    n: int
    numbers: NDArray[np.int32] | None = None  # (capacity,), in attributes; None: all are 0
    attributes: AttributeTable = AttributeTable()  # replaced before the first entry is added
    corrections: NDArray[np.float16] | None = None  # (2, capacity), NaN: none; None: all have none

    def used(self) -> IndexState:
        """Return this state without unused columns, as views."""
        numbers = None if self.numbers is None else self.numbers[: self.n]
        return self._replace(
            words=self.words[:, : self.n],
            ids=self.ids.used(),
            numbers=numbers,
            corrections=None if self.corrections is None else self.corrections[:, : self.n],
        )

    def map(self, change: Callable[[NDArray[Any]], NDArray[Any]]) -> IndexState:
        """Return a state whose arrays are changed by a function; n stays."""
        numbers = None if self.numbers is None else change(self.numbers)
        return self._replace(
            words=change(self.words),
            ids=self.ids.map(change),
            numbers=numbers,
            corrections=None if self.corrections is None else change(self.corrections),
        )

    def entries(self, rows: Any) -> list[Attributes]:
        """Return the attributes of rows."""
        if self.numbers is None:
            return [Attributes()] * len(rows)
        return [self.attributes.entries[number] for number in self.numbers[rows].tolist()]

    def counts(self) -> list[tuple[Attributes, int]]:
        """Return all attributes in use, and how many codes have them."""
        if self.numbers is None:
            return [(Attributes(), self.n)] if self.n else []
        counts = np.bincount(self.numbers[: self.n])
        used = np.flatnonzero(counts)
        entries = self.attributes.entries
        return [(entries[i], int(counts[i])) for i in used.tolist()]

    def matching(self, wanted: ItemFilter) -> NDArray[np.intp]:
        """Return the rows that match a filter, increasing."""
        hits = self.attributes.matching(wanted)
        if self.numbers is None:
            return np.arange(self.n if hits[0] else 0)
        return np.flatnonzero(hits[self.numbers[: self.n]])


def as_words(packed: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Return packed codes as 64-bit words, shape (n_words, n), padded with zero bits."""
    n, n_bytes = packed.shape
    padded = np.zeros((n, -(-n_bytes // 8) * 8), np.uint8)
    padded[:, :n_bytes] = packed
    return np.ascontiguousarray(padded.view(np.uint64).T)


def as_bytes(words: NDArray[np.uint64]) -> NDArray[np.uint8]:
    """Return words of shape (n_words, n) as rows of bytes: the inverse of `as_words`."""
    return np.ascontiguousarray(words.T).view(np.uint8)


def upsert(state: IndexState, batch: Batch) -> IndexState:
    """Return a state with a batch added; codes with the same ids are replaced."""
    if not len(batch.ids):
        return state
    state, numbers = _number_attributes(state, batch)
    state, corrections = _both_corrections(state, batch)
    words = as_words(batch.codes)
    rows, exists = state.ids.locate(batch.ids)
    if exists.any():
        replaced = state.words.copy()
        replaced[:, rows[exists]] = words[:, exists]
        state = state._replace(words=replaced)
        if numbers is not None and state.numbers is not None:
            changed = state.numbers.copy()
            changed[rows[exists]] = numbers[exists]
            state = state._replace(numbers=changed)
        if corrections is not None and state.corrections is not None:
            corrected = state.corrections.copy()
            corrected[:, rows[exists]] = corrections[:, exists]
            state = state._replace(corrections=corrected)
    new = ~exists
    added = None if numbers is None else numbers[new]
    more = None if corrections is None else corrections[:, new]
    return _forget(_insert(state, rows[new], words[:, new], batch.ids[new], added, more))


def remove(state: IndexState, ids: Ids) -> tuple[IndexState, int]:
    """Return a state without some codes, and how many were removed."""
    if not len(ids):
        return state, 0
    rows, exists = state.ids.locate(np.unique(ids))
    keep = np.ones(state.n, dtype=bool)
    keep[rows[exists]] = False
    left = np.flatnonzero(keep)
    numbers = None if state.numbers is None else state.numbers[left]
    words = np.ascontiguousarray(state.words[:, left])
    known = state.corrections
    corrections = None if known is None else np.ascontiguousarray(known[:, left])
    kept = IndexState(
        words, state.ids.select(left), len(left), numbers, state.attributes, corrections
    )
    return _forget(kept), int(exists.sum())


def own_attributes(state: IndexState) -> IndexState:
    """Return a state with a table that no other state has, and only the attributes in use."""
    numbers = state.numbers
    if numbers is None:
        return state._replace(attributes=AttributeTable())
    used, places = np.unique(np.append(0, numbers[: state.n]), return_inverse=True)
    renumbered = np.zeros_like(numbers)
    renumbered[: state.n] = places[1:]
    entries = state.attributes.entries
    table = AttributeTable(entries[i] for i in used.tolist())
    return state._replace(numbers=renumbered, attributes=table)


def _forget(state: IndexState) -> IndexState:
    """Drop unused attributes when they are the majority."""
    many = len(state.attributes) > 2 * state.n + _UNUSED_ATTRIBUTES
    return own_attributes(state) if many else state


def _number_attributes(
    state: IndexState, batch: Batch
) -> tuple[IndexState, NDArray[np.int32] | None]:
    """Return a state whose table has the attributes of a batch, and their numbers."""
    if batch.attributes is None:
        return state, None if state.numbers is None else np.zeros(len(batch.ids), np.int32)
    if state.numbers is None:
        none = np.zeros(state.n, np.int32)
        state = state._replace(numbers=none, attributes=AttributeTable())
    entries, numbers = batch.attributes
    return state, state.attributes.add(entries)[numbers]


def _both_corrections(
    state: IndexState, batch: Batch
) -> tuple[IndexState, NDArray[np.float16] | None]:
    """Return a state and the corrections of a batch, shape (2, n): both None, or neither."""
    if batch.corrections is not None:
        if state.corrections is None:
            state = state._replace(corrections=np.full((2, state.n), np.nan, np.float16))
        return state, np.ascontiguousarray(batch.corrections.T)
    none = None if state.corrections is None else np.full((2, len(batch.ids)), np.nan, np.float16)
    return state, none


def _insert(
    state: IndexState,
    rows: NDArray[np.intp],
    words: NDArray[np.uint64],
    ids: Ids,
    numbers: NDArray[np.int32] | None,
    corrections: NDArray[np.float16] | None,
) -> IndexState:
    """Return a state with more codes, whose ids are new and increasing, at their rows."""
    n, more = state.n, len(ids)
    if more == 0:
        return state

    def put(array: NDArray[Any], values: NDArray[Any]) -> NDArray[Any]:
        if rows[0] == n:
            return append(array, n, values)
        return np.insert(array[..., :n], rows, values, axis=-1)  # not at the end: copy everything

    known, corrected = state.numbers, state.corrections
    return IndexState(
        put(state.words, words),
        state.ids.insert(rows, ids),
        n + more,
        known if known is None or numbers is None else put(known, numbers),
        state.attributes,
        corrected if corrected is None or corrections is None else put(corrected, corrections),
    )
