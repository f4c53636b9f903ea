"""A model and its index: encode features and search.

Everything here blocks and runs in worker threads. The scan releases the GIL, so threads search in
parallel.
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
from ..index.batch import Ids
from ..models.encoder import LinearEncoder
from .errors import RequestError, invalid
from .images import ImageReader
from .store import IndexStore


@dataclass(frozen=True)
class CatalogueDomain:
    """One domain of a catalogue: its encoder, and its items if any are loaded."""

    encoder: LinearEncoder
    store: IndexStore | None = None
    images: Mapping[int, Path] = field(default_factory=dict)
    reader: ImageReader | None = None  # turns uploaded images into features


class SearchQuery(NamedTuple):
    """Queries of one request."""

    kind: str  # "features", "codes" (checked) or "ids"
    rows: NDArray[Any]
    domain: str
    k: int
    tag: str | None = None


class SearchResult(NamedTuple):
    """Codes of the queries and their nearest items, in order; id -1 if there are fewer than k."""

    queries: NDArray[np.uint8]  # (n, bytes)
    ids: Ids  # (n, k)
    distances: NDArray[np.int32]
    codes: NDArray[np.uint8]  # (n, k, bytes)
    tags: NDArray[Any]  # (n, k), text


@dataclass(frozen=True)
class Catalogue:
    """One model and one index under a name, and items of the other domain if they are loaded."""

    name: str
    method: str
    n_bits: int
    domains: Mapping[str, CatalogueDomain]  # "any" for a one-domain model
    index_domain: str
    query_domain: str

    @property
    def store(self) -> IndexStore:
        """The index that is searched."""
        store = self.domains[self.index_domain].store
        assert store is not None, "a catalogue has an index"
        return store

    def domain(self, name: str | None, default: str) -> tuple[str, CatalogueDomain]:
        """Return the name and the domain for a name that may be left out."""
        name = name or default
        if name not in self.domains:
            known = " or ".join(self.domains)
            raise RequestError(422, f"this model has no domain {name!r}; use {known}", "domain")
        return name, self.domains[name]

    def items(self, domain: str | None) -> tuple[str, HammingIndex]:
        """Return the name of a domain and a snapshot of its items."""
        name, chosen = self.domain(domain, self.index_domain)
        if chosen.store is None:
            raise RequestError(422, f"no items of the {name} domain are loaded", "domain")
        return name, chosen.store.index.snapshot()

    def encode(self, X: NDArray[Any], domain: str) -> NDArray[np.uint8]:
        """Return the packed codes of features."""
        with np.errstate(all="ignore"):
            try:
                H = self.domains[domain].encoder.decision_function(X)
            except ValueError as error:
                raise invalid(error, "features") from error
        if not np.isfinite(H).all():
            raise RequestError(422, "values are too large to encode; scale them down", "features")
        return pack(H)

    def search(self, queries: Sequence[SearchQuery]) -> list[SearchResult | Exception]:
        """Answer several requests, with one pass over the codes per tag."""
        results: list[SearchResult | Exception] = []
        batches: dict[str | None, list[tuple[int, NDArray[np.uint8]]]] = {}
        for i, query in enumerate(queries):
            try:
                codes = self._as_codes(query)
                batches.setdefault(query.tag, []).append((i, codes))
                results.append(RuntimeError("not searched"))
            except Exception as error:
                results.append(error)
        index = self.store.index.snapshot()
        for tag, batch in batches.items():
            k = max(queries[i].k for i, _ in batch)
            distances, ids = index.search(np.concatenate([codes for _, codes in batch]), k, tag=tag)
            exists = ids >= 0
            found_codes, found_tags = index.get(ids[exists])
            codes = np.zeros((*ids.shape, found_codes.shape[1]), np.uint8)
            tags = np.full(ids.shape, "", dtype=object)
            codes[exists], tags[exists] = found_codes, found_tags
            start = 0
            for i, own in batch:
                at = slice(start, start + len(own)), slice(queries[i].k)
                results[i] = SearchResult(own, ids[at], distances[at], codes[at], tags[at])
                start += len(own)
        return results

    def _as_codes(self, query: SearchQuery) -> NDArray[np.uint8]:
        if query.kind == "features":
            return self.encode(query.rows, query.domain)
        if query.kind == "codes":
            return query.rows
        try:
            return self.items(query.domain)[1].get(query.rows)[0]
        except KeyError as error:
            raise RequestError(404, f"no item {error.args[0]}", "ids") from error
