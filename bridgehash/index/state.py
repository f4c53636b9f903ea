"""The codes of an index at one moment. A state is replaced, never changed, while it can be read.

Codes are stored in the order of their ids, word by word. Each code has a number that points into
the table of tags; number 0 is the empty tag.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .batch import Batch, Ids

_GROWTH = 8  # arrays grow by one eighth
_UNUSED_TAGS = 1024  # names that may be kept although no code has them


class TagTable:
    """Names of tags by number. Names are only added, so states can share a table."""

    def __init__(self, names: Iterable[str] = ("",)) -> None:
        self.names = list(names)
        self._numbers = {name: number for number, name in enumerate(self.names)}

    def __len__(self) -> int:
        return len(self.names)

    def number(self, name: str) -> int | None:
        """Return the number of a name, or None if no code ever had this tag."""
        return self._numbers.get(name)

    def add(self, names: Iterable[str]) -> NDArray[np.int32]:
        """Return the numbers of names; new ones are added."""
        return np.array([self._add(name) for name in names], np.int32)

    def _add(self, name: str) -> int:
        number = self._numbers.get(name)
        if number is None:
            number = len(self.names)
            self.names.append(name)  # before its number is known to anyone
            self._numbers[name] = number
        return number


class IndexState(NamedTuple):
    """Codes, ids and tags of an index. Arrays may have unused columns after the first n."""

    words: NDArray[np.uint64]  # (n_words, capacity)
    ids: Ids  # (capacity,), increasing
    n: int
    tag_numbers: NDArray[np.int32] | None = None  # (capacity,), numbers in tags; None: no tags
    tags: TagTable = TagTable()  # of an index without tags; replaced before the first is added

    def used(self) -> IndexState:
        """Return this state without unused columns, as views."""
        return self.map(lambda array: array[..., : self.n])

    def map(self, change: Callable[[NDArray[Any]], NDArray[Any]]) -> IndexState:
        """Return a state whose arrays are changed by a function; n stays."""
        numbers = None if self.tag_numbers is None else change(self.tag_numbers)
        return self._replace(words=change(self.words), ids=change(self.ids), tag_numbers=numbers)


def as_words(packed: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Return packed codes as 64-bit words, shape (n_words, n), padded with zero bits."""
    n, n_bytes = packed.shape
    padded = np.zeros((n, -(-n_bytes // 8) * 8), np.uint8)
    padded[:, :n_bytes] = packed
    return np.ascontiguousarray(padded.view(np.uint64).T)


def as_bytes(words: NDArray[np.uint64]) -> NDArray[np.uint8]:
    """Return words of shape (n_words, n) as rows of bytes: the inverse of `as_words`."""
    return np.ascontiguousarray(words.T).view(np.uint8)


def locate(state: IndexState, ids: Ids) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Return the rows where ids are or would be inserted, and which of the ids exist."""
    known = state.ids[: state.n]
    rows = np.searchsorted(known, ids)
    exists = rows < state.n
    exists[exists] = known[rows[exists]] == ids[exists]
    return rows, exists


def upsert(state: IndexState, batch: Batch) -> IndexState:
    """Return a state with a batch added; codes with the same ids are replaced."""
    state, numbers = _number_tags(state, batch)
    words = as_words(batch.codes)
    rows, exists = locate(state, batch.ids)
    if exists.any():
        replaced = state.words.copy()
        replaced[:, rows[exists]] = words[:, exists]
        state = state._replace(words=replaced)
        if numbers is not None and state.tag_numbers is not None:
            changed = state.tag_numbers.copy()
            changed[rows[exists]] = numbers[exists]
            state = state._replace(tag_numbers=changed)
    new = ~exists
    added = None if numbers is None else numbers[new]
    return _forget_tags(_insert(state, words[:, new], batch.ids[new], added))


def remove(state: IndexState, ids: Ids) -> tuple[IndexState, int]:
    """Return a state without some codes, and how many were removed."""
    rows, exists = locate(state, np.unique(ids))
    keep = np.ones(state.n, dtype=bool)
    keep[rows[exists]] = False
    return _forget_tags(select(state, np.flatnonzero(keep))), int(exists.sum())


def with_tag(state: IndexState, tag: str) -> IndexState:
    """Return the codes of one tag."""
    if state.tag_numbers is None:
        return select(state, np.arange(state.n if tag == "" else 0))
    number = state.tags.number(tag)
    if number is None:
        return select(state, np.arange(0))
    return select(state, np.flatnonzero(state.tag_numbers[: state.n] == number))


def select(state: IndexState, rows: NDArray[np.intp]) -> IndexState:
    """Return some rows of a state, in the given order."""
    return state.map(lambda array: np.ascontiguousarray(array[..., rows]))._replace(n=len(rows))


def own_tags(state: IndexState) -> IndexState:
    """Return a state with a table of tags that no other state has, and only the tags in use."""
    numbers = state.tag_numbers
    if numbers is None:
        return state._replace(tags=TagTable())
    used, places = np.unique(np.append(0, numbers[: state.n]), return_inverse=True)
    renumbered = np.zeros_like(numbers)
    renumbered[: state.n] = places[1:]
    names = state.tags.names
    return state._replace(tag_numbers=renumbered, tags=TagTable(names[i] for i in used.tolist()))


def _forget_tags(state: IndexState) -> IndexState:
    """Drop the names of unused tags when they are the majority."""
    return own_tags(state) if len(state.tags) > 2 * state.n + _UNUSED_TAGS else state


def _number_tags(state: IndexState, batch: Batch) -> tuple[IndexState, NDArray[np.int32] | None]:
    """Return a state whose table has the tags of a batch, and their numbers."""
    if batch.tags is None:
        return state, None if state.tag_numbers is None else np.zeros(len(batch.ids), np.int32)
    if state.tag_numbers is None:
        none = np.zeros(len(state.ids), np.int32)
        state = state._replace(tag_numbers=none, tags=TagTable())
    return state, state.tags.add(batch.tags)


def _insert(
    state: IndexState, words: NDArray[np.uint64], ids: Ids, numbers: NDArray[np.int32] | None
) -> IndexState:
    """Return a state with more codes, whose ids are new and increasing."""
    n, more = state.n, len(ids)
    if more == 0:
        return state
    if n and ids[0] <= state.ids[n - 1]:  # not at the end: copy everything
        state = state.used()
        rows, known = np.searchsorted(state.ids, ids), state.tag_numbers
        return IndexState(
            np.insert(state.words, rows, words, axis=1),
            np.insert(state.ids, rows, ids),
            n + more,
            known if known is None or numbers is None else np.insert(known, rows, numbers),
            state.tags,
        )
    if n + more > len(state.ids) or not state.ids.flags.writeable:
        capacity = n + more + n // _GROWTH

        def grow(array: NDArray[Any]) -> NDArray[Any]:
            grown = np.empty((*array.shape[:-1], capacity), array.dtype)
            grown[..., :n] = array[..., :n]
            return grown

        state = state.map(grow)
    # Readers use the first n columns only, so writing after them is safe.
    state.words[:, n : n + more], state.ids[n : n + more] = words, ids
    if state.tag_numbers is not None and numbers is not None:
        state.tag_numbers[n : n + more] = numbers
    return state._replace(n=n + more)
