"""HOG: histograms of gradient directions on a grid of cells.

Dalal and Triggs, "Histograms of oriented gradients for human detection", CVPR 2005, as
scikit-image computes it: 9 directions, cells of 16 pixels, each normalised in blocks of 2 x 2.
On images of 128 pixels these cells are wide enough to forgive small shifts.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

N_DIRECTIONS = 9
CELL = 16  # pixels
BLOCK = 2  # cells


def hog(images: NDArray[Any]) -> NDArray[np.float32]:
    """HOG of grey images, of shape (n, height, width); one row an image.

    Sides of 128 pixels make 8 x 8 cells, 7 x 7 blocks and 1764 numbers. A block has unit length,
    or zero length where it is flat, so the scale of the grey levels hardly matters.
    """
    try:
        from skimage.feature import hog as histograms
    except ImportError as error:
        raise ImportError("HOG needs scikit-image; pip install 'bridgehash[images]'") from error
    images = np.asarray(images)
    if images.ndim != 3 or min(images.shape[1:]) < CELL * BLOCK:
        raise ValueError(
            f"images must have shape (n, height, width), at least {CELL * BLOCK} pixels each way, "
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
    """Length of a row.

    >>> dimension(128, 128)
    1764
    """
    blocks = (height // CELL - BLOCK + 1) * (width // CELL - BLOCK + 1)
    return blocks * BLOCK**2 * N_DIRECTIONS
