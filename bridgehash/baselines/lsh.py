"""LSH, random hyperplanes (Charikar, STOC 2002)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_random_state

from .._core.linalg import Array
from .._core.validation import Rules
from ..models.base import N_BITS, About, BaseHasher
from ..models.encoder import LinearEncoder


class LSH(BaseHasher):
    """Signs of random projections; only the mean is learned.

    bit_j = sign((x - mean) · w_j) with Gaussian w_j. A bit of two rows differs with probability
    angle / π, where the angle is that between the centred rows. The random hyperplanes follow the
    paper; that they pass through the mean of the training rows follows its public ports.

    Parameters
    ----------
    n_bits : int, default=64
    random_state : int, RandomState or None
        Draws the hyperplanes.
    """

    about: ClassVar = About("unsupervised", "Charikar, STOC 2002")
    _rules: ClassVar[Rules] = {"n_bits": N_BITS}

    def __init__(
        self, n_bits: int = 64, random_state: int | np.random.RandomState | None = None
    ) -> None:
        self.n_bits = n_bits
        self.random_state = random_state

    def _learn(self, X: Array, y: NDArray[Any] | None) -> LinearEncoder:
        rng = check_random_state(self.random_state)
        W = rng.standard_normal((X.shape[1], self.n_bits))
        return LinearEncoder(W.astype(X.dtype), X.mean(axis=0))
