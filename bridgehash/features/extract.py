"""From a folder of images to one file of features, in batches that survive a kill.

Finished batches are kept in `OUT.part`. At the end they become one .npz file: `x` (float32, one row
per image), `y` (names of classes), `ids` (paths in the folder) and `header` (JSON).
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._core.errors import InputError, named
from .._core.files import StrPath, atomic_write
from .._core.journal import Journal, read_journal
from .._version import __version__
from .backbones import Backbone, ExtractSettings, Features, find_backbone
from .folder import Unreadable, class_of, list_images, pillow, read_image, why_unreadable

_FLOAT = np.dtype("<f4")
_FROM_THE_START = "start from the beginning (--no-resume, resume=False)"


class Extraction(NamedTuple):
    """The result of an extraction."""

    path: Path
    shape: tuple[int, int]  # of `x`
    n_classes: int  # names in `y`, without the empty one
    n_resumed: int  # images done by an earlier run
    unreadable: tuple[Unreadable, ...]


class ImageBatch(NamedTuple):
    """Rows of the readable images of a batch, in order, and the other images."""

    rows: NDArray[np.float32]
    unreadable: list[Unreadable]


def extract(
    folder: StrPath,
    backbone: str,
    out: StrPath,
    *,
    batch_size: int = 32,
    resume: bool = True,
    device: str = "cpu",
    weights: StrPath | None = None,
    download: bool = False,
    on_progress: Callable[[int, int], object] | None = None,
) -> Extraction:
    """Write the features of all images in a folder to one .npz file.

    Images that cannot be read are left out and listed in the result. If none can be read,
    `InputError` is raised.

    Parameters
    ----------
    folder : path
        Images, at any depth; the first sub-folder is the class.
    backbone : str
        A key of `BACKBONES`.
    out : path
        The .npz file to write. Finished batches are kept in `out` with `.part` added, so that a
        stopped run can be continued.
    batch_size : int
        Images per batch.
    resume : bool
        Continue an earlier run, if there is one; images and backbone must be the same. False
        starts from the beginning.
    device, weights, download
        For networks: a torch device, a weight file, and whether weights may be downloaded.
    on_progress : callable, optional
        Called with the number of images done and the total number.
    """
    if batch_size < 1:
        raise InputError(f"batch_size={batch_size} is not allowed: give at least 1")
    chosen, folder, out = find_backbone(backbone), Path(folder), Path(out)
    settings = ExtractSettings(device, None if weights is None else Path(weights), download)
    pillow()  # raises now if it is missing; else all images would seem unreadable
    ids = list_images(folder)
    features = chosen.load(settings)
    report = on_progress or (lambda done, total: None)
    file = settings.weights
    about = {
        "format": 2,
        "version": __version__,
        "backbone": chosen.name,
        "weights": file and [file.name, file.stat().st_size],
        "images": f"{len(ids)} images, {_fingerprint(folder, ids)}",
    }
    part = Path(f"{out}.part")
    journal, records = _open_journal(part, about, resume)
    with closing(journal):
        with named(part, _FROM_THE_START):
            batches = [_from_record(record, chosen.dimension) for record in records]
            _check_batches(batches, ids)
        n_done = n_resumed = sum(len(rows) + len(unreadable) for rows, unreadable in batches)
        report(n_done, len(ids))
        while n_done < len(ids):
            names = ids[n_done : n_done + batch_size]
            batch = _compute(folder, names, chosen, features)
            journal.append([_as_record(batch)])
            batches.append(batch)
            n_done += len(names)
            report(n_done, len(ids))
        unreadable = [image for batch in batches for image in batch.unreadable]
        lost = {image.id for image in unreadable}
        kept = [name for name in ids if name not in lost]
        if kept:
            x, y = np.concatenate([batch.rows for batch in batches]), [*map(class_of, kept)]
            _save(out, chosen, unreadable, x=x, y=np.array(y), ids=np.array(kept))
        journal.restart(b"")
    if not kept:
        raise InputError(
            f"none of the {len(ids)} images can be read; the first: {unreadable[0].id}: "
            f"{unreadable[0].reason}",
            str(folder),
        )
    return Extraction(out, x.shape, len(set(y) - {""}), n_resumed, tuple(unreadable))


def read_header(path: StrPath) -> dict[str, Any]:
    """Return the JSON header of a file written by `extract`."""
    with named(path), np.load(path) as arrays:
        header: dict[str, Any] = json.loads(str(arrays["header"]))
    return header


def _open_journal(path: Path, about: dict[str, Any], resume: bool) -> tuple[Journal, list[bytes]]:
    """Open the file of finished batches, and return those of an earlier run.

    If the file belongs to another extraction, an `InputError` says what differs.
    """
    if not resume or (path.exists() and path.stat().st_size == 0):
        path.unlink(missing_ok=True)
    elif path.exists():
        remedy = f"{_FROM_THE_START}, or undo the change"
        with named(path, remedy):
            before = json.loads(read_journal(path).header or b"{}")
            for key, now in about.items():
                if before and before.get(key) != now:
                    raise InputError(
                        f"is an unfinished extraction with other {key}: {before.get(key)} before, "
                        f"{now} now; {remedy}"
                    )
    header = json.dumps(about).encode()
    journal = Journal.open(path, header)
    records, missing = journal.content.records(header), journal.content.missing(header)
    if missing:  # batches are in the order of the images: go on before the first damaged one
        del records[missing[0] - 1 :]
        journal.restart(header)
        journal.append(records)
    return journal, records


def _as_record(batch: ImageBatch) -> bytes:
    """Return a batch as bytes: a line of JSON, then the rows."""
    head = json.dumps({"rows": len(batch.rows), "unreadable": batch.unreadable})
    return head.encode() + b"\n" + np.ascontiguousarray(batch.rows, dtype=_FLOAT).tobytes()


def _from_record(record: bytes, dimension: int) -> ImageBatch:
    head, _, data = record.partition(b"\n")
    fields = json.loads(head)
    rows = np.frombuffer(data, dtype=_FLOAT).reshape(-1, dimension)
    if len(rows) != fields["rows"]:
        raise InputError(f"a batch has {len(rows)} rows, not {fields['rows']}; {_FROM_THE_START}")
    return ImageBatch(rows, [Unreadable(*pair) for pair in fields["unreadable"]])


def _check_batches(batches: list[ImageBatch], ids: list[str]) -> None:
    """Refuse finished batches that are not those of the first images."""
    n_done = 0
    for rows, unreadable in batches:
        names = set(ids[n_done : n_done + len(rows) + len(unreadable)])
        n_done += len(rows) + len(unreadable)
        if n_done > len(ids) or not names.issuperset(image.id for image in unreadable):
            raise InputError(f"holds batches of other images; {_FROM_THE_START}")


def _fingerprint(folder: Path, ids: list[str]) -> str:
    """Return a text that changes when an image is added, removed, renamed or rewritten."""
    digest = hashlib.sha256()
    for name in ids:
        try:
            status = os.stat(folder / name)
            seen = (status.st_size, status.st_mtime_ns)
        except OSError:  # such as a broken link: reported when it is read
            seen = (-1, -1)
        digest.update(f"{seen} ".encode() + os.fsencode(name) + b"\0")
    return digest.hexdigest()[:16]


def _compute(folder: Path, names: list[str], backbone: Backbone, features: Features) -> ImageBatch:
    prepared, unreadable = [], []
    for name in names:
        try:
            prepared.append(backbone.prepare(read_image(folder / name)))
        except MemoryError:
            raise
        except Exception as error:  # decoders raise many kinds of exceptions for broken files
            unreadable.append(Unreadable(name, why_unreadable(error)))
    none = np.empty((0, backbone.dimension), dtype=np.float32)
    return ImageBatch(features(np.stack(prepared)) if prepared else none, unreadable)


def _save(out: Path, backbone: Backbone, unreadable: list[Unreadable], **arrays: Any) -> None:
    header = {
        "kind": "bridgehash features",
        "backbone": backbone.name,
        "version": __version__,
        "images": len(arrays["ids"]),
        "dimension": backbone.dimension,
        "unreadable": unreadable,
    }
    with (
        named(out, "finished batches are kept; run again", writing=True),
        atomic_write(out) as temporary,
        open(temporary, "wb") as file,  # an open file: NumPy would add .npz to a path
    ):
        np.savez(file, **arrays, header=json.dumps(header))
