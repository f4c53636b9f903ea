"""GIST: the strength of each scale and orientation in each part of a grey image.

Oliva and Torralba, "Modeling the shape of the context: a holistic representation of the spatial
envelope", IJCV 42, 2001, with the settings of most papers: 4 scales, 8 orientations and a 4 x 4
grid, hence 512 numbers per image, all below 1. No training is needed.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from .._core.errors import InputError

N_SCALES = 4
N_ORIENTATIONS = 8
GRID = 4
DIMENSION = N_SCALES * N_ORIENTATIONS * GRID**2

_FINEST = 0.3  # cycles per pixel at the centre of the finest scale
_RATIO = 1.85  # from one scale to the next
_RADIAL = 3.5  # sharpness in frequency, relative to the centre
_ANGULAR = 2 * np.pi * (N_ORIENTATIONS / 8) ** 2  # sharpness in angle: neighbours overlap
_MIRRORED = 32  # mirrored pixels around an image, so that its edges are not a contour
_CUTOFF = 4.0  # cycles per image, below which whitening removes contrast
_WHITENING_BORDER = 5
_LEAST_CONTRAST = 0.2  # keeps flat regions flat
_CHUNK = 4  # images per transform: their spectra fit the cache


def gist(images: NDArray[Any]) -> NDArray[np.float32]:
    """Return the GIST of square grey images.

    Overall brightness and contrast do not matter: grey levels are scaled to 0..255, their
    logarithm is whitened, and the local contrast is normalised. Each feature is the mean magnitude
    of one Gabor-like filter in one cell of the grid.

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
        raise InputError(
            f"images must have shape (n, side, side), side a multiple of {GRID}, "
            f"not {images.shape}; resize them first"
        )
    features = np.zeros((len(images), DIMENSION), dtype=np.float32)
    for start in range(0, len(images), _CHUNK):
        chunk = slice(start, start + _CHUNK)
        grey = images[chunk].astype(np.float32)
        grey -= grey.min(axis=(1, 2), keepdims=True)  # a flat image becomes 0
        grey = 255 * grey / np.maximum(grey.max(axis=(1, 2), keepdims=True), 1e-12)
        features[chunk] = _grid_means(_whiten(grey))
    return features


def _whiten(images: NDArray[np.float32]) -> NDArray[np.float32]:
    """Subtract the smooth part, then divide by the local contrast of the rest."""
    border = (_WHITENING_BORDER, _WHITENING_BORDER)
    inside = slice(_WHITENING_BORDER, -_WHITENING_BORDER)
    padded = np.pad(np.log1p(images), ((0, 0), border, border), mode="symmetric")
    smooth = _low_pass(padded.shape[1])

    def smoothed(x: Any) -> Any:
        return scipy.fft.irfft2(scipy.fft.rfft2(x) * smooth)

    detail: NDArray[np.float32] = padded - smoothed(padded)
    detail /= _LEAST_CONTRAST + np.sqrt(np.abs(smoothed(detail**2)))
    return detail[:, inside, inside]


def _grid_means(images: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the mean magnitude of every filter in every cell, of shape (n, 512)."""
    n, side = images.shape[:2]
    border = (_MIRRORED, _MIRRORED)
    inside = slice(_MIRRORED, -_MIRRORED)
    spectrum = scipy.fft.fft2(np.pad(images, ((0, 0), border, border), mode="symmetric"))
    means = np.empty((n, N_SCALES * N_ORIENTATIONS, GRID, GRID), dtype=np.float32)
    for i, transfer in enumerate(_filters(side + 2 * _MIRRORED)):
        response = np.abs(scipy.fft.ifft2(spectrum * transfer, overwrite_x=True)[:, inside, inside])
        means[:, i] = response.reshape(n, GRID, side // GRID, GRID, -1).mean(axis=(2, 4))
    return means.reshape(n, DIMENSION)


@lru_cache(maxsize=4)
def _low_pass(side: int) -> NDArray[np.float32]:
    """Return a Gaussian transfer function for `rfft2`, one half at the cut-off."""
    rows, columns = scipy.fft.fftfreq(side, 1 / side), scipy.fft.rfftfreq(side, 1 / side)
    squared = rows[:, None] ** 2 + columns**2
    return np.exp(-np.log(2) * squared / _CUTOFF**2).astype(np.float32)


@lru_cache(maxsize=4)
def _filters(side: int) -> NDArray[np.float32]:
    """Return transfer functions of shape (32, side, side), each with one lobe."""
    frequency = scipy.fft.fftfreq(side)
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
