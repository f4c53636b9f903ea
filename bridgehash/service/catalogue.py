"""A model and its index: open the files, encode features, search and score.

Everything here blocks and runs in worker threads. The scan releases the GIL, so threads search in
parallel.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._core.errors import (
    BridgehashError,
    DecoderWarning,
    IdExistsError,
    InputError,
    JournalError,
)
from ..codes import n_bytes, pack, unpack
from ..index import HammingIndex, IndexStore
from ..index.attributes import Attributes, ItemFilter
from ..index.changes import Add, ChangeResult, Remove, Upsert
from ..index.ids import Ids, kind_of, no_ids
from ..index.scan import prepare_many
from ..metrics import (
    distance_histogram,
    mean_average_precision,
    precision_at,
    radius_pr_area,
    radius_pr_curve,
)
from ..models import persistence
from ..models.base import BaseTransferHasher
from ..models.encoder import LinearEncoder
from ..models.provenance import check_same_space, code_space, encoder_of
from ..models.rejector import Rejector
from .errors import RequestError, invalid, overloaded
from .images import ImageReader, find_images
from .settings import ServiceSettings

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_MAX_QUERIES = 1_000  # that are scored
_MAX_PAIRS = 100_000_000  # distances computed for scores
_MAX_WEIGHT = 1e28  # a score is a sum of weights times a float16, and must be finite in float32
_ANY = "any"  # the domain of a one-domain model


@dataclass(frozen=True)
class CatalogueDomain:
    """One domain of a catalogue: its encoder, and its items if any are loaded."""

    encoder: LinearEncoder
    store: IndexStore | None = None
    images: Mapping[int | str, Path] = field(default_factory=dict)
    reader: ImageReader | None = None  # turns uploaded images into features
    rejector: Rejector | None = None  # of queries without a counterpart in the other domains
    code_rejector: Rejector | None = None  # the same, if only the code of a query is known

    def rejector_of(self, kind: str) -> Rejector | None:
        """Return what rejects queries of a kind: features, codes or ids."""
        return self.rejector if kind == "features" else self.code_rejector


class SearchQuery(NamedTuple):
    """Queries of one request."""

    kind: str  # "features", "codes" (checked) or "ids"
    rows: Any  # an array, or a list of text ids
    domain: str
    k: int
    filter: ItemFilter | None = None
    weighted: bool = False  # rank by weights; needs features
    reject: bool = False  # leave out the items of rejected queries


class EncodedRows(NamedTuple):
    """Codes of rows, what their bits count in a weighted search, and which rows are rejected."""

    codes: NDArray[np.uint8]  # (n, bytes)
    weights: NDArray[np.floating[Any]] | None = None  # (n, bits)
    rejected: NDArray[np.bool_] | None = None  # (n,); None: the model cannot tell


class SearchResult(NamedTuple):
    """Codes of the queries and their nearest items, in order; no id if there are fewer than k."""

    queries: NDArray[np.uint8]  # (n, bytes)
    ids: Ids  # (n, k)
    distances: NDArray[np.int32]
    codes: NDArray[np.uint8]  # (n, k, bytes)
    attributes: NDArray[Any]  # (n, k), of `Attributes`
    scores: NDArray[np.float32] | None = None  # (n, k), of a weighted search
    rejected: NDArray[np.bool_] | None = None  # (n,); None: not known

    def without_rejected(self, n_bits: int) -> SearchResult:
        """Return the result without the items of rejected queries."""
        if self.rejected is None or not self.rejected.any():
            return self
        none, k = self.rejected, self.ids.shape[1]
        ids, distances = self.ids.copy(), self.distances.copy()
        codes, attributes = self.codes.copy(), self.attributes.copy()
        ids[none] = no_ids(int(none.sum()), k, kind_of(ids))
        distances[none], codes[none], attributes[none] = n_bits + 1, 0, None
        scores = None if self.scores is None else np.where(none[:, None], np.inf, self.scores)
        return SearchResult(self.queries, ids, distances, codes, attributes, scores, none)


@dataclass(frozen=True)
class Catalogue:
    """One model and one index under a name, and items of another domain if they are loaded."""

    name: str
    method: str
    n_bits: int
    domains: Mapping[str, CatalogueDomain]  # "any" for a one-domain model
    index_domain: str
    query_domain: str
    stores_corrections: bool = False  # of items that are added with features

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

    def name_of(self, domain: str) -> str | None:
        """Return the domain to store with items; None for a one-domain model."""
        return domain if len(self.domains) > 1 else None

    def items(self, domain: str | None) -> tuple[str, HammingIndex]:
        """Return the name of a domain and a snapshot of its items."""
        name, chosen = self.domain(domain, self.index_domain)
        if chosen.store is None:
            raise RequestError(422, f"no items of the {name} domain are loaded", "domain")
        return name, chosen.store.index.snapshot()

    def encode(self, X: NDArray[Any], domain: str) -> NDArray[np.uint8]:
        """Return the packed codes of features."""
        with np.errstate(all="ignore"):  # a sum of large values may overflow; that is no error
            try:
                return self.domains[domain].encoder.encode(X)
            except ValueError as error:
                raise invalid(error, "features") from error

    def encode_items(
        self, X: NDArray[Any], domain: str
    ) -> tuple[NDArray[np.uint8], NDArray[np.float16] | None]:
        """Return the packed codes of items to be added, and their corrections if they get any."""
        if not self.stores_corrections:
            return self.encode(X, domain), None
        with np.errstate(all="ignore"):
            try:
                return self.domains[domain].encoder.encode_corrected(X)
            except ValueError as error:
                raise invalid(error, "features") from error

    def can_weigh(self, domain: str) -> bool:
        """Return whether queries of a domain can be ranked by weights.

        Not if the index has corrections and the model was fitted by a version that learned no
        decoder: corrections do not suit projections.
        """
        return self.domains[domain].encoder.decoder_ is not None or (
            not self.store.index.has_corrections
        )

    def can_reject(self, kind: str, domain: str, wanted: ItemFilter | None) -> bool:
        """Return whether the model can tell which queries of a domain have no counterpart.

        Not within items of the same domain: what has no counterpart elsewhere may have one there.
        """
        searched = (wanted and wanted.domain) or self.index_domain
        return self.domains[domain].rejector_of(kind) is not None and searched != domain

    def encode_queries(self, X: NDArray[Any], domain: str) -> EncodedRows:
        """Return the packed codes of features, and what each of their bits counts.

        That is their projections, if the model was fitted by a version that learned no decoder.
        """
        encoder = self.domains[domain].encoder
        with np.errstate(all="ignore"):
            try:
                H = encoder.decision_function(X)
            except ValueError as error:
                raise invalid(error, "features") from error
            most = _MAX_WEIGHT * (encoder.decoder_.unit if encoder.decoder_ else 1.0)
            clipped = np.clip(H, -most, most)
            weights = encoder.decoder_.weights(clipped) if encoder.decoder_ else clipped
        return EncodedRows(pack(H), weights)

    def search(self, queries: Sequence[SearchQuery]) -> list[SearchResult | Exception]:
        """Answer several requests, with one pass over the codes per filter and kind of ranking."""
        results: list[SearchResult | Exception] = []
        batches: dict[tuple[ItemFilter | None, bool], list[tuple[int, EncodedRows]]] = {}
        for i, (query, encoded) in enumerate(zip(queries, self._encoded(queries), strict=True)):
            if isinstance(encoded, Exception):
                results.append(encoded)
            else:
                batches.setdefault((query.filter, query.weighted), []).append((i, encoded))
                results.append(RuntimeError("not searched"))
        index = self.store.index.snapshot()
        for (wanted, weighted), batch in batches.items():
            k = max(queries[i].k for i, _ in batch)
            asked = np.concatenate([own.codes for _, own in batch])
            scores = None
            if weighted:
                weights = np.concatenate(
                    [own.weights for _, own in batch if own.weights is not None]
                )
                scores, rows = index.best_rows(asked, weights, k, wanted)
            else:
                distances, rows = index.search_rows(asked, k, wanted)
            exists = rows >= 0
            found_ids, found = index.at(rows[exists])
            ids = no_ids(len(asked), k, index.id_kind)
            codes = np.zeros((*rows.shape, found.codes.shape[1]), np.uint8)
            attributes = np.full(rows.shape, None, dtype=object)
            pairs = map(Attributes, found.domains, found.tags)
            ids[exists], codes[exists] = found_ids, found.codes
            attributes[exists] = np.fromiter(pairs, object, len(found_ids))
            if weighted:
                distances = np.bitwise_count(codes ^ asked[:, None]).sum(axis=2, dtype=np.int32)
                distances[~exists] = self.n_bits + 1
            start = 0
            for i, own in batch:
                n = len(own.codes)
                query, at = queries[i], (slice(start, start + n), slice(queries[i].k))
                told = self.can_reject(query.kind, query.domain, wanted)
                result = SearchResult(
                    own.codes,
                    ids[at],
                    distances[at],
                    codes[at],
                    attributes[at],
                    None if scores is None else scores[at],
                    own.rejected if told else None,
                )
                results[i] = result.without_rejected(self.n_bits) if query.reject else result
                start += n
        return results

    def change(self, changes: Sequence[Add | Upsert | Remove]) -> list[ChangeResult | Exception]:
        """Make several changes, with one fsync."""
        return [
            _as_request_error(result) if isinstance(result, BridgehashError) else result
            for result in self.store.change(changes)
        ]

    def _encoded(self, queries: Sequence[SearchQuery]) -> list[EncodedRows | Exception]:
        """Return the codes of several requests, or their errors; features are encoded together."""
        encoded: list[EncodedRows | Exception] = [RuntimeError("no codes")] * len(queries)
        groups: dict[tuple[object, ...], list[int]] = {}
        for i, query in enumerate(queries):
            alike = query.kind == "features" and (query.domain, query.rows.dtype, query.weighted)
            groups.setdefault((alike or i,), []).append(i)
        for group in groups.values():
            rows = [queries[i].rows for i in group]
            joined = rows[0] if len(rows) == 1 else np.concatenate(rows)
            try:
                together = self._encode_query(queries[group[0]]._replace(rows=joined))
                ends = np.cumsum([len(each) for each in rows])
                parts: Sequence[Any] = _split(together, ends[:-1])
            except Exception as error:  # of one of them: the others are encoded alone
                parts = (
                    [error] if len(group) == 1 else [self._encoded([queries[i]])[0] for i in group]
                )
            for i, part in zip(group, parts, strict=True):
                encoded[i] = part
        return encoded

    def _encode_query(self, query: SearchQuery) -> EncodedRows:
        encoded = self._codes_of(query)
        rejector = self.domains[query.domain].rejector_of(query.kind)
        if rejector is None:
            return encoded
        known = query.rows if query.kind == "features" else unpack(encoded.codes, self.n_bits)
        with np.errstate(all="ignore"):
            return encoded._replace(rejected=rejector.rejects(known))

    def _codes_of(self, query: SearchQuery) -> EncodedRows:
        if query.kind == "features":
            if query.weighted:
                return self.encode_queries(query.rows, query.domain)
            return EncodedRows(self.encode(query.rows, query.domain))
        if query.kind == "codes":
            return EncodedRows(query.rows)
        try:
            return EncodedRows(self.items(query.domain)[1].get(query.rows)[0])
        except KeyError as error:
            raise RequestError(404, f"no item {error.args[0]}", "ids") from error
        except InputError as error:
            raise invalid(error, "ids") from error


def _split(rows: EncodedRows, ends: NDArray[np.intp]) -> list[EncodedRows]:
    """Return the rows of each request."""
    parts = (None if part is None else np.split(part, ends) for part in rows)
    nothing = [None] * (len(ends) + 1)
    return [EncodedRows(*each) for each in zip(*(part or nothing for part in parts), strict=True)]


def _as_request_error(error: BridgehashError) -> RequestError:
    """Return the response to a change that was not made."""
    if isinstance(error, IdExistsError):
        return RequestError(409, f"item {error.id} exists; replace it with PUT", "ids")
    if isinstance(error, JournalError):
        return overloaded(str(error))
    return (
        invalid(error, error.argument)
        if isinstance(error, InputError)
        else RequestError(500, str(error))
    )


def measure_scores(catalogue: Catalogue) -> dict[str, Any]:
    """Score the loaded items; those with equal tags are of one class.

    The queries are those of the query domain, or items of the index if none are loaded.
    """
    query_domain = catalogue.query_domain
    if catalogue.domains[query_domain].store is None:
        query_domain = catalogue.index_domain
    n_items = len(catalogue.store.index)
    n_queries = max(1, min(_MAX_QUERIES, _MAX_PAIRS // max(n_items, 1)))
    queries, query_tags = _sample(catalogue.items(query_domain)[1], n_queries)
    items, item_tags = _sample(catalogue.items(catalogue.index_domain)[1], n_items)
    classes = sorted({*query_tags, *item_tags} - {()})
    number = {(): -1, **{tags: i for i, tags in enumerate(classes)}}
    y_query, y_item = ([number[tag] for tag in tags] for tags in (query_tags, item_tags))
    if len(classes) < 2 or not set(y_query) & set(y_item) - {-1}:
        raise RequestError(404, "no scores: items and queries need at least two different tags")
    histogram = distance_histogram(queries, items, y_query, y_item, n_bits=catalogue.n_bits)
    recall, precision = radius_pr_curve(histogram, include_max_radius=True)
    return {
        "catalogue": catalogue.name,
        "query_domain": query_domain,
        "n_queries": len(queries),
        "n_items": len(items),
        "radius_pr_area": radius_pr_area(histogram),
        "mean_average_precision": float(mean_average_precision(histogram)),
        "precision_at_10": float(precision_at(histogram, 10)),
        "recall": recall.tolist(),
        "precision": precision.tolist(),
    }


def _sample(index: HammingIndex, n: int) -> tuple[NDArray[np.uint8], list[tuple[str, ...]]]:
    """Return codes and tags of at most n items, evenly spaced."""
    total = len(index)
    if total == 0:
        raise RequestError(404, "no scores: no items are loaded")
    _, items = index.at(np.linspace(0, total - 1, min(total, n)).astype(int))
    return items.codes, items.tags


@dataclass(frozen=True)
class Files:
    """Files of one catalogue."""

    model: Path
    index: Path
    queries: Path | None = None  # an index of another domain, to pick queries from
    images: Path | None = None
    query_images: Path | None = None
    backbone: str | None = None


def open_catalogues(files: Sequence[Files], settings: ServiceSettings) -> dict[str, Catalogue]:
    """Open all catalogues, by name; if one fails, close those opened before."""
    opened: dict[str, Catalogue] = {}
    readers: dict[str, ImageReader] = {}
    try:
        for each in files:
            name = catalogue_name(each.index)
            if name in opened:
                raise InputError(f"a second index named {name}; rename one", str(each.index))
            opened[name] = _open(name, each, settings, readers)
    except BaseException:
        close_catalogues(opened)
        raise
    return opened


def close_catalogues(catalogues: dict[str, Catalogue]) -> None:
    """Close all files."""
    for catalogue in catalogues.values():
        for domain in catalogue.domains.values():
            if domain.store is not None:
                domain.store.close()


def catalogue_name(index: Path) -> str:
    """Return the name of a catalogue: that of its index file, without the suffix.

    >>> catalogue_name(Path("data/photos.bhi"))
    'photos'
    """
    if not _NAME.fullmatch(index.stem):
        raise InputError(
            "the file name is part of URLs; rename it to at most 64 letters, digits, dots, hyphens "
            "and underscores",
            str(index),
        )
    return index.stem


def _open(
    name: str, files: Files, settings: ServiceSettings, readers: dict[str, ImageReader]
) -> Catalogue:
    model = persistence.load(files.model)
    limits = settings.limits
    store = IndexStore.open(
        files.index, writable=settings.writable, max_journal_bytes=limits.journal_bytes
    )
    try:
        index_domain, query_domain = _find_domains(model, store, files)
        encoders = _encoders_of(model, files.model)
        space = code_space(model)
        _check_fits(store, files.model, space, encoders[index_domain])
        reader = _find_reader(files, encoders[query_domain], readers)
        queries = _open_queries(files, space, encoders[query_domain])
        kind = None if queries is None else queries.index.id_kind
        query_images = find_images(files.query_images, kind)
        rejectors, of_codes = (
            getattr(model, name, None) or {} for name in ("rejectors_", "code_rejectors_")
        )
        domains = {
            name: CatalogueDomain(
                encoder, rejector=rejectors.get(name), code_rejector=of_codes.get(name)
            )
            for name, encoder in encoders.items()
        }
        domains[query_domain] = replace(
            domains[query_domain], store=queries, images=query_images, reader=reader
        )
        domains[index_domain] = replace(
            domains[index_domain],
            store=store,
            images=find_images(files.images, store.index.id_kind),
            reader=reader if index_domain == query_domain else None,
        )
        inner = getattr(model, "hasher", None)
        method = type(model).__name__ + ("" if inner is None else f"({type(inner).__name__})")
        n_bits = store.index.n_bits
        catalogue = Catalogue(
            name, method, n_bits, domains, index_domain, query_domain, model.stores_corrections
        )
        if not catalogue.can_weigh(query_domain):
            warnings.warn(
                f"{files.model} was fitted by an earlier version and cannot use the corrections of "
                f"{files.index}; items are ranked by Hamming distance, fit the model again",
                DecoderWarning,
                stacklevel=2,
            )
        zeros = np.zeros((1, n_bytes(n_bits)), np.uint8)
        store.index.search_rows(zeros, 1)  # a first search compiles or loads the scan
        store.index.best_rows(zeros, np.zeros((1, n_bits)), 1)
        prepare_many(n_bits)
        return catalogue
    except BaseException:
        store.close()
        raise


def _encoders_of(model: Any, path: Path) -> Mapping[str, LinearEncoder]:
    """Return the encoders of a model by domain."""
    if isinstance(model, BaseTransferHasher):
        return model.encoders_
    return {_ANY: encoder_of(model, path, None, "domain")}


def _find_domains(model: Any, store: IndexStore, files: Files) -> tuple[str, str]:
    """Return the domain of the index and that of the queries.

    Queries are those of the query index, or else of the first other domain of the model.
    """
    if not isinstance(model, BaseTransferHasher):
        if files.queries is not None:
            raise InputError(
                f"--queries needs a model of several domains; {files.model} has one",
                str(files.queries),
            )
        return _ANY, _ANY
    names = list(model.encoders_)
    domain = _checked_domain(store.index, names, files.index)
    if files.queries is None:
        return domain, next((name for name in names if name != domain), domain)
    queries = HammingIndex.load(files.queries, memory_map=True)
    asked = _checked_domain(queries, names, files.queries)
    if asked == domain:
        raise InputError(
            f"holds codes of the {asked} domain, as {files.index} does; name an index of another "
            "domain",
            str(files.queries),
        )
    return domain, asked


def _checked_domain(index: HammingIndex, names: Sequence[str], path: Path) -> str:
    domain = _own_domain(index)
    if not domain:
        raise InputError(
            "does not state the domain of its codes; build it with --model and --domain", str(path)
        )
    if domain not in names:
        raise InputError(
            f"holds codes of the {domain} domain; the model has {', '.join(names)}", str(path)
        )
    return domain


def _own_domain(index: HammingIndex) -> str:
    """Return the domain that an index was built for, or else that of most of its items."""
    counts = {name: n for name, n in index.domains.items() if name}
    return index.about.get("domain") or max(counts, key=counts.__getitem__, default="")


def _open_queries(files: Files, space: str, encoder: LinearEncoder) -> IndexStore | None:
    """Open the index of the queries, read-only."""
    if files.queries is None:
        if files.query_images is not None:
            raise InputError("--query-images needs --queries", str(files.query_images))
        return None
    store = IndexStore.open(files.queries, writable=False)
    _check_fits(store, files.model, space, encoder)
    return store


def _check_fits(store: IndexStore, model: Path, space: str, encoder: LinearEncoder) -> None:
    """Check that the codes of an index come from this model, or from one that it joined."""
    name = str(store.path)
    check_same_space(store.index.about, {"code_space": space}, name)
    if store.index.n_bits != encoder.n_bits:
        raise InputError(
            f"has codes of {store.index.n_bits} bits, but {model} makes codes of {encoder.n_bits}",
            name,
        )


def _find_reader(
    files: Files, encoder: LinearEncoder, readers: dict[str, ImageReader]
) -> ImageReader | None:
    if files.backbone is None:
        return None
    if files.backbone not in readers:
        readers[files.backbone] = ImageReader(files.backbone)
    reader = readers[files.backbone]
    if reader.dimension != encoder.n_features_in_:
        raise InputError(
            f"its queries have {encoder.n_features_in_} features, but {files.backbone} makes "
            f"{reader.dimension}",
            str(files.model),
        )
    return reader
