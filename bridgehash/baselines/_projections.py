"""Standardised rows and the projection of ITQ, for several methods."""

from __future__ import annotations

import numpy as np

from .._core.arrays import astype
from .._core.linalg import (
    Array,
    as_double,
    itq_rotation,
    mean_square,
    principal,
    random_orthonormal,
)


def standardised(X: Array) -> tuple[Array, Array, float]:
    """Return rows of mean zero and root-mean-square norm one, with that mean and that norm.

    >>> standardised(np.array([[1.0], [5.0]]))
    (array([[-1.],
           [ 1.]]), array([3.]), 2.0)
    """
    mean = X.mean(axis=0)
    X = X - mean
    scale = mean_square(X) ** 0.5 or 1.0
    X *= 1.0 / scale
    return X, mean, scale


def itq_projection(X: Array, n_bits: int, n_iter: int, rng: np.random.RandomState) -> Array:
    """Return P R: principal directions of centred rows, rotated by ITQ from a random start."""
    P = principal(X, n_bits)
    R = random_orthonormal(P.shape[1], n_bits, rng)
    return astype(P @ itq_rotation(as_double(X) @ P, R, n_iter), X.dtype)
