"""From a folder of images to one file of features, in batches that survive a kill.

What is finished waits in `OUT.part` until everything is; then one .npz takes its place: `x`
(float32, a row an image), `y` (names of classes), `ids` (paths in the folder) and `header` (JSON).
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._core.files import StrPath, atomic_write
from .._version import __version__
from .backbones import Backbone, Features, Settings, find_backbone
from .folder import Unreadable, class_of, list_images, pillow, read_image, why_unreadable
from .journal import Journal


class Extraction(NamedTuple):
    """What was extracted, and what was not."""

    path: Path
    shape: tuple[int, int]  # of `x`
    n_classes: int  # names in `y`, not counting the empty one
    n_resumed: int  # images that an earlier run had done
    unreadable: tuple[Unreadable, ...]


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
    """Write the features of all images below a folder to one .npz file.

    Images that cannot be read are left out and named in the result; if none can, `ValueError`.

    Parameters
    ----------
    folder : path
        Images, at any depth; the first sub-folder is the class.
    backbone : str
        A key of `BACKBONES`.
    out : path
        The .npz file to write, whole or not at all. `out` with `.part` added keeps finished
        batches, so that a run that was stopped goes on where it was.
    batch_size : int
        Images read, computed and kept at a time.
    resume : bool
        Go on with an earlier run, if there is one; it must have seen the same images and
        backbone. False starts anew.
    device, weights, download
        For networks: a device of torch, a weight file, and whether one may be downloaded.
    on_progress : callable, optional
        Called with the number of images done and the number of all.
    """
    if batch_size < 1:
        raise ValueError(f"batch_size={batch_size} is not allowed: give at least 1")
    chosen, out = find_backbone(backbone), Path(out)
    settings = Settings(device, None if weights is None else Path(weights), download)
    pillow()  # else its absence would look like unreadable images
    ids = list_images(folder)
    features = chosen.load(settings)
    journal = _journal(Path(f"{out}.part"), folder, ids, chosen, settings, resume)
    n_resumed = journal.n_done
    report = on_progress or (lambda done, total: None)
    report(n_resumed, len(ids))
    while journal.n_done < len(ids):
        batch = ids[journal.n_done : journal.n_done + batch_size]
        done = _compute(Path(folder), batch, chosen, features)
        with _writing(journal.path, "finished batches are kept, run it again"):
            journal.append(*done)
        report(journal.n_done, len(ids))
    return _finish(Path(folder), out, ids, chosen, journal, n_resumed)


def read_header(path: StrPath) -> dict[str, Any]:
    """The JSON header of a file that `extract` wrote."""
    with np.load(path) as arrays:
        header: dict[str, Any] = json.loads(str(arrays["header"]))
    return header


def _journal(
    path: Path, folder: StrPath, ids: list[str], chosen: Backbone, settings: Settings, resume: bool
) -> Journal:
    """The side file, begun or taken up."""
    file = settings.weights
    about = {
        "format": 1,
        "version": __version__,
        "backbone": chosen.name,
        "weights": None if file is None else [file.name, file.stat().st_size],
        "images": f"{len(ids)} images, {_fingerprint(folder, ids)}",
    }
    journal = Journal(path, about, chosen.dimension)
    with _writing(path, "choose another place"):
        try:
            journal.resume() if resume else journal.start()
        except ValueError as error:
            hint = "start anew (--no-resume, resume=False), or undo the change"
            raise ValueError(f"{error}; {hint}") from error
    return journal


def _fingerprint(folder: StrPath, ids: list[str]) -> str:
    """Changes when an image is added, removed, renamed or written anew; reads no image."""
    digest = hashlib.sha256()
    for name in ids:
        try:
            status = os.stat(Path(folder, name))
            seen = (status.st_size, status.st_mtime_ns)
        except OSError:  # a dangling link, say: reading it will tell
            seen = (-1, -1)
        digest.update(f"{seen} ".encode() + os.fsencode(name) + b"\0")
    return digest.hexdigest()[:16]


def _compute(
    folder: Path, batch: list[str], backbone: Backbone, features: Features
) -> tuple[NDArray[np.float32], list[Unreadable]]:
    """Rows of the readable images, in order, and the others."""
    prepared, unreadable = [], []
    for name in batch:
        try:
            prepared.append(backbone.prepare(read_image(folder / name)))
        except MemoryError:
            raise
        except Exception as error:  # whatever a decoder makes of a broken file
            unreadable.append(Unreadable(name, why_unreadable(error)))
    if not prepared:
        return np.empty((0, backbone.dimension), dtype=np.float32), unreadable
    return features(np.stack(prepared)), unreadable


def _finish(
    folder: Path, out: Path, ids: list[str], chosen: Backbone, journal: Journal, n_resumed: int
) -> Extraction:
    """Write the file, then drop the batches it was made of."""
    lost = {image.id for image in journal.unreadable}
    kept = [name for name in ids if name not in lost]
    if not kept:
        journal.remove()
        first = journal.unreadable[0]
        raise ValueError(
            f"{folder}: none of {len(ids)} images can be read; the first: {first.id}: "
            f"{first.reason}"
        )
    x = np.concatenate(journal.batches)
    y = [class_of(name) for name in kept]
    header = {
        "kind": "bridgehash features",
        "backbone": chosen.name,
        "version": __version__,
        "images": len(kept),
        "dimension": chosen.dimension,
        "unreadable": journal.unreadable,
    }
    with _writing(out, "nothing is lost, run it again"), _replacing(out) as file:
        np.savez(file, x=x, y=np.array(y), ids=np.array(kept), header=json.dumps(header))
    journal.remove()
    return Extraction(out, x.shape, len(set(y) - {""}), n_resumed, tuple(journal.unreadable))


@contextmanager
def _replacing(path: Path) -> Iterator[IO[bytes]]:
    """An open file, to which NumPy adds no ending of its own, in place of `path` at the end."""
    with atomic_write(path) as temporary, open(temporary, "wb") as file:
        yield file


@contextmanager
def _writing(path: Path, way_out: str) -> Iterator[None]:
    """Name the file, and the way out, when it cannot be written."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error) or type(error).__name__
        raise OSError(f"{path}: cannot be written ({reason}); {way_out}") from error
