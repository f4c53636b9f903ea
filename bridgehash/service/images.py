"""Pictures: uploads become features, and those of items are found by id in a table made at start.

An upload is judged by its header before a pixel is decoded.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..features.backbones import ExtractSettings, Features, find_backbone
from ..features.folder import list_images, pillow, upright, why_unreadable
from .errors import invalid

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP")
SHOWN = {  # what browsers show
    ".bmp": "image/bmp",
    ".gif": "image/gif",
    ".jpeg": "image/jpeg",
    ".jpg": "image/jpeg",
    ".png": "image/png",
    ".webp": "image/webp",
}


class ImageReader:
    """From the bytes of an image to a row of features."""

    def __init__(self, backbone: str, most_pixels: int) -> None:
        self.name = backbone
        self._backbone = find_backbone(backbone)
        self._most_pixels = most_pixels
        pillow()
        self._features: Features = self._backbone.load(ExtractSettings())

    @property
    def dimension(self) -> int:
        return self._backbone.dimension

    def features(self, data: bytes) -> NDArray[np.float32]:
        """Features of one image, shape (1, dimension)."""
        prepared = self._prepared(data)
        return self._features(prepared[None])

    def _prepared(self, data: bytes) -> NDArray[np.uint8]:
        PIL = pillow()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # damaged EXIF, and sizes: they are judged here
            try:
                with PIL.Image.open(io.BytesIO(data), formats=FORMATS) as opened:
                    self._check_size(opened.size)
                    return self._backbone.prepare(upright(opened))
            except MemoryError:
                raise
            except Exception as error:  # whatever a decoder makes of broken bytes
                if hasattr(error, "status"):
                    raise
                raise invalid(f"image: cannot be read ({_reason(error)})", "image") from error

    def _check_size(self, size: tuple[int, int]) -> None:
        if size[0] * size[1] > self._most_pixels:
            raise invalid(
                f"image: {size[0]} x {size[1]} pixels are more than {self._most_pixels}; send a "
                "smaller one",
                "image",
            )
        if min(size) < 1:
            raise invalid("image: it has no pixels", "image")


def picture_table(folder: Path | None) -> Mapping[int, Path]:
    """Pictures of a folder by item id: the number in a name, or else the place in sorted order.

    `17.png` shows item 17 if all names are numbers; in other folders the first image by name, at
    any depth, shows item 0, as `bridgehash extract` numbers its rows.
    """
    if folder is None:
        return {}
    paths = [folder / name for name in list_images(folder)]
    stems = [path.stem for path in paths]
    by_number = all(stem.isascii() and stem.isdigit() for stem in stems)
    numbers = [int(stem) for stem in stems] if by_number else range(len(paths))
    table: dict[int, Path] = {}
    for number, path in zip(numbers, paths, strict=True):
        if number in table:
            raise ValueError(f"{path}: shows item {number}, as {table[number].name} does")
        table[number] = path
    return {number: path for number, path in table.items() if path.suffix.lower() in SHOWN}


def _reason(error: Any) -> str:
    """Why, without the address of a buffer, which says nothing."""
    return why_unreadable(error).partition("<_io")[0].strip()
