"""The handwritten digits that scikit-learn carries, as two domains and two feature spaces.

Source and target are different images. Those of the source stay as they were scanned; those of
the target are blurred and moved one pixel to the right, as by another scanner. The source is seen
as pixels, the target as pixels too or as histograms of gradient directions, so that one set gives
a homogeneous and a heterogeneous task. Nothing is downloaded.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from .._core.linalg import Array
from .task import TransferTask

N_IMAGES = 1797
_INK = 16.0  # the darkest value in scikit-learn's copy


@dataclass(frozen=True, eq=False)
class DigitImages:
    """Images of one part of a domain, with what is known of each."""

    images: Array  # (n, 8, 8), 0 paper to 1 ink
    y: NDArray[np.intp]  # (n,) the digit
    rows: NDArray[np.intp]  # (n,) its row in `sklearn.datasets.load_digits`

    @property
    def pixels(self) -> Array:
        """The images as rows of 64 values."""
        return self.images.reshape(len(self.images), -1)


@dataclass(frozen=True, eq=False)
class DigitDomains:
    """Source, target and queries (more of the target); no image is in two of them."""

    source: DigitImages
    target: DigitImages
    query: DigitImages

    def homogeneous(self) -> TransferTask:
        """One feature space: 64 pixels on both sides."""
        return self._task(self.target.pixels, self.query.pixels)

    def heterogeneous(self) -> TransferTask:
        """Two feature spaces: 64 pixels in the source, histograms of 96 numbers in the target."""
        return self._task(
            gradient_histograms(self.target.images), gradient_histograms(self.query.images)
        )

    def _task(self, X_target: Array, X_query: Array) -> TransferTask:
        return TransferTask(
            X_source=self.source.pixels,
            X_target=X_target,
            X_query=X_query,
            y_source=self.source.y,
            y_target=self.target.y,
            y_query=self.query.y,
        )


def digit_domains(n_images: int = N_IMAGES, *, n_queries: int = 200, seed: int = 0) -> DigitDomains:
    """Draw both domains: half of the images for the source, the other half for the target.

    Parameters
    ----------
    n_images : int, default=1797
        Images to use, drawn from all of them.
    n_queries : int, default=200
        Images of the target that are held out to ask with.
    seed : int, default=0
        Decides which images go where.

    Examples
    --------
    >>> task = digit_domains().heterogeneous()
    >>> task.X_source.shape, task.X_target.shape, task.X_query.shape
    ((898, 64), (699, 96), (200, 96))
    """
    if not 8 <= n_images <= N_IMAGES:
        raise ValueError(f"n_images={n_images} is not allowed: give 8 to {N_IMAGES}")
    n_source = n_images // 2
    most = n_images - n_source - 2
    if not 1 <= n_queries <= most:
        raise ValueError(f"n_queries={n_queries} is not allowed: give 1 to {most}")
    rows = np.random.default_rng(seed).permutation(N_IMAGES)[:n_images]
    source, query, target = np.split(rows, [n_source, n_source + n_queries])
    images, y = _all_digits()
    moved = moved_and_blurred(images)
    return DigitDomains(
        source=DigitImages(images[source], y[source], source),
        target=DigitImages(moved[target], y[target], target),
        query=DigitImages(moved[query], y[query], query),
    )


def moved_and_blurred(images: Array) -> Array:
    """Images one pixel further right, each pixel mixed with its four neighbours.

    The pixel itself counts a third, each neighbour a sixth; beyond the edge there is no ink.

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
    blurred: Array = (above + below + left + right + 2.0 * middle) / 6.0
    return blurred


def gradient_histograms(images: Array, *, n_cells: int = 4, n_bins: int = 6) -> Array:
    """How much edge of which direction there is in each part of an image.

    The image is cut into n_cells x n_cells cells. Each pixel gives the length of its gradient to
    the two bins nearest to its direction, in proportion; opposite directions count as one, so
    dark on light is the same as light on dark (after the histograms of oriented gradients of
    Dalal and Triggs, CVPR 2005, without their normalisation of blocks).

    Parameters
    ----------
    images : array of shape (n, side, side)
    n_cells : int, default=4
        Cells along each side; divides the side.
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
        raise ValueError(f"n_cells={n_cells} does not divide the {side} pixels of a side")
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


def _all_digits() -> tuple[Array, NDArray[np.intp]]:
    bunch = load_digits()
    return bunch.images / _INK, bunch.target.astype(np.intp)
