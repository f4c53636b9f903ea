"""PCAH, signs of principal components (Wang, Kumar, Chang, CVPR 2010)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .._core.linalg import Array, pca
from .._core.validation import Rules
from ..models.base import N_BITS, About, BaseHasher
from ..models.encoder import LinearEncoder


class PCAH(BaseHasher):
    """Signs of the leading principal components.

    The projections P maximise tr(Pᵀ Xᵀ X P) over PᵀP = I for centred rows X, as in the public
    code. Codes longer than the rank of the data repeat the directions from the first one, which is
    ours: the leading directions then count more often in a distance.

    Parameters
    ----------
    n_bits : int, default=64
    """

    about: ClassVar = About("unsupervised", "Wang, Kumar & Chang, CVPR 2010")
    _rules: ClassVar[Rules] = {"n_bits": N_BITS}

    def __init__(self, n_bits: int = 64) -> None:
        self.n_bits = n_bits

    def _learn(self, X: Array, y: NDArray[Any] | None) -> LinearEncoder:
        mean = X.mean(axis=0)
        return LinearEncoder(repeat_columns(pca(X - mean, self.n_bits), self.n_bits), mean)


def repeat_columns(P: Array, n_bits: int) -> Array:
    """Repeat the columns of P up to n_bits columns; zeros if P has none.

    >>> repeat_columns(np.array([[1.0, 2.0]]), 3)
    array([[1., 2., 1.]])
    """
    if P.shape[1] == 0:
        return np.zeros((len(P), n_bits), P.dtype)
    return P[:, np.arange(n_bits) % P.shape[1]]
