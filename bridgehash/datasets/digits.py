"""The handwritten digits of scikit-learn as two domains and two feature spaces.

Source and target are different images. The source is unchanged; the target is blurred and moved
one pixel to the right, as by another scanner. The source features are pixels, the target features
pixels or histograms of gradient directions, so there is a homogeneous and a heterogeneous task.
Nothing is downloaded.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .._core.errors import InputError
from .._core.linalg import Array
from .task import TransferTask

N_IMAGES = 1797
_INK = 16.0  # the darkest value in scikit-learn's copy


@dataclass(frozen=True, eq=False)
class DigitImages:
    """Images of one part of a domain, with their labels."""

    images: Array  # (n, 8, 8), from 0 (paper) to 1 (ink)
    y: NDArray[np.intp]  # (n,) the digit
    rows: NDArray[np.intp]  # (n,) its row in `sklearn.datasets.load_digits`

    @property
    def pixels(self) -> Array:
        """Return the images as rows of 64 values."""
        return self.images.reshape(len(self.images), -1)


@dataclass(frozen=True, eq=False)
class DigitDomains:
    """Source, target and queries (from the target domain); no image is in two of them."""

    source: DigitImages
    target: DigitImages
    query: DigitImages

    def homogeneous(self) -> TransferTask:
        """Return the task with one feature space: 64 pixels in both domains."""
        return self._task(self.target.pixels, self.query.pixels)

    def heterogeneous(self) -> TransferTask:
        """Return the task with two feature spaces: 64 pixels, and histograms of 96 numbers."""
        return self._task(
            gradient_histograms(self.target.images), gradient_histograms(self.query.images)
        )

    def _task(self, X_target: Array, X_query: Array) -> TransferTask:
        labels = self.source.y, self.target.y, self.query.y
        return TransferTask(self.source.pixels, X_target, X_query, *labels)


def digit_domains(n_images: int = N_IMAGES, *, n_queries: int = 200, seed: int = 0) -> DigitDomains:
    """Draw both domains: half of the images for the source, the other half for the target.

    Parameters
    ----------
    n_images : int, default=1797
        Images to use, drawn at random.
    n_queries : int, default=200
        Images of the target that are held out as queries.
    seed : int, default=0
        Decides which images are in which part.

    Examples
    --------
    >>> task = digit_domains().heterogeneous()
    >>> task.X_source.shape, task.X_target.shape, task.X_query.shape
    ((898, 64), (699, 96), (200, 96))
    """
    from sklearn.datasets import load_digits  # slow to import

    if not 8 <= n_images <= N_IMAGES:
        raise InputError(f"n_images={n_images} is not allowed: give 8 to {N_IMAGES}")
    n_source = n_images // 2
    most = n_images - n_source - 2
    if not 1 <= n_queries <= most:
        raise InputError(f"n_queries={n_queries} is not allowed: give 1 to {most}")
    rows = np.random.default_rng(seed).permutation(N_IMAGES)[:n_images]
    source, query, target = np.split(rows, [n_source, n_source + n_queries])
    digits = load_digits()
    images, y = digits.images / _INK, digits.target.astype(np.intp)
    moved = moved_and_blurred(images)
    return DigitDomains(
        source=DigitImages(images[source], y[source], source),
        target=DigitImages(moved[target], y[target], target),
        query=DigitImages(moved[query], y[query], query),
    )


def moved_and_blurred(images: Array) -> Array:
    """Move images one pixel to the right and mix each pixel with its four neighbours.

    The pixel has weight 1/3, each neighbour 1/6; outside the image there is no ink.

    >>> dot = np.zeros((1, 3, 3))
    >>> dot[0, 1, 0] = 6.0
    >>> moved_and_blurred(dot)[0]
    array([[0., 1., 0.],
           [1., 2., 1.],
           [0., 1., 0.]])
    """
    padded = np.pad(images, ((0, 0), (1, 1), (2, 1)))[:, :, :-1]  # one column more on the left
    above, below = padded[:, :-2, 1:-1], padded[:, 2:, 1:-1]
    left, middle, right = padded[:, 1:-1, :-2], padded[:, 1:-1, 1:-1], padded[:, 1:-1, 2:]
    return np.asarray((above + below + left + right + 2.0 * middle) / 6.0)


def gradient_histograms(images: Array, *, n_cells: int = 4, n_bins: int = 6) -> Array:
    """Return histograms of gradient directions in the cells of each image.

    The image is cut into n_cells x n_cells cells. Each pixel adds the length of its gradient to
    the two bins nearest to its direction, in proportion. Opposite directions count as one, so
    dark on light is the same as light on dark (Dalal and Triggs, CVPR 2005, without block
    normalisation).

    Parameters
    ----------
    images : array of shape (n, side, side)
    n_cells : int, default=4
        Cells per side; must divide the side.
    n_bins : int, default=6
        Directions from 0 to 180 degrees.

    Returns
    -------
    X : array of shape (n, n_cells * n_cells * n_bins)

    Examples
    --------
    >>> dot = np.array([[[0.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]])
    >>> gradient_histograms(dot, n_cells=1, n_bins=2)  # as much edge across as down
    array([[2., 2.]])
    """
    n, side, _ = images.shape
    if side % n_cells:
        raise InputError(f"n_cells={n_cells} does not divide the {side} pixels of a side")
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1)))
    across = padded[:, 1:-1, 2:] - padded[:, 1:-1, :-2]
    down = padded[:, 2:, 1:-1] - padded[:, :-2, 1:-1]
    direction = np.arctan2(down, across) * (n_bins / np.pi)  # in bins
    offset = np.abs(direction[..., None] - np.arange(n_bins)) % n_bins
    share = np.clip(1.0 - np.minimum(offset, n_bins - offset), 0.0, None)
    edges = np.hypot(across, down)[..., None] * share  # (n, side, side, n_bins)
    width = side // n_cells
    cells = edges.reshape(n, n_cells, width, n_cells, width, n_bins).sum(axis=(2, 4))
    return cells.reshape(n, -1)
