"""`bridgehash demo --serve`: catalogues to compare on the page of the service.

Each collection is searched with codes of several methods and lengths. The digits are always there;
sketches that find photos come first where the data pack is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from threadpoolctl import threadpool_limits

from bridgehash import ATH, ITQ, Shared
from bridgehash._core.errors import InputError
from bridgehash._core.progress import progress
from bridgehash.cli.console import may_animate, note
from bridgehash.cli.demo_collections import Collection, digits, sketches_and_photos
from bridgehash.cli.serve import check_free, require_service, run_service
from bridgehash.index import HammingIndex
from bridgehash.models.base import BaseTransferHasher
from bridgehash.models.provenance import encoder_of, origin

if TYPE_CHECKING:
    from bridgehash.service.catalogue import Files

FOLDER = "service"  # below the folder of the demo


class Coding(NamedTuple):
    """A method and a length."""

    name: str
    labels: bool
    build: Callable[[], BaseTransferHasher]


CODINGS = (  # the page shows the first two side by side
    Coding("ath-64", True, lambda: ATH.kernel(64, random_state=0)),
    Coding("itq-64", False, lambda: Shared(ITQ(64, random_state=0))),
    Coding("ath-linear-64", True, lambda: ATH.supervised(64, random_state=0)),
    Coding("ath-16", True, lambda: ATH.kernel(16, random_state=0)),
    Coding("ath-128", True, lambda: ATH.kernel(128, random_state=0)),
)


def serve_demo(out: Path, port: int) -> None:
    """Make models, indexes and pictures in a folder, and serve them until SIGINT or SIGTERM."""
    require_service("demo --serve")
    if out.exists() and not out.is_dir():
        raise InputError(f"{out}: is a file, but the demo writes a folder; name another place")
    check_free("127.0.0.1", port)
    folder = out / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    files = make_catalogues(folder, find_collections(folder))
    note(f"written to {folder}")
    run_service(files, "127.0.0.1", port, None, "open the address in a browser; Ctrl-C ends it")


def find_collections(folder: Path) -> list[Collection]:
    """What there is to search on this machine."""
    pacs = sketches_and_photos()
    if pacs is None:
        note("no sketches and photos: with BRIDGEHASH_DATA set to the data pack there are some")
    return [*([pacs] if pacs else []), digits(folder / "digits")]


def make_catalogues(folder: Path, collections: Sequence[Collection]) -> list[Files]:
    """Fit every coding of every collection; what is there already is replaced."""
    made = []
    total = len(collections) * len(CODINGS)
    with progress("demo", total, visible=may_animate()) as advance, threadpool_limits(limits=1):
        for collection in collections:
            for coding in CODINGS:
                made.append(_catalogue(folder, collection, coding))
                advance(f"{collection.name}-{coding.name}")
    return made


def _catalogue(folder: Path, collection: Collection, coding: Coding) -> Files:
    """A model and an index of each domain; its name is that of the index of the items."""
    from bridgehash.service.catalogue import Files

    name = f"{collection.name}-{coding.name}"
    task = collection.task
    hasher = coding.build()
    labels = {"y_source": task.y_source, "y_target": task.y_target} if coding.labels else {}
    hasher.fit(task.X_source, task.X_target, **labels)
    model = folder / f"{name}.bh"
    hasher.save(model)
    indexes = {"source": folder / f"{name}.bhi", "target": folder / f"{name}-queries.bhi"}
    for domain, part in (("source", collection.items), ("target", collection.queries)):
        encoder = encoder_of(hasher, model, domain, "domain")
        index = HammingIndex(encoder.n_bits).add(encoder.encode(part.X), tags=part.tags)
        index.about = origin(model, domain)
        index.save(indexes[domain])
    return Files(
        model,
        indexes["source"],
        indexes["target"],
        collection.items.pictures,
        collection.queries.pictures,
        collection.backbone,
    )
