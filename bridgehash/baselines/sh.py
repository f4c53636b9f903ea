"""SH, spectral hashing (Weiss, Torralba, Fergus, NIPS 2008)."""

from __future__ import annotations

from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .._core.linalg import Array, pca
from .._core.validation import Range, Rules
from ..codes import MAX_BITS
from ..models.base import About, BaseHasher
from ..models.encoder import LinearEncoder
from ..models.feature_maps import BaseFeatureMap


class SpectralModes(BaseFeatureMap):
    """The slowest oscillations over a box around the principal components of the rows.

    Mode i maps a row to cos(k_i π (v_j - low_j) / R_j), with v its principal components, j the axis
    of the mode, and low_j and R_j the least value and the range of component j in the training
    rows. The paper takes products over several components; its public code only ever takes modes
    with one frequency different from zero, so that all factors but one are one.

    Parameters
    ----------
    n_modes : int, default=64

    Attributes
    ----------
    mean_ : array of shape (d,)
    components_ : array of shape (d, p)
        Principal directions, p = min(n_modes, rank).
    low_, range_ : array of shape (p,)
        Least value and range of each component.
    axis_, frequency_ : array of shape (n_modes,)
        Component j and whole number k of each mode, slowest mode first.
    """

    _rules: ClassVar[Rules] = {"n_modes": Range(1, kind=Integral)}

    def __init__(self, n_modes: int = 64) -> None:
        self.n_modes = n_modes

    def _learn(self, X: Array) -> int:
        self.mean_: Array = X.mean(axis=0)
        D = X - self.mean_
        P = pca(D, self.n_modes)
        self.components_: Array = P if P.shape[1] else np.zeros((X.shape[1], 1), X.dtype)
        V = D @ self.components_
        self.low_: Array = V.min(axis=0)
        self.range_: Array = np.ptp(V, axis=0)
        self.axis_, self.frequency_ = slowest_modes(self.range_, self.n_modes)
        return self.n_modes

    def _map(self, X: Array) -> Array:
        V = (X - self.mean_) @ self.components_
        width = np.where(self.range_ > 0, self.range_, 1.0)  # zero where all rows are equal
        phase = (V - self.low_) * (np.pi / width).astype(X.dtype)
        return np.cos(phase[:, self.axis_] * self.frequency_.astype(X.dtype))


def slowest_modes(ranges: Array, n_modes: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Axis j and frequency k of the modes of least eigenvalue (kπ / R_j)².

    Component j offers frequencies up to n_modes R_j / max R: faster ones come after n_modes modes
    of the widest component.

    >>> slowest_modes(np.array([3.0, 2.0]), 3)
    (array([0, 1, 0]), array([1, 1, 2]))
    """
    widest = ranges.max()
    share = ranges / widest if widest > 0 else np.ones_like(ranges)
    n_offered = np.ceil(n_modes * share).astype(int)
    axis = np.repeat(np.arange(len(share)), n_offered)
    frequency = np.concatenate([np.arange(1, n + 1) for n in n_offered])
    slowest = np.argsort(frequency / share[axis], kind="stable")[:n_modes]
    return axis[slowest], frequency[slowest]


class SH(BaseHasher):
    """Signs of the slowest oscillations along the principal components.

    Codes that keep neighbours together are eigenvectors of the similarity of rows. For rows spread
    evenly over a box these are known in closed form: `SpectralModes`, of eigenvalues that grow
    with (kπ / R_j)². A wide component thus gives several bits. The idea is the paper's; the box
    from the least to the largest value and the choice of modes are those of its public code. Any
    length of code is possible, since the widest component alone offers as many modes.

    Parameters
    ----------
    n_bits : int, default=64
    """

    about: ClassVar = About("unsupervised", "Weiss, Torralba & Fergus, NIPS 2008")
    _rules: ClassVar[Rules] = {"n_bits": Range(1, MAX_BITS, Integral)}

    def __init__(self, n_bits: int = 64) -> None:
        self.n_bits = n_bits

    def _learn(self, X: Array, y: NDArray[Any] | None) -> LinearEncoder:
        modes = SpectralModes(self.n_bits).fit(X)
        return LinearEncoder(
            np.eye(self.n_bits, dtype=X.dtype), np.zeros(self.n_bits, X.dtype), maps=[modes]
        )
