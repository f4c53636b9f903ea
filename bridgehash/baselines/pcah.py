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
        P = pca(X - mean, self.n_bits)
        if P.shape[1] == 0:  # all rows are equal
            P = np.zeros((X.shape[1], 1), X.dtype)
        return LinearEncoder(P[:, np.arange(self.n_bits) % P.shape[1]], mean)
