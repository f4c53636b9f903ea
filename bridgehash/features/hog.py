"""HOG: histograms of gradient directions on a grid of cells.

Dalal and Triggs, "Histograms of oriented gradients for human detection", CVPR 2005, computed by
scikit-image: 9 directions, cells of 16 pixels, normalised in blocks of 2 x 2 cells. On images of
128 pixels these cells are large enough to tolerate small shifts.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._core.errors import InputError

N_DIRECTIONS = 9
CELL = 16  # pixels
BLOCK = 2  # cells


def hog(images: NDArray[Any]) -> NDArray[np.float32]:
    """Return the HOG of grey images of shape (n, height, width), one row per image.

    Sides of 128 pixels give 8 x 8 cells, 7 x 7 blocks and 1764 numbers. A block has unit length,
    or zero length if it is flat, so the scale of the grey levels hardly matters.
    """
    try:
        from skimage.feature import hog as histograms
    except ImportError as error:
        raise ImportError("HOG needs scikit-image; pip install 'bridgehash[images]'") from error
    images = np.asarray(images)
    if images.ndim != 3 or min(images.shape[1:]) < CELL * BLOCK:
        raise InputError(
            f"images must have shape (n, height, width), at least {CELL * BLOCK} pixels per side, "
            f"not {images.shape}; resize them first"
        )
    rows = [
        histograms(
            image,
            orientations=N_DIRECTIONS,
            pixels_per_cell=(CELL, CELL),
            cells_per_block=(BLOCK, BLOCK),
            block_norm="L2-Hys",
        )
        for image in images.astype(np.float32)
    ]
    return np.array(rows, dtype=np.float32).reshape(len(images), dimension(*images.shape[1:]))


def dimension(height: int, width: int) -> int:
    """Return the number of features per image.

    >>> dimension(128, 128)
    1764
    """
    blocks = (height // CELL - BLOCK + 1) * (width // CELL - BLOCK + 1)
    return blocks * BLOCK**2 * N_DIRECTIONS
