"""Images: uploads become features, and images of items are found by id."""

from __future__ import annotations

import io
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .._core.errors import InputError
from ..features.backbones import ExtractSettings, Features, find_backbone
from ..features.folder import list_images, pillow, upright, why_unreadable
from ..index.ids import IdKind
from .errors import RequestError

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP")
# Files that browsers can show.
MEDIA_TYPES = {f".{kind.lower()}": f"image/{kind.lower()}" for kind in FORMATS}
MEDIA_TYPES[".jpg"] = "image/jpeg"
_START_OF_SCAN = b"\xff\xda"  # no other bytes of a JPEG look like this, except in a thumbnail
_MAX_SCANS = 100  # each scan of a progressive JPEG passes over all pixels; encoders write about ten


class ImageReader:
    """Turn the pixels that `decode` returns into a row of features."""

    def __init__(self, backbone: str) -> None:
        self.name = backbone
        found = find_backbone(backbone)
        if found.reads != "image":
            raise InputError(f"{backbone!r} reads texts; choose a backbone of images", "backbone")
        self.dimension = found.dimension
        self._shape = (found.input_size, found.input_size, 3)
        self._features: Features = found.load(ExtractSettings())

    def features(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Return the features of one image, of shape (1, dimension)."""
        assert pixels.shape == self._shape, "as decode returns them"
        return self._features(pixels[None])


def decode(data: bytes, backbone: str, max_pixels: int) -> NDArray[np.uint8]:
    """Return the pixels of one image, upright and in the size that a backbone needs.

    The size in the header and the number of scans are checked before any pixel is decoded. Of
    several frames only the first is decoded.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # broken EXIF data, and sizes, which are checked here
        try:
            with pillow().Image.open(io.BytesIO(data), formats=FORMATS) as image:
                width, height = image.size
                if not 0 < width * height <= max_pixels:
                    raise RequestError(
                        422, f"{width} x {height} pixels; send 1 to {max_pixels} pixels", "image"
                    )
                if image.format == "JPEG" and (n := data.count(_START_OF_SCAN)) > _MAX_SCANS:
                    problem = f"a JPEG of {n} scans; send at most {_MAX_SCANS} scans"
                    raise RequestError(422, problem, "image")
                return find_backbone(backbone).prepare(upright(image))
        except (MemoryError, RequestError):
            raise
        except Exception as error:  # a decoder can raise almost anything on broken bytes
            reason = why_unreadable(error).partition("<_io")[0].strip()  # no buffer address
            raise RequestError(422, f"cannot be read ({reason})", "image") from error


def find_images(folder: Path | None, kind: IdKind | None = None) -> Mapping[int | str, Path]:
    """Return the images of a folder by item id.

    If ids are text, `SKU-17.png` belongs to item SKU-17. If they are numbers and all file names
    are, `17.png` belongs to item 17. Otherwise the first image in sorted order, at any depth,
    belongs to item 0: the same order as the rows of `bridgehash extract`.
    """
    if folder is None:
        return {}
    paths = [folder / name for name in list_images(folder)]
    stems = [path.stem for path in paths]
    by_number = all(stem.isascii() and stem.isdigit() for stem in stems)
    numbers = [int(stem) for stem in stems] if by_number else range(len(paths))
    images: dict[int | str, Path] = {}
    items: Sequence[int | str] = stems if kind == "text" else numbers
    for item, path in zip(items, paths, strict=True):
        if item in images:
            raise InputError(
                f"item {item} has another image, {images[item].name}; remove one", str(path)
            )
        images[item] = path
    return {item: path for item, path in images.items() if path.suffix.lower() in MEDIA_TYPES}
