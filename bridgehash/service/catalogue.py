"""A model and its index: what can be asked of them, and what comes back.

Everything here is plain and blocking; it runs in threads, several at a time. The scan lets go of
the interpreter, so threads search side by side.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..codes import pack
from ..index import HammingIndex
from ..index.batch import Ids, packed_codes
from ..models.encoder import LinearEncoder
from .errors import Refused, invalid
from .images import ImageReader
from .store import Store


@dataclass(frozen=True)
class Side:
    """One domain: how it is encoded, and which of its items can be shown."""

    encoder: LinearEncoder
    store: Store | None = None
    pictures: Mapping[int, Path] = field(default_factory=dict)
    reader: ImageReader | None = None  # from an image to features


class Question(NamedTuple):
    """Queries of one request, in one of three forms."""

    domain: str
    k: int
    features: NDArray[Any] | None = None
    codes: NDArray[np.uint8] | None = None
    ids: Ids | None = None
    tag: str | None = None


class Found(NamedTuple):
    """Queries as codes, and the nearest items of each, in order; id -1 where there is none."""

    queries: NDArray[np.uint8]
    ids: Ids  # (n, k)
    distances: NDArray[np.int32]
    codes: NDArray[np.uint8]  # (n, k, bytes)
    tags: list[list[str]]


@dataclass(frozen=True)
class Catalogue:
    """One model and one index, under a name; the other domain's items where there are any."""

    name: str
    method: str
    n_bits: int
    sides: Mapping[str, Side]  # by domain; "any" for a model of one
    index_domain: str
    query_domain: str

    @property
    def store(self) -> Store:
        """The index that is searched."""
        store = self.sides[self.index_domain].store
        assert store is not None, "a catalogue has an index"
        return store

    def side(self, domain: str | None, default: str) -> tuple[str, Side]:
        """A domain of the model, by name."""
        name = domain or default
        if name not in self.sides:
            known = " or ".join(self.sides)
            raise invalid(f"domain: this model has no domain {name!r}; give {known}", "domain")
        return name, self.sides[name]

    def items_of(self, domain: str | None) -> tuple[str, Side, HammingIndex]:
        """The items of a domain as they are now."""
        name, side = self.side(domain, self.index_domain)
        if side.store is None:
            raise invalid(f"domain: no items of the {name} domain are loaded", "domain")
        return name, side, side.store.index.snapshot()

    def encode(self, X: NDArray[Any], domain: str) -> NDArray[np.uint8]:
        """Packed codes of features."""
        with np.errstate(all="ignore"):
            try:
                H = self.sides[domain].encoder.decision_function(X)
            except ValueError as error:
                reason = str(error).partition("\n")[0]
                raise invalid(f"features: {reason}", "features") from error
        if not np.isfinite(H).all():
            raise invalid("features: too large to be encoded; scale them", "features")
        return pack(H)

    def checked(self, codes: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Codes from outside, if they are of this length."""
        try:
            return packed_codes(codes, self.n_bits)
        except ValueError as error:
            raise invalid(str(error), "codes") from error

    def as_codes(self, question: Question) -> NDArray[np.uint8]:
        """The queries as codes, whatever they were given as."""
        if question.codes is not None:
            return self.checked(question.codes)
        if question.features is not None:
            return self.encode(question.features, question.domain)
        index = self.items_of(question.domain)[2]
        try:
            return index.get(question.ids if question.ids is not None else [])[0]
        except KeyError as error:
            raise Refused(404, f"ids: there is no item {error.args[0]}", "ids") from error

    def search(self, questions: Sequence[Question]) -> list[Found | Exception]:
        """Answers to several requests, those of one tag by one pass over the codes."""
        answers: list[Found | Exception] = []
        for question in questions:
            try:
                nothing = np.empty((0, 0), np.int64)
                codes = self.as_codes(question)
                answers.append(Found(codes, nothing, nothing.astype(np.int32), codes, []))
            except Exception as error:
                answers.append(error)
        index = self.store.index.snapshot()
        for tag in {question.tag for question in questions}:
            places = [i for i, q in enumerate(questions) if q.tag == tag]
            self._search_together(index, questions, answers, places)
        return answers

    def _search_together(
        self,
        index: HammingIndex,
        questions: Sequence[Question],
        answers: list[Found | Exception],
        places: list[int],
    ) -> None:
        asked = [(i, found) for i in places if isinstance(found := answers[i], Found)]
        if not asked:
            return
        k = max(questions[i].k for i, _ in asked)
        queries = np.concatenate([found.queries for _, found in asked])
        distances, ids = index.search(queries, k, tag=questions[places[0]].tag)
        codes, tags = _looked_up(index, ids)
        start = 0
        for i, found in asked:
            rows, k = slice(start, start + len(found.queries)), questions[i].k
            start = rows.stop
            named = [row[:k] for row in tags[rows]]
            answers[i] = Found(
                found.queries, ids[rows, :k], distances[rows, :k], codes[rows, :k], named
            )


def _looked_up(index: HammingIndex, ids: Ids) -> tuple[NDArray[np.uint8], list[list[str]]]:
    """Codes and tags of what was found; zeros and nothing where nothing was."""
    there = ids >= 0
    if there.all():
        found, names = index.get(ids.ravel())
        k = ids.shape[1]
        tags = [names[start : start + k] for start in range(0, len(names), k)]
        return found.reshape(*ids.shape, -1), tags
    found, names = index.get(ids[there])
    codes = np.zeros((*ids.shape, found.shape[1]), np.uint8)
    codes[there] = found
    shown = np.full(ids.shape, "", dtype=object)
    shown[there] = names
    return codes, shown.tolist()
