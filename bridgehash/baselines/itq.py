"""ITQ, iterative quantisation (Gong & Lazebnik, CVPR 2011; TPAMI 35(12), 2013)."""

from __future__ import annotations

from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_random_state

from .._core.arrays import astype
from .._core.linalg import Array, as_double, itq_rotation, principal, random_orthonormal
from .._core.validation import Range, Rules
from ..models.base import N_BITS, About, BaseHasher
from ..models.encoder import LinearEncoder


class ITQ(BaseHasher):
    """Principal components, rotated to minimise the quantisation error of their signs.

    min ‖B - X P R‖² over signs B and rotations R, alternating two exact steps. Objective, steps and
    the 50 rounds follow the paper and its public code. Ours: the uniformly random first rotation,
    and codes longer than the rank of the data, for which R has orthonormal rows.

    Parameters
    ----------
    n_bits : int, default=64
    max_iter : int, default=50
        Number of rounds; there is no stopping test.
    random_state : int, RandomState or None
        Draws the first rotation.
    """

    about: ClassVar = About("unsupervised", "Gong & Lazebnik, CVPR 2011; TPAMI 35(12), 2013")
    _rules: ClassVar[Rules] = {"n_bits": N_BITS, "max_iter": Range(0, kind=Integral)}

    def __init__(
        self,
        n_bits: int = 64,
        max_iter: int = 50,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_bits = n_bits
        self.max_iter = max_iter
        self.random_state = random_state

    def _learn(self, X: Array, y: NDArray[Any] | None) -> LinearEncoder:
        rng = check_random_state(self.random_state)
        mean = X.mean(axis=0)
        self.n_iter_ = self.max_iter
        return LinearEncoder(itq_projection(X - mean, self.n_bits, self.max_iter, rng), mean)


def itq_projection(X: Array, n_bits: int, n_iter: int, rng: np.random.RandomState) -> Array:
    """Return P R: principal directions of centred rows, rotated by ITQ from a random start."""
    P = principal(X, n_bits)
    R = random_orthonormal(P.shape[1], n_bits, rng)
    return astype(P @ itq_rotation(as_double(X) @ P, R, n_iter), X.dtype)
