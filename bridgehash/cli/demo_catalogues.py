"""Models, indexes and pictures of `bridgehash demo --serve`, made the first time it runs."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from bridgehash._core.linalg import Array
from bridgehash._core.progress import progress
from bridgehash.bench.spec import SEEN, MethodSpec
from bridgehash.cli.console import may_animate
from bridgehash.datasets import DATASETS, DataView, DigitDomains, TransferTask, digit_domains
from bridgehash.features.folder import class_of, list_images, pillow
from bridgehash.index import HammingIndex
from bridgehash.models.provenance import origin
from bridgehash.service.catalogue import Files

CODINGS = (  # method and code length; the page compares the first two
    (MethodSpec("ath-64", "ath-kernel", "both"), 64),
    (MethodSpec("itq-64", "itq"), 64),
    (MethodSpec("ath-linear-64", "ath-supervised", "both"), 64),
    (MethodSpec("ath-16", "ath-kernel", "both"), 16),
    (MethodSpec("ath-128", "ath-kernel", "both"), 128),
)
_SIDE = 64  # pixels of a picture


class Items(NamedTuple):
    """Features of items of one domain, with tags and a folder of pictures."""

    X: Array
    tags: NDArray[np.object_]
    pictures: Path


class DemoData(NamedTuple):
    """A task to learn from, source items to find, and target items to query with."""

    name: str
    domains: tuple[str, str]  # names of source and target
    task: TransferTask
    items: Items
    queries: Items
    backbone: str | None = None  # turns images into features of the queries


def digits(folder: Path, domains: DigitDomains | None = None) -> DemoData:
    """Return the digits; write their pictures to a folder."""
    domains = digit_domains() if domains is None else domains
    task = domains.heterogeneous()
    items = Items(task.X_source, domains.source.y.astype(str).astype(object), folder / "source")
    queries = Items(task.X_query, domains.query.y.astype(str).astype(object), folder / "queries")
    _write_pictures(items.pictures, domains.source.images)
    _write_pictures(queries.pictures, domains.query.images)
    return DemoData("digits", ("digits", "scans"), task, items, queries)


def sketches_and_photos(features: Path, images: Path) -> DemoData:
    """Return PACS: sketches as GIST find photos as EfficientNet features.

    Items and queries are the rows that have a picture in the folder `images`. Query sketches are
    not used in training.
    """
    with open(images / "index.csv", newline="", encoding="utf-8") as file:
        row_of = {record["file"]: int(record["row"]) for record in csv.DictReader(file)}

    def pictured(domain: str, X: Array) -> tuple[NDArray[np.intp], Items]:
        names = list_images(images / domain)
        rows = np.array([row_of[f"{domain}/{name}"] for name in names])
        tags = np.array([class_of(name) for name in names], dtype=object)
        return rows, Items(X[rows], tags, images / domain)

    X_s, y_s = DATASETS["pacs"].load(DataView("photo", "effnet_lite0"), features.parent)
    X_t, y_t = DATASETS["pacs"].load(DataView("sketch", "gist512"), features.parent)
    _, items = pictured("photo", X_s)
    asked, queries = pictured("sketch", X_t)
    train = np.setdiff1d(np.arange(len(y_t)), asked)
    task = TransferTask(X_s, X_t[train], X_t[asked], y_s, y_t[train], y_t[asked])
    return DemoData("sketches", ("photos", "sketches"), task, items, queries, "gist")


def _write_pictures(folder: Path, images: Array) -> None:
    """Write dark digits on white, one file per item; remove other pictures."""
    Image = pillow().Image
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.png"):
        old.unlink()
    for i, pixels in enumerate(np.round(255 * (1.0 - images)).astype(np.uint8)):
        picture = Image.fromarray(pixels).resize((_SIDE, _SIDE), Image.Resampling.BICUBIC)
        picture.save(folder / f"{i}.png")


def make_catalogues(folder: Path, sets: Sequence[DemoData]) -> list[Files]:
    """Fit every coding on every set; existing files are replaced."""
    made = []
    total = len(sets) * len(CODINGS)
    with progress("demo", total, visible=may_animate()) as advance, threadpool_limits(1):
        for data in sets:
            for method, n_bits in CODINGS:
                made.append(_catalogue(folder, data, method, n_bits))
                advance(f"{data.name}-{method.label}")
    return made


def _catalogue(folder: Path, data: DemoData, method: MethodSpec, n_bits: int) -> Files:
    """Fit a model and write it with an index of each domain."""
    name, task = f"{data.name}-{method.label}", data.task
    hasher = method.build(n_bits, seed=0)
    labels = (getattr(task, argument) for argument in SEEN[method.labels])
    X = dict(zip(data.domains, (task.X_source, task.X_target), strict=True))
    hasher.fit(X, y=dict(zip(data.domains, labels, strict=False)))
    model = folder / f"{name}.bh"
    hasher.save(model)
    indexes = folder / f"{name}.bhi", folder / f"{name}-queries.bhi"
    parts = (data.items, data.queries)
    for domain, part, path in zip(data.domains, parts, indexes, strict=True):
        codes = hasher.encode(part.X, domain)
        index = HammingIndex(n_bits).add(codes, tags=part.tags, domain=domain)
        index.about = origin(hasher, domain)
        index.save(path)
    return Files(model, *indexes, data.items.pictures, data.queries.pictures, data.backbone)
