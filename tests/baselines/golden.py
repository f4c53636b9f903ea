"""Stored runs of public code on MNIST → USPS, and comparisons with them."""

from dataclasses import dataclass

import numpy as np
import pytest

from bridgehash._core.linalg import unit_rows
from bridgehash.codes import pack
from bridgehash.metrics import distance_histogram, radius_pr_area

BITS = pytest.mark.parametrize("n_bits", [16, 64])


@dataclass(frozen=True)
class Digits:
    """Rows of unit norm; `centred()` subtracts the mean of source and target."""

    X_source: np.ndarray
    X_target: np.ndarray
    X_query: np.ndarray
    y_source: np.ndarray
    y_target: np.ndarray
    y_query: np.ndarray

    @property
    def stacked(self):
        return np.vstack([self.X_source, self.X_target])

    def centred(self):
        mean = self.stacked.mean(axis=0)
        X_s, X_t, X_q = (X - mean for X in (self.X_source, self.X_target, self.X_query))
        return Digits(X_s, X_t, X_q, self.y_source, self.y_target, self.y_query)


@dataclass(frozen=True)
class Stored:
    """One stored run: its arrays by name, for one code length."""

    arrays: object
    n_bits: int

    def __getitem__(self, name):
        key = f"b{self.n_bits}_{name}"
        return self.arrays[key if key in self.arrays else name]

    def bits(self, name):
        """A packed matrix as booleans."""
        return np.unpackbits(self[name], axis=1)[:, : self.n_bits].astype(bool)

    def signs(self, name):
        return np.where(self.bits(name), 1.0, -1.0)

    def uniform(self, name):
        return (self[name] + 0.5) / 256

    def normal(self, name):
        return (self[name] + 0.5) / 32


def load_digits(data_pack, golden):
    data, split = data_pack("mnist_usps"), golden("split_mnist_usps")
    names = ("mnist2000", "usps1800")
    X_s, X_t = (unit_rows(data[f"{name}_x"].astype(float)) for name in names)
    y_s, y_t = (data[f"{name}_y"] for name in names)
    train, query = split["train_rows"], split["query_rows"]
    return Digits(X_s, X_t[train], X_t[query], y_s, y_t[train], y_t[query])


def assert_same_bits(stored, digits, project):
    """Check that no bit differs, and that the scores are those of the exact Hamming distance."""
    found = {}
    for name in ("source", "target", "query"):
        found[name] = project(getattr(digits, f"X_{name}")) > 0
        np.testing.assert_array_equal(found[name], stored.bits(f"bits_{name}"))
    for name, where in (("cross", "source"), ("single", "target")):
        histogram = distance_histogram(
            pack(found["query"]),
            pack(found[where]),
            digits.y_query,
            getattr(digits, f"y_{where}"),
            n_bits=stored.n_bits,
        )
        np.testing.assert_allclose(
            radius_pr_area(histogram), float(stored[f"area_{name}_exact"]), rtol=0, atol=1e-12
        )


def assert_close(found, expected, tolerance):
    """Check the largest difference, relative to the largest entry."""
    expected = np.asarray(expected)
    assert np.abs(found - expected).max() <= tolerance * np.abs(expected).max()
