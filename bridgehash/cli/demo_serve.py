"""`bridgehash demo --serve`: serve a page on which methods and code lengths can be compared.

Digits are always served; sketches that find photos are served first if the data pack is present.
"""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

import bridgehash
from bridgehash import __version__
from bridgehash._core.files import atomic_write
from bridgehash._core.linalg import Array
from bridgehash._core.progress import progress
from bridgehash.bench.spec import SEEN, MethodSpec
from bridgehash.cli.console import counted, may_animate, note
from bridgehash.cli.serve import check_free, require_service, run_service
from bridgehash.datasets import DATASETS, DataView, DigitDomains, TransferTask, digit_domains
from bridgehash.datasets.files import data_places
from bridgehash.features.folder import class_of, list_images, pillow
from bridgehash.index import HammingIndex
from bridgehash.models.provenance import origin

require_service("demo --serve")

from bridgehash.service.catalogue import Files  # noqa: E402

CODINGS = (  # method and code length; the page compares the first two
    (MethodSpec("ath-64", "ath-kernel", "both"), 64),
    (MethodSpec("itq-64", "itq"), 64),
    (MethodSpec("ath-linear-64", "ath-supervised", "both"), 64),
    (MethodSpec("ath-16", "ath-kernel", "both"), 16),
    (MethodSpec("ath-128", "ath-kernel", "both"), 128),
)
_DATA_PACK = Path("..", "shared", "data")  # searched after $BRIDGEHASH_DATA
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


def serve_demo(out: Path, port: int) -> None:
    """Write models, indexes and pictures to a folder, and serve them until SIGINT or SIGTERM.

    Sets that the same version has written before, from the same data, are served as they are.
    """
    check_free("127.0.0.1", port)
    folder = out / "service"
    folder.mkdir(parents=True, exist_ok=True)
    files = find_catalogues(folder)
    note(f"files are in {folder}")
    run_service(files, "127.0.0.1", port, None, ready="open the page at {address}; Ctrl-C stops it")


def find_catalogues(folder: Path) -> list[Files]:
    """Return the catalogues of all sets on this machine; make those that are missing or old."""
    sets: dict[str, tuple[Callable[[], DemoData | None], Sequence[Path]]] = {}
    if (pacs := _pacs_files()) is not None:
        sets["sketches"] = sketches_and_photos, pacs
    else:
        note("sketches and photos are not served: set BRIDGEHASH_DATA to the data pack")
    sets["digits"] = (lambda: digits(folder / "digits")), ()
    found = []
    for name, (load, files) in sets.items():
        key, path = _key(name, files), folder / f"{name}.json"
        catalogues = _stored(path, key)
        if not catalogues and (data := load()) is not None:
            note(f"fitting {counted(len(CODINGS), 'model')} of {name}, the first time only")
            catalogues = make_catalogues(folder, [data])
            _store(path, key, catalogues)
        found += catalogues
    return found


def _key(name: str, data_files: Sequence[Path]) -> str:
    """Return what the catalogues of a set depend on: the package, the codings and the data."""
    text = hashlib.sha256(f"{__version__} {name} {CODINGS}".encode())
    package = Path(bridgehash.__file__).parent
    for source in sorted(package.rglob("*.py")):  # an editable install changes between versions
        text.update(source.read_bytes())
    for file in data_files:
        about = file.stat()
        text.update(f"{file.resolve()} {about.st_size} {about.st_mtime_ns}".encode())
    return f"{__version__} {text.hexdigest()}"


def _stored(path: Path, key: str) -> list[Files]:
    """Return the catalogues that were written with a key; none if any file is missing."""
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        catalogues = [
            Files(backbone=each.pop("backbone"), **{name: Path(x) for name, x in each.items()})
            for each in stored["catalogues"]
        ]
    except (OSError, ValueError, KeyError, TypeError):
        return []  # made again
    places = [place for each in catalogues for place in vars(each).values()]
    complete = all(place.exists() for place in places if isinstance(place, Path))
    return catalogues if stored["key"] == key and complete else []


def _store(path: Path, key: str, catalogues: Sequence[Files]) -> None:
    rows = [{name: x and str(x) for name, x in vars(each).items()} for each in catalogues]
    with atomic_write(path) as temporary:
        temporary.write_text(json.dumps({"key": key, "catalogues": rows}), encoding="utf-8")


def digits(folder: Path, domains: DigitDomains | None = None) -> DemoData:
    """Return the digits; write their pictures to a folder."""
    domains = digit_domains() if domains is None else domains
    task = domains.heterogeneous()
    items = Items(task.X_source, domains.source.y.astype(str).astype(object), folder / "source")
    queries = Items(task.X_query, domains.query.y.astype(str).astype(object), folder / "queries")
    _write_pictures(items.pictures, domains.source.images)
    _write_pictures(queries.pictures, domains.query.images)
    return DemoData("digits", ("digits", "scans"), task, items, queries)


def sketches_and_photos() -> DemoData | None:
    """Return PACS: sketches as GIST find photos as EfficientNet features; None without the data.

    Items and queries are the rows that have a picture. Query sketches are not used in training.
    """
    files = _pacs_files()
    if files is None:
        return None
    place, images = files[0].parent, files[1].parent
    with open(images / "index.csv", newline="", encoding="utf-8") as file:
        row_of = {record["file"]: int(record["row"]) for record in csv.DictReader(file)}

    def pictured(domain: str, X: Array) -> tuple[NDArray[np.intp], Items]:
        names = list_images(images / domain)
        rows = np.array([row_of[f"{domain}/{name}"] for name in names])
        tags = np.array([class_of(name) for name in names], dtype=object)
        return rows, Items(X[rows], tags, images / domain)

    X_s, y_s = DATASETS["pacs"].load(DataView("photo", "effnet_lite0"), place)
    X_t, y_t = DATASETS["pacs"].load(DataView("sketch", "gist512"), place)
    _, items = pictured("photo", X_s)
    asked, queries = pictured("sketch", X_t)
    train = np.setdiff1d(np.arange(len(y_t)), asked)
    task = TransferTask(X_s, X_t[train], X_t[asked], y_s, y_t[train], y_t[asked])
    return DemoData("sketches", ("photos", "sketches"), task, items, queries, "gist")


def _pacs_files() -> tuple[Path, Path] | None:
    """Return the features and the list of images of PACS, if both are there."""
    for place in (*data_places(), _DATA_PACK):
        files = place / "pacs.npz", place / "images" / "index.csv"
        if all(file.is_file() for file in files):
            return files
    return None


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
