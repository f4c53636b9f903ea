"""From files to catalogues: what does not belong together is refused before anything is served."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..models import persistence
from ..models.base import BaseTransferHasher
from ..models.encoder import LinearEncoder
from ..models.provenance import check_same_domain, check_same_model, encoder_of, origin
from .catalogue import Catalogue, Question, Side
from .images import ImageReader, picture_table
from .settings import Settings
from .store import Store

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_OTHER = {"source": "target", "target": "source"}
ANY = "any"  # the one domain of a model that has no two


@dataclass(frozen=True)
class Files:
    """What a catalogue is made of."""

    model: Path
    index: Path
    queries: Path | None = None  # an index of the other domain, to pick queries from
    images: Path | None = None
    query_images: Path | None = None
    backbone: str | None = None


def open_catalogues(files: Sequence[Files], settings: Settings) -> dict[str, Catalogue]:
    """All catalogues by name; where one is refused, those before it are closed."""
    opened: dict[str, Catalogue] = {}
    readers: dict[str, ImageReader] = {}
    try:
        for each in files:
            name = catalogue_name(each.index)
            if name in opened:
                raise ValueError(f"{each.index}: a second index called {name}; rename one")
            opened[name] = _open(name, each, settings, readers)
    except BaseException:
        close_catalogues(opened)
        raise
    return opened


def close_catalogues(catalogues: dict[str, Catalogue]) -> None:
    """Let go of all files."""
    for catalogue in catalogues.values():
        for side in catalogue.sides.values():
            if side.store is not None:
                side.store.close()


def catalogue_name(index: Path) -> str:
    """The name that a catalogue has in addresses: its index file's, without the ending.

    >>> catalogue_name(Path("data/photos.bhi"))
    'photos'
    """
    if not _NAME.fullmatch(index.stem):
        raise ValueError(
            f"{index}: the name of an index is part of addresses; use up to 64 letters, digits, "
            "dots, hyphens and underscores"
        )
    return index.stem


def _open(
    name: str, files: Files, settings: Settings, readers: dict[str, ImageReader]
) -> Catalogue:
    model = persistence.load(files.model)
    fold_at = settings.limits.journal_bytes
    store = Store.open(files.index, writable=settings.writable, fold_at=fold_at)
    try:
        domains = _domains(model, store, files)
        index_domain, query_domain = domains
        encoders = {d: encoder_of(model, files.model, _given(d), "domain") for d in domains}
        _check_fits(store, files.model, index_domain, encoders[index_domain])
        reader = _reader(files, encoders[query_domain], settings, readers)
        sides = {query_domain: Side(encoders[query_domain], reader=reader)}
        if files.queries is not None or files.query_images is not None:
            sides[query_domain] = _queries(files, query_domain, encoders[query_domain], reader)
        shown = picture_table(files.images)
        same = reader if index_domain == query_domain else None
        sides[index_domain] = Side(encoders[index_domain], store, shown, same)
        ordered = {domain: sides[domain] for domain in sorted(sides)}
        catalogue = Catalogue(
            name, method_name(model), store.index.n_bits, ordered, index_domain, query_domain
        )
        _warm(catalogue)
        return catalogue
    except BaseException:
        store.close()
        raise


def _domains(model: Any, store: Store, files: Files) -> tuple[str, str]:
    """The domain of the index, and that of what it is asked with."""
    if not isinstance(model, BaseTransferHasher):
        if files.queries is not None:
            raise ValueError(
                f"{files.queries}: --queries needs a model of two domains; {files.model} has one"
            )
        return ANY, ANY
    domain = store.index.about.get("domain")
    if domain not in _OTHER:
        raise ValueError(
            f"{files.index}: does not say which domain its codes are of; build it with --model "
            "and --domain"
        )
    return domain, _OTHER[domain]


def _queries(files: Files, domain: str, encoder: LinearEncoder, reader: ImageReader | None) -> Side:
    """Items of the other domain, which are looked at and never changed."""
    if files.queries is None:
        raise ValueError(f"{files.query_images}: --query-images belongs to --queries")
    store = Store.open(files.queries, writable=False)
    _check_fits(store, files.model, domain, encoder)
    return Side(encoder, store, picture_table(files.query_images), reader)


def _check_fits(store: Store, model: Path, domain: str, encoder: LinearEncoder) -> None:
    """Do the codes of an index come from this model?"""
    about, name = origin(model, _given(domain)), str(store.path)
    check_same_model(store.index.about, about, name, model)
    check_same_domain(store.index.about, about, name)
    if store.index.n_bits != encoder.n_bits:
        raise ValueError(
            f"{name}: holds codes of {store.index.n_bits} bits, but {model} makes codes of "
            f"{encoder.n_bits}"
        )


def _reader(
    files: Files, encoder: LinearEncoder, settings: Settings, readers: dict[str, ImageReader]
) -> ImageReader | None:
    if files.backbone is None:
        return None
    if files.backbone not in readers:
        readers[files.backbone] = ImageReader(files.backbone, settings.limits.pixels)
    reader = readers[files.backbone]
    if reader.dimension != encoder.n_features_in_:
        raise ValueError(
            f"{files.model}: its queries have {encoder.n_features_in_} features, but "
            f"{files.backbone} makes {reader.dimension}"
        )
    return reader


def _given(domain: str) -> str | None:
    return None if domain == ANY else domain


def method_name(model: Any) -> str:
    """The method as people call it: `Shared(ITQ)`."""
    name, inner = type(model).__name__, getattr(model, "hasher", None)
    return f"{name}({type(inner).__name__})" if inner is not None else name


def _warm(catalogue: Catalogue) -> None:
    """Compile or load the scan now, not with the first request."""
    zero = catalogue.checked(_zeros(catalogue.n_bits))
    for answer in catalogue.search([Question(catalogue.query_domain, 1, codes=zero)]):
        if isinstance(answer, Exception):
            raise answer


def _zeros(n_bits: int) -> Any:
    import numpy as np

    return np.zeros((1, -(-n_bits // 8)), np.uint8)
