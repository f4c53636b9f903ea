"""SH, spectral hashing (Weiss, Torralba, Fergus, NIPS 2008)."""

from __future__ import annotations

from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .._core.linalg import Array, pca
from .._core.validation import Range, Rules
from ..models.base import N_BITS, About, BaseHasher
from ..models.contents import Contents, Values, Width
from ..models.encoder import LinearEncoder
from ..models.feature_maps import BaseFeatureMap


class SpectralModes(BaseFeatureMap):
    """Cosine modes of lowest frequency over a box around the principal components of the rows.

    Mode i maps a row to cos(k_i π (v_j - low_j) / R_j), with v its principal components, j the axis
    of the mode, and low_j and R_j the minimum and the range of component j in the training rows.
    The paper uses products over several components; its public code uses only modes with a single
    non-zero frequency, so that all factors but one are one.

    Parameters
    ----------
    n_modes : int, default=64

    Attributes
    ----------
    mean_ : array of shape (d,)
    components_ : array of shape (d, p)
        Principal directions, p = min(n_modes, rank).
    low_, range_ : array of shape (p,)
        Minimum and range of each component.
    axis_, frequency_ : array of shape (n_modes,)
        Component j and whole number k of each mode, lowest frequency first.
    """

    _rules: ClassVar[Rules] = {"n_modes": Range(1, kind=Integral)}
    _contents: ClassVar[Contents] = {
        "n_features_in_": Width("d"),
        "n_features_out_": Width("m"),
        "mean_": Values("d"),
        "components_": Values("d p"),
        "low_": Values("p"),
        "range_": Values("p", low=0.0),
        "axis_": Values("m", "iu", low=0, below="p"),
        "frequency_": Values("m", "iu", low=1),
    }

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
        self.axis_, self.frequency_ = lowest_modes(self.range_, self.n_modes)
        return self.n_modes

    def _map(self, X: Array) -> Array:
        V = (X - self.mean_) @ self.components_
        width = np.where(self.range_ > 0, self.range_, 1.0)  # zero where all rows are equal
        phase = (V - self.low_) * (np.pi / width).astype(X.dtype)
        return np.cos(phase[:, self.axis_] * self.frequency_.astype(X.dtype))


def lowest_modes(ranges: Array, n_modes: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return axis j and frequency k of the modes of smallest eigenvalue (kπ / R_j)².

    Frequencies of component j up to n_modes R_j / max R are candidates: higher ones come after
    n_modes modes of the widest component.

    >>> lowest_modes(np.array([3.0, 2.0]), 3)
    (array([0, 1, 0]), array([1, 1, 2]))
    """
    widest = ranges.max()
    share = ranges / widest if widest > 0 else np.ones_like(ranges)
    n_candidates = np.ceil(n_modes * share).astype(int)
    axis = np.repeat(np.arange(len(share)), n_candidates)
    frequency = np.concatenate([np.arange(1, n + 1) for n in n_candidates])
    lowest = np.argsort(frequency / share[axis], kind="stable")[:n_modes]
    return axis[lowest], frequency[lowest]


class SH(BaseHasher):
    """Signs of the cosine modes of lowest frequency along the principal components.

    Codes that keep neighbours together are eigenvectors of the similarity of rows. For rows spread
    evenly over a box they are known in closed form: `SpectralModes`, with eigenvalues that grow
    with (kπ / R_j)². So a wide component gives several bits. The idea follows the paper; the box
    from minimum to maximum and the choice of modes follow its public code. Codes may have any
    length, because the widest component alone has enough modes.

    Parameters
    ----------
    n_bits : int, default=64
    """

    about: ClassVar = About("unsupervised", "Weiss, Torralba & Fergus, NIPS 2008")
    _rules: ClassVar[Rules] = {"n_bits": N_BITS}

    def __init__(self, n_bits: int = 64) -> None:
        self.n_bits = n_bits

    def _learn(self, X: Array, y: NDArray[Any] | None) -> LinearEncoder:
        modes = SpectralModes(self.n_bits).fit(X)
        return LinearEncoder(
            np.eye(self.n_bits, dtype=X.dtype), np.zeros(self.n_bits, X.dtype), maps=[modes]
        )
