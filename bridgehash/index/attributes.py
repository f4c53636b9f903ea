"""Domain and tags of items, and the filters of a search.

Many items share their attributes, so an item has a number that points into a table. A filter first
finds the entries of the table that match, and then the rows of these entries.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat
from threading import Lock
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._core.errors import InputError, unknown

Match = Literal["any", "all"]
Tags = str | Iterable[str]  # of one item, or of a filter


class Attributes(NamedTuple):
    """Domain and tags of an item."""

    domain: str = ""  # empty: not known
    tags: tuple[str, ...] = ()  # sorted, each once, without the empty one


def make_attributes(domain: Any, tags: Any) -> Attributes:
    """Return the attributes of an item: a name, and one text or several."""
    if not isinstance(domain, str):
        raise InputError(f"{domain!r:.60} is not allowed; use one name per code", "domain")
    return Attributes(domain, tuple(tag for tag in as_tags(tags) if tag))


class BatchAttributes(NamedTuple):
    """Attributes of several items: some entries, and which of them each item has."""

    entries: list[Attributes]
    numbers: NDArray[np.intp]  # (n,)


class ItemFilter(NamedTuple):
    """Which items a search may find."""

    tags: tuple[str, ...] | None = None  # sorted, each once; the empty tag: items without tags
    match: Match = "any"
    domain: str | None = None


def as_tags(tags: Any) -> tuple[str, ...]:
    """Return one text or several as sorted texts, each once."""
    texts = (tags,) if isinstance(tags, str) else tuple(tags) if _is_list(tags) else (None,)
    if not all(isinstance(text, str) for text in texts):
        raise InputError(f"{tags!r:.60} is not allowed; use a text or a list of texts", "tags")
    return tuple(sorted(set(texts)))


def _is_list(tags: Any) -> bool:
    return isinstance(tags, list | tuple | set | frozenset | np.ndarray)


def parse_filter(tags: Tags | None, match: Match, domain: str | None) -> ItemFilter | None:
    """Return a filter, or None if everything may be found."""
    if match not in get_args(Match):
        raise InputError(unknown("rule", str(match), get_args(Match)), "match")
    if domain is not None and not isinstance(domain, str):
        raise InputError(f"{domain!r:.60} is not allowed; use the name of a domain", "domain")
    if tags is None:
        return None if domain is None else ItemFilter(domain=domain)
    wanted = as_tags(tags)
    if not wanted:
        raise InputError("is empty; give at least one tag, or none to find all", "tags")
    return ItemFilter(wanted, match if len(wanted) > 1 else "any", domain)


def parse_attributes(
    tags: ArrayLike | None, domain: ArrayLike | None, n: int
) -> BatchAttributes | None:
    """Return the attributes of n items, or None if none were given.

    >>> parse_attributes(["shoe", ["shoe", "red"]], "photo", 2).entries[1]
    Attributes(domain='photo', tags=('red', 'shoe'))
    """
    if tags is None and domain is None:
        return None
    if tags is None and isinstance(domain, str):
        return BatchAttributes([Attributes(domain)], np.zeros(n, np.intp))
    texts = repeat("", n) if tags is None else _one_per_item(tags, n, "tags", "text or list")
    domains: Iterable[Any] = repeat("" if domain is None else domain, n)
    if domain is not None and not isinstance(domain, str):
        domains = _one_per_item(domain, n, "domain", "name")
    known: dict[Any, int] = {}  # numbers of what was given
    numbers: dict[Attributes, int] = {}
    places = np.empty(n, np.intp)
    for i, (name, text) in enumerate(zip(domains, texts, strict=True)):
        key = (name, text) if isinstance(text, str) else (name, *_hashable(text))
        number = known.get(key)
        if number is None:
            entry = make_attributes(name, text)
            number = known[key] = numbers.setdefault(entry, len(numbers))
        places[i] = number
    return BatchAttributes(list(numbers), places)


def _hashable(text: Any) -> tuple[Any, ...]:
    """Return a list of tags as part of a key; three parts differ from the two of a single tag."""
    try:
        key = ("list", tuple(text))
        hash(key)
        return key
    except TypeError:
        return "list", repr(text)


def _one_per_item(values: Any, n: int, argument: str, what: str) -> list[Any]:
    listed = values.tolist() if hasattr(values, "tolist") else values
    if isinstance(listed, str) or not isinstance(listed, Sequence) or len(listed) != n:
        given = f"{listed!r:.40}" if isinstance(listed, str) else f"{_length(listed)} values"
        raise InputError(f"{given}; give one {what} per code, {n} in all", argument)
    return list(listed)


def _length(values: Any) -> str:
    return str(len(values)) if hasattr(values, "__len__") else type(values).__name__


class AttributeTable:
    """Attributes by number. Entries are only added, so states can share a table."""

    def __init__(self, entries: Iterable[Attributes] = (Attributes(),)) -> None:
        self.entries = list(entries)
        self._numbers = {entry: number for number, entry in enumerate(self.entries)}
        self._lock = Lock()
        self._n_listed = 0  # entries in the two lists below, which the first filter makes
        self._with_tag: dict[str, list[int]] = {}
        self._with_domain: dict[str, list[int]] = {}

    def __len__(self) -> int:
        return len(self.entries)

    def __reduce__(self) -> tuple[Any, ...]:
        return AttributeTable, (self.entries,)

    def add(self, entries: Iterable[Attributes]) -> NDArray[np.int32]:
        """Return the numbers of entries; new ones are added."""
        return np.array([self._add(entry) for entry in entries], np.int32)

    def _add(self, entry: Attributes) -> int:
        number = self._numbers.get(entry)
        if number is None:
            number = len(self.entries)
            self.entries.append(entry)  # before its number is known to anyone
            self._numbers[entry] = number
        return number

    def matching(self, wanted: ItemFilter) -> NDArray[np.bool_]:
        """Return which entries match a filter."""
        with self._lock:
            for number in range(self._n_listed, len(self.entries)):
                entry = self.entries[number]
                for tag in entry.tags or ("",):
                    self._with_tag.setdefault(tag, []).append(number)
                self._with_domain.setdefault(entry.domain, []).append(number)
                self._n_listed = number + 1
            n, hits = self._n_listed, np.full(self._n_listed, True)
            if wanted.tags is not None:
                counts = np.zeros(n, np.int32)
                for tag in wanted.tags:
                    counts[self._with_tag.get(tag, [])] += 1
                hits = counts >= (len(wanted.tags) if wanted.match == "all" else 1)
            if wanted.domain is not None:
                inside = np.zeros(n, bool)
                inside[self._with_domain.get(wanted.domain, [])] = True
                hits &= inside
            return hits
