"""What is extracted: the images of a folder, or the texts of a file."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from .._core.errors import InputError
from .backbones import Reads
from .folder import class_of, list_images, pillow, read_image
from .texts import HOW, SUFFIXES, Texts, read_texts, split_source


class Samples(NamedTuple):
    """Images or texts, in order."""

    kind: Reads
    ids: list[str]
    classes: list[str]  # empty text: no class
    fingerprint: str  # changes when a sample is added, removed, renamed or changed
    read: Callable[[int], Any]  # by position; raises if the sample cannot be read


def open_samples(source: str, labels_column: str = "", ids_column: str = "") -> Samples:
    """List the samples of a folder of images or of a file of texts."""
    path, column = split_source(source)
    if path.suffix.lower() in SUFFIXES and not path.is_dir():
        return _of_texts(read_texts(path, column, labels_column, ids_column))
    if labels_column or ids_column:
        given = "labels_column" if labels_column else "ids_column"
        raise InputError(f"is for {HOW}; omit it for a folder of images", given)
    return _of_folder(path)


def _of_folder(folder: Path) -> Samples:
    pillow()  # raises now if it is missing; else all images would seem unreadable
    ids = list_images(folder)
    seen = [f"{_size_and_time(folder / name)} ".encode() + os.fsencode(name) for name in ids]
    return Samples(
        "image", ids, [*map(class_of, ids)], _digest(seen), lambda i: read_image(folder / ids[i])
    )


def _of_texts(rows: Texts) -> Samples:
    def read(i: int) -> str:
        text = rows.texts[i]
        if text is None:
            raise InputError("empty, or not a text")
        text.encode()  # raises for half a surrogate pair, which JSON can hold and no model reads
        return text

    seen = [repr(row).encode() for row in zip(*rows, strict=True)]
    return Samples("text", rows.ids, rows.labels, _digest(seen), read)


def _size_and_time(path: Path) -> tuple[int, int]:
    try:
        status = os.stat(path)
    except OSError:  # such as a broken link: reported when it is read
        return -1, -1
    return status.st_size, status.st_mtime_ns


def _digest(parts: Iterable[bytes]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part + b"\0")
    return digest.hexdigest()[:16]
