"""The images of a folder: which there are, of what class, and how one is read.

A sub-folder is a class, as in most public image sets: `dog/rex.jpg` is a dog. Files whose names do
not end like images, and everything hidden, are no part of the set.
"""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np

from .._core.files import StrPath

if TYPE_CHECKING:
    from PIL.Image import Image

SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")
_WHITE = (255, 255, 255, 255)
_WHITEST = 65535  # grey of 16 bits
_MAX_REASON = 200  # characters


class Unreadable(NamedTuple):
    """An image that could not be read, and why."""

    id: str
    reason: str


def list_images(folder: StrPath) -> list[str]:
    """Ids of all images below a folder: paths relative to it, with `/`, in sorted order."""
    root = Path(folder)
    if not root.is_dir():
        problem = "is a file, not a folder" if root.exists() else "there is no such folder"
        raise ValueError(f"{root}: {problem}; name a folder of images")
    ids = []
    for here, folders, files in os.walk(root, followlinks=True, onerror=_fail):
        folders[:] = [name for name in folders if not (_hidden(name) or _leads_back(here, name))]
        ids += [
            Path(here, name).relative_to(root).as_posix()
            for name in files
            if name.lower().endswith(SUFFIXES) and not _hidden(name)
        ]
    if not ids:
        raise ValueError(f"{root}: holds no image; file names must end in {', '.join(SUFFIXES)}")
    return sorted(ids)


def class_of(image_id: str) -> str:
    """Name of the first sub-folder; nothing for an image that lies in no sub-folder.

    >>> class_of("dog/brown/rex.jpg"), class_of("rex.jpg")
    ('dog', '')
    """
    return image_id.partition("/")[0] if "/" in image_id else ""


def read_image(path: StrPath) -> Image:
    """The image upright (EXIF), in RGB, 8 bits a channel.

    What is transparent becomes white, as on paper; 16 bits are scaled to 8; of several frames the
    first is taken.
    """
    PIL = pillow()
    if not os.path.isfile(path):  # opening a pipe would wait for ever
        raise OSError("no such file" if not os.path.exists(path) else "is not a regular file")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # damaged EXIF of a readable image
        with PIL.Image.open(path) as opened:
            return upright(opened)


def upright(opened: Image) -> Image:
    """An opened image as `read_image` gives it."""
    PIL = pillow()
    return _rgb(PIL, PIL.ImageOps.exif_transpose(opened))


def why_unreadable(error: Exception) -> str:
    """One line on what `read_image` raised, without the path."""
    if type(error).__name__ == "UnidentifiedImageError":
        return "not an image, or of an unknown kind"
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return " ".join(reason.split())[:_MAX_REASON]


def pillow() -> Any:
    """The package PIL, or an error that names the extra."""
    try:
        import PIL.Image
        import PIL.ImageOps
    except ImportError as error:
        raise ImportError("images need Pillow; pip install 'bridgehash[images]'") from error
    return PIL


def _rgb(PIL: Any, image: Image) -> Image:
    if image.mode[0] in "IF":  # grey levels of more than 8 bits
        levels = np.asarray(image)
        if image.mode == "F" or levels.min() < 0 or levels.max() > _WHITEST:
            raise ValueError("its grey levels have no known range: neither 8 nor 16 bits")
        image = PIL.Image.fromarray((levels * (255 / _WHITEST)).round().astype(np.uint8))
    if image.has_transparency_data:
        paper = PIL.Image.new("RGBA", image.size, _WHITE)
        image = PIL.Image.alpha_composite(paper, image.convert("RGBA"))
    return image.convert("RGB")


def _fail(error: OSError) -> NoReturn:
    raise error  # else os.walk would pass over a folder, and with it a class, in silence


def _hidden(name: str) -> bool:
    return name.startswith(".")


def _leads_back(here: str, name: str) -> bool:
    """Is it a link to a folder that holds it?"""
    path = Path(here, name)
    return path.is_symlink() and Path(here).resolve().is_relative_to(path.resolve())
