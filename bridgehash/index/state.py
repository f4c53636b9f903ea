"""The codes of an index at one moment: never changed where a search may read, only replaced.

Codes lie in the order of their ids, word by word. Tags are numbers that point into a list of names.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .batch import Batch, Ids

_ROOM = 8  # one part in so many is kept free when arrays grow


class State(NamedTuple):
    """What a search sees."""

    words: NDArray[np.uint64]  # (n_words, room)
    ids: Ids  # (room,), increasing up to n
    n: int
    tags: NDArray[np.int32] | None = None  # (room,), places in names; None: no code has one
    names: tuple[str, ...] = ("",)


def empty(n_bits: int) -> State:
    """No codes yet."""
    return State(np.empty((-(-n_bits // 64), 0), np.uint64), np.empty(0, np.int64), 0)


def as_words(packed: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Packed codes as 64-bit words, shape (n_words, n); zero bits at the end change no distance."""
    n, n_bytes = packed.shape
    padded = np.zeros((n, -(-n_bytes // 8) * 8), np.uint8)
    padded[:, :n_bytes] = packed
    return np.ascontiguousarray(padded.view(np.uint64).T)


def packed_rows(state: State, rows: NDArray[np.intp], n_bytes: int) -> NDArray[np.uint8]:
    """The packed codes of some rows: the inverse of `as_words`."""
    return np.ascontiguousarray(state.words[:, rows].T).view(np.uint8)[:, :n_bytes]


def found(state: State, ids: Ids) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Where ids are, or would be, and which of them are there."""
    known = state.ids[: state.n]
    rows = np.searchsorted(known, ids)
    there = rows < state.n
    there[there] = known[rows[there]] == ids[there]
    return rows, there


def upserted(state: State, batch: Batch) -> State:
    """A state with a batch in it, in place of those codes that have its ids."""
    state, tags = _numbered(state, batch)
    words = as_words(batch.codes)
    rows, known = found(state, batch.ids)
    if known.any():
        replaced = state.words.copy()
        replaced[:, rows[known]] = words[:, known]
        state = state._replace(words=replaced)
        if tags is not None and state.tags is not None:
            marked = state.tags.copy()
            marked[rows[known]] = tags[known]
            state = state._replace(tags=marked)
    new = ~known
    return _merged(state, words[:, new], batch.ids[new], None if tags is None else tags[new])


def without(state: State, ids: Ids) -> tuple[State, int]:
    """A state without some codes, and how many of them were there."""
    rows, known = found(state, np.unique(ids))
    keep = np.ones(state.n, dtype=bool)
    keep[rows[known]] = False
    return selected(state, np.flatnonzero(keep)), int(known.sum())


def tagged(state: State, tag: str) -> State:
    """The codes of one tag alone."""
    if state.tags is None:
        rows = np.arange(state.n if tag == "" else 0)
    elif tag in state.names:
        rows = np.flatnonzero(state.tags[: state.n] == state.names.index(tag))
    else:
        rows = np.arange(0)
    return selected(state, rows)


def selected(state: State, rows: NDArray[np.intp]) -> State:
    """Some rows of a state, in their order."""
    return State(
        np.ascontiguousarray(state.words[:, rows]),
        state.ids[rows],
        len(rows),
        None if state.tags is None else state.tags[rows],
        state.names,
    )


def _numbered(state: State, batch: Batch) -> tuple[State, NDArray[np.int32] | None]:
    """The batch's tags as numbers, and the state that knows their names."""
    if batch.tags is None:
        return state, None if state.tags is None else np.zeros(len(batch.ids), np.int32)
    places = {name: place for place, name in enumerate(state.names)}
    numbers = [places.setdefault(name, len(places)) for name in batch.tags]
    tags = np.zeros(len(state.ids), np.int32) if state.tags is None else state.tags
    return state._replace(tags=tags, names=tuple(places)), np.array(numbers, np.int32)


def _merged(
    state: State, words: NDArray[np.uint64], ids: Ids, tags: NDArray[np.int32] | None
) -> State:
    """A state with further codes, whose ids are new and in order."""
    n, more = state.n, len(ids)
    if more == 0:
        return state
    if n and ids[0] <= state.ids[n - 1]:  # not at the end: everything is laid out anew
        rows = np.searchsorted(state.ids[:n], ids)
        return State(
            np.insert(state.words[:, :n], rows, words, axis=1),
            np.insert(state.ids[:n], rows, ids),
            n + more,
            None if state.tags is None else np.insert(state.tags[:n], rows, _given(tags)),
            state.names,
        )
    if n + more > len(state.ids) or not state.ids.flags.writeable:
        state = _with_room(state, n + more + n // _ROOM)
    state.words[:, n : n + more], state.ids[n : n + more] = words, ids
    if state.tags is not None:
        state.tags[n : n + more] = _given(tags)
    return state._replace(n=n + more)


def _given(tags: NDArray[np.int32] | None) -> NDArray[np.int32]:
    assert tags is not None, "a state with tags numbers those of every batch"
    return tags


def _with_room(state: State, room: int) -> State:
    n = state.n
    words, ids = np.empty((len(state.words), room), np.uint64), np.empty(room, np.int64)
    words[:, :n], ids[:n] = state.words[:, :n], state.ids[:n]
    if state.tags is None:
        return state._replace(words=words, ids=ids)
    tags = np.zeros(room, np.int32)
    tags[:n] = state.tags[:n]
    return state._replace(words=words, ids=ids, tags=tags)
