"""Index files: written and read whole, each with a journal of the changes after it.

A file has a generation, a random id that is new each time it is written. The journal beside it
(`photos.bhi.journal`) names the generation that its changes belong to, and a file that took in a
journal names that generation as its parent. So the changes of a journal are applied once, and never
to another index.
"""

from __future__ import annotations

import json
import os
import secrets
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._core.errors import InputError, ModelFileError, named
from .._core.files import StrPath
from .._core.journal import JournalContent, read_journal
from ..codes import MAX_BITS, n_bytes
from ..models.model_file import (
    INDEX_KIND,
    FileWatch,
    ModelFile,
    load_model,
    map_model,
    read_header,
    save_model,
)
from .attributes import Attributes, AttributeTable
from .batch import valid_corrections
from .changes import apply_records
from .ids import TABLES, take_texts
from .state import IndexState, own_attributes

_FORMAT = 2  # of index files; earlier ones were never published
_JOURNAL_FORMAT = 3
_ATTEMPTS = 20  # to read a file that is replaced meanwhile


class IndexVersion(NamedTuple):
    """Identifies the content of a file and its journal: any change by anyone gives another."""

    path: Path
    generation: str
    n_changes: int = 0


class IndexFile(NamedTuple):
    """An index as it is on disk, with the changes of its journal."""

    path: Path  # without symbolic links
    n_bits: int
    about: dict[str, str]
    state: IndexState
    generation: str
    parent: str = ""  # generation whose journal was merged into this file
    n_changes: int = 0  # records of the journal
    problem: str = ""  # a journal that is damaged or belongs to another index
    watch: FileWatch | None = None  # of memory-mapped arrays

    @property
    def version(self) -> IndexVersion:
        return IndexVersion(self.path, self.generation, self.n_changes)


def journal_path(path: Path) -> Path:
    """Return the name of the journal of an index file."""
    return path.with_name(path.name + ".journal")


def journal_header(generation: str, n_bits: int) -> bytes:
    """Return the header of the journal of a generation."""
    header = {"journal": _JOURNAL_FORMAT, "generation": generation, "n_bits": n_bits}
    return json.dumps(header).encode("ascii")


def write_index(
    path: StrPath,
    n_bits: int,
    about: dict[str, str],
    state: IndexState,
    *,
    parent: str = "",
    replace: Callable[[Path], object] | None = None,
) -> str:
    """Write an index file atomically and return its generation."""
    state = state.used()
    generation = secrets.token_hex(16)
    header = {
        "index_format": _FORMAT,
        "n_bits": n_bits,
        "ids": state.ids.kind,
        "about": about,
        "generation": generation,
        "parent": parent,
    }
    arrays: dict[str, NDArray[Any]] = {"words": state.words, **state.ids.arrays()}
    if state.numbers is not None:
        state = own_attributes(state)
        arrays["numbers"] = state.numbers  # type: ignore[assignment]
        arrays |= _attribute_arrays(state.attributes)
    if state.corrections is not None:
        arrays["corrections"] = state.corrections
    save_model(path, INDEX_KIND, header, arrays, replace)
    return generation


def read_version(path: Path) -> IndexVersion:
    """Return the version of an index file without reading its codes."""
    kind, header = read_header(path)
    if kind != INDEX_KIND:
        return IndexVersion(path, "")
    generation = str(header.get("generation"))
    owner = journal_header(generation, header.get("n_bits", 0))
    journal = read_journal(journal_path(path))
    return IndexVersion(path, generation, len(journal.records(owner)) + len(journal.missing(owner)))


def read_index(path: StrPath, *, memory_map: bool = False) -> IndexFile:
    """Read an index file and apply its journal: all changes acknowledged before the call.

    A writer may replace the file at any moment, so this is repeated until file and journal belong
    together.
    """
    resolved = Path(path).resolve()
    for _ in range(_ATTEMPTS):
        with named(path), _unchanged(resolved) as unchanged:
            file = (map_model if memory_map else load_model)(path)
            journal = read_journal(journal_path(resolved))
            if unchanged():
                return _replay(_parse(file)._replace(path=resolved), journal)
    raise InputError("is replaced again and again by another process; try again", str(path))


@contextmanager
def _unchanged(path: Path) -> Iterator[Callable[[], bool]]:
    """Yield a function that says whether the path still names the file it names now."""
    if not path.is_file():
        yield lambda: True  # reading it raises a better error
        return
    with open(path, "rb") as file:  # as long as it is open its number is not used again
        yield lambda: os.path.samestat(os.fstat(file.fileno()), os.stat(path))


def _replay(file: IndexFile, journal: JournalContent) -> IndexFile:
    """Return a file with the changes of its journal."""
    header, name = journal_header(file.generation, file.n_bits), journal_path(file.path).name
    if not journal.belongs_to(header):
        if journal.belongs_to(journal_header(file.parent, file.n_bits)):
            return file  # merged already, by a process that was killed then
        what = "is the journal of another index" if journal.is_journal else "cannot be read"
        return file._replace(problem=f"{name}: {what}; its changes, if any, were not applied")
    records, missing = journal.records(header), journal.missing(header)
    n_changes, problem = len(records) + len(missing), ""
    try:
        state = apply_records(file.state, records, file.n_bits)
    except (ValueError, TypeError, KeyError, struct.error, RecursionError) as error:
        raise ModelFileError(f"{name} is not a valid journal ({error}); move it away") from error
    if missing:
        problem = (
            f"{name}: {len(missing)} of {n_changes} acknowledged changes are damaged and are "
            f"lost: {_ranges(missing)}. Make them again"
        )
    return file._replace(state=state, n_changes=n_changes, problem=problem)


def _ranges(numbers: list[int]) -> str:
    """Return numbers as text.

    >>> _ranges([2, 3, 4, 9])
    'number 2 to 4, 9'
    """
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][-1] == number - 1:
            parts[-1][1:] = [number]
        else:
            parts.append([number])
    shown = ", ".join(" to ".join(map(str, part)) for part in parts[:20])
    return f"number {shown}" + (", ..." if len(parts) > 20 else "")


def _parse(file: ModelFile) -> IndexFile:
    """Check that the contents of a file match each other."""
    if file.kind != INDEX_KIND:
        raise ModelFileError(
            f"is a model ({file.kind}), not an index; use bridgehash.load or `bridgehash info`"
        )
    try:
        return _parse_index(file)
    except (ValueError, TypeError, KeyError, IndexError) as error:
        raise ModelFileError(f"is not a valid index ({error}); build it again") from error


def _parse_index(file: ModelFile) -> IndexFile:
    header, arrays = file.header, dict(file.arrays)
    version = header.get("index_format", 1)
    _require(version == _FORMAT, f"format {version!r:.20}, but this version reads {_FORMAT}")
    n_bits, about, generation = header["n_bits"], header["about"], header["generation"]
    _require(type(n_bits) is int and 1 <= n_bits <= MAX_BITS, "n_bits is out of range")
    parent = header["parent"]
    _require(isinstance(generation, str) and isinstance(parent, str), "generation is not text")
    texts = [*about, *about.values()] if isinstance(about, dict) else [None]
    _require(all(isinstance(text, str) for text in texts), "its origin is not text")
    words, ids = arrays.pop("words"), TABLES[header["ids"]].parse(arrays)
    n = len(ids)
    _require(words.dtype == np.uint64 and words.shape == (-(-n_bits // 64), n), "shape of codes")
    _require(not _has_spare_bits(words, n_bits), f"codes of more than {n_bits} bits")
    state = IndexState(_aligned(words), ids, n)
    if "numbers" in arrays:
        numbers, table = arrays.pop("numbers"), _attribute_table(arrays)
        _require(numbers.dtype == np.int32 and numbers.shape == (n,), "shape of numbers")
        inside = n == 0 or (numbers.min() >= 0 and numbers.max() < len(table))
        _require(bool(inside), "a number is out of range")
        state = state._replace(numbers=_aligned(numbers), attributes=table)
    if "corrections" in arrays:
        corrections = arrays.pop("corrections")
        fits = corrections.dtype == np.float16 and corrections.shape == (2, n)
        _require(fits and valid_corrections(corrections.T), "corrections")
        state = state._replace(corrections=_aligned(corrections))
    _require(not arrays, "it has arrays of another kind")
    return IndexFile(file.path, n_bits, dict(about), state, generation, parent, watch=file.watch)


def _attribute_arrays(table: AttributeTable) -> dict[str, NDArray[Any]]:
    """Return a table as arrays: names, and per entry the number of its domain and its tags."""
    names: dict[str, int] = {}
    for domain, tags in table.entries:
        for name in (domain, *tags):
            names.setdefault(name, len(names))
    texts = [name.encode("utf-8", "surrogatepass") for name in names]
    domains = [names[entry.domain] for entry in table.entries]
    tags_of = [[names[tag] for tag in entry.tags] for entry in table.entries]
    return {
        "name_text": np.frombuffer(b"".join(texts), np.uint8),
        "name_ends": np.cumsum([len(text) for text in texts], dtype=np.int64),
        "entry_domains": np.array(domains, np.int32),
        "entry_tags": np.array([tag for tags in tags_of for tag in tags], np.int32),
        "entry_ends": np.cumsum([len(tags) for tags in tags_of], dtype=np.int64),
    }


def _attribute_table(arrays: dict[str, NDArray[Any]]) -> AttributeTable:
    """Take a table out of the arrays of a file, and check it."""
    text, ends = take_texts(arrays, "name")
    data, stops = text.tobytes(), ends.tolist()
    pieces = (data[start:stop] for start, stop in zip([0, *stops], stops, strict=False))
    names = [piece.decode("utf-8", "surrogatepass") for piece in pieces]
    domains, tags, stops = (arrays.pop(f"entry_{name}") for name in ("domains", "tags", "ends"))
    for array, dtype in ((domains, np.int32), (tags, np.int32), (stops, np.int64)):
        _require(array.dtype == dtype and array.ndim == 1, "type of attributes")
        _require(len(array) == 0 or bool(array.min() >= 0), "a negative number")
    _require(0 < len(domains) == len(stops), "number of attributes")
    _require(bool((stops[1:] >= stops[:-1]).all()) and stops[-1] == len(tags), "ends of tags")
    words = [names[number] for number in tags.tolist()]
    bounds = zip([0, *stops.tolist()], stops.tolist(), strict=False)
    entries = [
        Attributes(names[number], tuple(words[start:stop]))
        for number, (start, stop) in zip(domains.tolist(), bounds, strict=True)
    ]
    _require(entries[0] == Attributes(), "the first attributes are not empty")
    _require(len(set(entries)) == len(entries), "attributes that appear twice")
    ordered = all(_is_ordered(entry.tags) for entry in entries if entry.tags)
    _require(ordered, "tags that are empty, not sorted or given twice")
    return AttributeTable(entries)


def _is_ordered(tags: tuple[str, ...]) -> bool:
    return tags[0] != "" and all(a < b for a, b in pairwise(tags))


def _has_spare_bits(words: NDArray[np.uint64], n_bits: int) -> bool:
    """Return whether a code has a bit after the last of its n_bits."""
    used = np.zeros(8 * len(words), np.uint8)
    used[: n_bytes(n_bits)] = 0xFF
    if n_bits % 8:
        used[n_bits // 8] = 0xFF & (0xFF << (8 - n_bits % 8))
    spare = ~used.view(np.uint64)
    return any(bool((row & mask).any()) for row, mask in zip(words, spare, strict=True) if mask)


def _aligned(array: NDArray[Any]) -> NDArray[Any]:
    return np.require(array, requirements=["C", "A"])


def _require(condition: bool, problem: str) -> None:
    if not condition:
        raise ValueError(problem)
