"""Encoders and rows for tests of encoding."""

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin

from bridgehash import AnchorKernel, LinearEncoder, UnitRows
from bridgehash._core import arrays as _xp

N, D, BITS = 3000, 40, 20


class Doubled(TransformerMixin, BaseEstimator):
    """A map of somebody else, for any library."""

    n_features_in_ = D

    def transform(self, X):
        return X + X


def rows(n=N, dtype=np.float64, d=D, shift=0.5):
    return (np.random.default_rng(0).normal(size=(n, d)) + shift).astype(dtype)


def made(maps=(), dtype=np.float64, d=D, bits=BITS):
    rng = np.random.default_rng(1)
    A, mean, b = rng.normal(size=(d, bits)), rng.normal(size=d) / d**0.5, rng.normal(size=bits)
    return LinearEncoder(A.astype(dtype), mean.astype(dtype), 1.7, maps, 0.1 * b.astype(dtype))


def unit_rows(d=D):
    return [UnitRows().fit(np.ones((1, d)))]


def kernel():
    return [*unit_rows(), AnchorKernel(D, random_state=0).fit(rows(60))]


def formula(encoder, X):
    """Maps, then ((φ(x) - mean) / scale) @ projection + intercept, all rows at once in float64."""
    Z = np.asarray(X, dtype=np.float64)
    for feature_map in encoder.maps:
        Z = feature_map.transform(Z)
    H = ((Z - encoder.mean) / encoder.scale) @ encoder.projection.astype(np.float64)
    return H + encoder.intercept


def use_small_blocks(monkeypatch):
    """Blocks of seven rows, and no product too small to be cut into them."""
    monkeypatch.setattr(_xp, "_IN_CACHE", 0)
    monkeypatch.setattr(_xp, "_ROWS", 7)
    monkeypatch.setattr(_xp, "_ROWS_ON_DEVICE", 7)
    monkeypatch.setattr(_xp, "_SMALL", 0)
