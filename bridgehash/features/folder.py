"""Images in a folder: list them, with their classes, and read them.

A sub-folder is a class, as in most public image sets: `dog/rex.jpg` is a dog. Hidden files and
files with other suffixes are ignored.
"""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np

from .._core.errors import InputError
from .._core.files import StrPath

if TYPE_CHECKING:
    from PIL.Image import Image

SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")
_WHITEST = 65535  # grey of 16 bits
_MAX_REASON = 200  # characters


class Unreadable(NamedTuple):
    """An image that could not be read, and the reason."""

    id: str
    reason: str


def list_images(folder: StrPath) -> list[str]:
    """Return the ids of all images in a folder: sorted relative paths, with `/`."""
    root = Path(folder)
    if not root.is_dir():
        problem = "is a file, not a folder" if root.exists() else "folder not found"
        raise InputError(f"{problem}; give a folder of images", str(root))
    ids = []
    for here, folders, files in os.walk(root, followlinks=True, onerror=_fail):
        folders[:] = [
            name for name in folders if not (name.startswith(".") or _leads_back(here, name))
        ]
        below = Path(here).relative_to(root).as_posix()
        prefix = "" if below == "." else f"{below}/"
        ids += [
            prefix + name
            for name in files
            if name.lower().endswith(SUFFIXES) and not name.startswith(".")
        ]
    if not ids:
        raise InputError(f"no images; file names must end in {', '.join(SUFFIXES)}", str(root))
    return sorted(ids)


def class_of(image_id: str) -> str:
    """Return the name of the first sub-folder; empty for an image in no sub-folder.

    >>> class_of("dog/brown/rex.jpg"), class_of("rex.jpg")
    ('dog', '')
    """
    return image_id.partition("/")[0] if "/" in image_id else ""


def read_image(path: StrPath) -> Image:
    """Return the image upright (EXIF), in RGB with 8 bits per channel.

    Transparent pixels become white, 16 bits are scaled to 8, and of several frames the first is
    used.
    """
    PIL = pillow()
    if not os.path.isfile(path):  # opening a pipe would block
        raise OSError("file not found" if not os.path.exists(path) else "is not a regular file")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # damaged EXIF
        with PIL.Image.open(path) as opened:
            return upright(opened)


def upright(opened: Image) -> Image:
    """Convert an opened image as `read_image` does."""
    PIL = pillow()
    image: Image = PIL.ImageOps.exif_transpose(opened)
    if image.mode[0] in "IF":  # grey levels with more than 8 bits
        levels = np.asarray(image)
        if image.mode == "F" or levels.min() < 0 or levels.max() > _WHITEST:
            raise InputError("grey levels have an unknown range, neither 8 nor 16 bits")
        image = PIL.Image.fromarray((levels * (255 / _WHITEST)).round().astype(np.uint8))
    if image.has_transparency_data:
        paper = PIL.Image.new("RGBA", image.size, "white")
        image = PIL.Image.alpha_composite(paper, image.convert("RGBA"))
    return image.convert("RGB")


def why_unreadable(error: Exception) -> str:
    """Return why `read_image` failed, in one line and without the path."""
    if type(error).__name__ == "UnidentifiedImageError":
        return "not an image, or an unknown format"
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return " ".join(reason.split())[:_MAX_REASON]


def pillow() -> Any:
    """Return the module PIL; an error names the extra to install."""
    try:
        import PIL.Image
        import PIL.ImageOps
    except ImportError as error:
        raise ImportError("images need Pillow; pip install 'bridgehash[images]'") from error
    return PIL


def _fail(error: OSError) -> NoReturn:
    raise error  # os.walk would skip the folder, and with it a class, silently


def _leads_back(here: str, name: str) -> bool:
    """Return whether this is a link to a folder above."""
    path = Path(here, name)
    return path.is_symlink() and Path(here).resolve().is_relative_to(path.resolve())
