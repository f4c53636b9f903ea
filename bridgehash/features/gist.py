"""GIST: how strong each scale and orientation is in each part of a grey image.

Oliva and Torralba, "Modeling the shape of the context: a holistic representation of the spatial
envelope", IJCV 42, 2001, in the setting that most papers use: 4 scales, 8 orientations, a 4 x 4
grid, hence 512 numbers an image. They live on a common scale below 1 and need no learning.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import fft

N_SCALES = 4
N_ORIENTATIONS = 8
GRID = 4
DIMENSION = N_SCALES * N_ORIENTATIONS * GRID**2

_FINEST = 0.3  # cycles a pixel at the centre of the finest scale
_RATIO = 1.85  # from one scale to the next
_RADIAL = 3.5  # sharpness in frequency, relative to the centre
_ANGULAR = 2 * np.pi * (N_ORIENTATIONS / 8) ** 2  # sharpness in angle: neighbours overlap
_MIRRORED = 32  # pixels put around an image, so that its edges are no contour
_CUTOFF = 4.0  # cycles an image, below which whitening takes the contrast away
_WHITENING_BORDER = 5
_LEAST_CONTRAST = 0.2  # keeps flat regions flat
_CHUNK = 4  # images transformed at a time: their spectra stay in the cache


def gist(images: NDArray[Any]) -> NDArray[np.float32]:
    """GIST of square grey images.

    Brightness and contrast of a whole image do not matter: grey levels are stretched to 0..255,
    their logarithm is whitened, and the local contrast is evened out. Then a number is the mean
    magnitude of one Gabor-like filter in one cell of the grid.

    Parameters
    ----------
    images : array of shape (n, side, side)
        Grey levels on any linear scale; `side` is a multiple of 4.

    Returns
    -------
    features : array of shape (n, 512)
        Ordered by scale (finest first), orientation, row and column of the grid.

    Examples
    --------
    >>> stripes = np.tile([0, 0, 255, 255], (1, 32, 8))
    >>> cells = gist(stripes).reshape(4, 8, 16)
    >>> np.unravel_index(cells.sum(axis=2).argmax(), (4, 8))  # fine, and across the stripes
    (np.int64(0), np.int64(0))
    """
    images = np.asarray(images)
    if images.ndim != 3 or images.shape[1] != images.shape[2] or images.shape[1] % GRID:
        raise ValueError(
            f"images must have shape (n, side, side), side a multiple of {GRID}, "
            f"not {images.shape}; resize them first"
        )
    features = np.zeros((len(images), DIMENSION), dtype=np.float32)
    for start in range(0, len(images), _CHUNK):
        chunk = slice(start, start + _CHUNK)
        features[chunk] = _grid_means(_whiten(_stretch(images[chunk])))
    return features


def _stretch(images: NDArray[Any]) -> NDArray[np.float32]:
    """Grey levels from 0 to 255; a flat image is 0."""
    grey = images.astype(np.float32)
    grey -= grey.min(axis=(1, 2), keepdims=True)
    return 255 * grey / np.maximum(grey.max(axis=(1, 2), keepdims=True), 1e-12)


def _whiten(images: NDArray[np.float32]) -> NDArray[np.float32]:
    """Take away what is smooth, then divide by the local contrast of the rest."""
    border = (_WHITENING_BORDER, _WHITENING_BORDER)
    inside = slice(_WHITENING_BORDER, -_WHITENING_BORDER)
    padded = np.pad(np.log1p(images), ((0, 0), border, border), mode="symmetric")
    smooth = _low_pass(padded.shape[1])

    def smoothed(x: Any) -> Any:
        return fft.irfft2(fft.rfft2(x) * smooth)

    detail: NDArray[np.float32] = padded - smoothed(padded)
    detail /= _LEAST_CONTRAST + np.sqrt(np.abs(smoothed(detail**2)))
    return detail[:, inside, inside]


def _grid_means(images: NDArray[np.float32]) -> NDArray[np.float32]:
    """Mean magnitude of every filter in every cell, of shape (n, 512)."""
    n, side = images.shape[:2]
    border = (_MIRRORED, _MIRRORED)
    inside = slice(_MIRRORED, -_MIRRORED)
    spectrum = fft.fft2(np.pad(images, ((0, 0), border, border), mode="symmetric"))
    means = np.empty((n, N_SCALES * N_ORIENTATIONS, GRID, GRID), dtype=np.float32)
    for i, transfer in enumerate(_filters(side + 2 * _MIRRORED)):
        response = np.abs(fft.ifft2(spectrum * transfer, overwrite_x=True)[:, inside, inside])
        means[:, i] = response.reshape(n, GRID, side // GRID, GRID, -1).mean(axis=(2, 4))
    return means.reshape(n, DIMENSION)


@lru_cache(maxsize=4)
def _low_pass(side: int) -> NDArray[np.float32]:
    """Gaussian transfer function, one half at the cut-off, for `rfft2`."""
    rows, columns = fft.fftfreq(side, 1 / side), fft.rfftfreq(side, 1 / side)
    squared = rows[:, None] ** 2 + columns**2
    return np.exp(-np.log(2) * squared / _CUTOFF**2).astype(np.float32)


@lru_cache(maxsize=4)
def _filters(side: int) -> NDArray[np.float32]:
    """Transfer functions of shape (32, side, side): one lobe each, on one side of the origin."""
    frequency = fft.fftfreq(side)
    radius = np.hypot(frequency[:, None], frequency)
    angle = np.arctan2(frequency[:, None], frequency)
    bank = np.empty((N_SCALES, N_ORIENTATIONS, side, side), dtype=np.float32)
    for scale in range(N_SCALES):
        away = radius / (_FINEST / _RATIO**scale) - 1
        for orientation in range(N_ORIENTATIONS):
            turned = angle + np.pi * orientation / N_ORIENTATIONS
            turned = np.where(turned > np.pi, turned - 2 * np.pi, turned)
            bank[scale, orientation] = np.exp(-_RADIAL * away**2 - _ANGULAR * turned**2)
    return bank.reshape(-1, side, side)
