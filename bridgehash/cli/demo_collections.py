"""What the page of the demo searches: handwritten digits, and sketches that find photos."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bridgehash._core.linalg import Array
from bridgehash.datasets import DigitDomains, TransferTask, digit_domains
from bridgehash.datasets.files import data_places
from bridgehash.features.folder import list_images, pillow

_BESIDE = Path("..", "shared", "data")  # where the data pack may lie if nothing says so
_WHITE = 255
_SIDE = 64  # pixels of a picture


class Part(NamedTuple):
    """Items of one domain, with a picture each."""

    X: Array
    tags: NDArray[np.object_]
    pictures: Path


class Collection(NamedTuple):
    """Rows to learn from, items of the source to find, and those of the target that ask."""

    name: str
    task: TransferTask
    items: Part
    queries: Part
    backbone: str | None = None  # makes the features of the queries from images


def digits(folder: Path, domains: DigitDomains | None = None) -> Collection:
    """The digits of the demo; their pictures are written to a folder."""
    domains = digit_domains() if domains is None else domains
    task = domains.heterogeneous()
    parts = {}
    for name, X, part in (
        ("source", task.X_source, domains.source),
        ("queries", task.X_query, domains.query),
    ):
        _write_pictures(folder / name, part.images)
        parts[name] = Part(X, part.y.astype(str).astype(object), folder / name)
    return Collection("digits", task, parts["source"], parts["queries"])


def sketches_and_photos() -> Collection | None:
    """PACS: sketches as GIST find photos as EfficientNet features; none without the data pack.

    Items and queries are those that have a picture. Sketches that ask are held out from training.
    """
    places = [*data_places(), _BESIDE]
    found = [place for place in places if _has_pacs(place)]
    if not found:
        return None
    names = {"photo": "effnet_lite0", "sketch": "gist512"}
    with np.load(found[0] / "pacs.npz") as arrays:
        X = {d: arrays[f"{d}_{feature}"].astype(np.float64) for d, feature in names.items()}
        y = {d: arrays[f"{d}_y"] for d in names}
        classes = arrays["class_names"].astype(object)
    rows = {d: _pictured_rows(found[0] / "images", d) for d in names}
    train = np.setdiff1d(np.arange(len(y["sketch"])), rows["sketch"])
    task = TransferTask(
        X_source=X["photo"],
        X_target=X["sketch"][train],
        X_query=X["sketch"][rows["sketch"]],
        y_source=y["photo"],
        y_target=y["sketch"][train],
        y_query=y["sketch"][rows["sketch"]],
    )
    items, queries = (
        Part(X[d][rows[d]], classes[y[d][rows[d]]], found[0] / "images" / d) for d in names
    )
    return Collection("sketches", task, items, queries, "gist")


def _has_pacs(place: Path) -> bool:
    return (place / "pacs.npz").is_file() and (place / "images" / "index.csv").is_file()


def _pictured_rows(images: Path, domain: str) -> NDArray[np.intp]:
    """Rows of the pictures of a domain, in the order in which the service numbers them."""
    with open(images / "index.csv", newline="", encoding="utf-8") as file:
        rows = {record["file"]: int(record["row"]) for record in csv.DictReader(file)}
    return np.array([rows[f"{domain}/{name}"] for name in list_images(images / domain)])


def _write_pictures(folder: Path, images: Array) -> None:
    """Ink on white paper, smooth, a file an item, named by its number; others do not stay."""
    Image = pillow().Image
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.png"):
        old.unlink()
    for i, pixels in enumerate(np.round(_WHITE * (1.0 - images)).astype(np.uint8)):
        picture = Image.fromarray(pixels).resize((_SIDE, _SIDE), Image.Resampling.BICUBIC)
        picture.save(folder / f"{i}.png")
