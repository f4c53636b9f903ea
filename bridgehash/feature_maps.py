"""Feature maps φ: ordinary scikit-learn transformers placed before the projection."""

from __future__ import annotations

from abc import ABC, abstractmethod
from numbers import Integral
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.utils import gen_batches
from sklearn.utils.validation import check_is_fitted, check_random_state, validate_data

from ._validation import FLOATS, OneOf, Range, Rules, check_parameters
from .linalg import Array, pca

_TILE = 1024  # rows whose distances to the anchors are held at a time


def outward(X: Array) -> NDArray[np.intp]:
    """Numbers of the rows by their distance from the mean: an order that no shuffling changes."""
    D = X - X.mean(axis=0)
    return np.argsort(np.einsum("ij,ij->i", D, D), kind="stable")


def drawn_rows(X: Array, n: int, rng: np.random.RandomState) -> NDArray[np.intp]:
    """Numbers of n different rows of X at random (all, where there are fewer), inner ones first.

    They are drawn by position in the order of distance from the mean, so the same seed finds the
    same rows whatever the order of the samples.
    """
    return outward(X)[np.sort(rng.choice(len(X), min(n, len(X)), replace=False))]


class BaseFeatureMap(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, ABC):
    """A map of rows to rows: `_learn` says what a subclass keeps of X, `_map` what it does."""

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Learn what the map needs from the rows of X."""
        check_parameters(self)
        self.n_features_out_ = self._learn(validate_data(self, X, dtype=FLOATS))
        return self

    @property
    def _n_features_out(self) -> int:
        return self.n_features_out_

    def transform(self, X: ArrayLike) -> Array:
        """φ(x) of each row."""
        check_is_fitted(self, "n_features_in_")
        return self._map(validate_data(self, X, dtype=FLOATS, reset=False))

    @abstractmethod
    def _learn(self, X: Array) -> int:
        """Set what is learned from X and return the width of the output."""

    @abstractmethod
    def _map(self, X: Array) -> Array:
        """φ(x) of each checked row."""


class UnitRows(BaseFeatureMap):
    """Each row divided by its norm, so that only its direction counts; zero rows stay zero.

    >>> UnitRows().fit_transform([[3.0, 4.0], [0.0, 0.0]])
    array([[0.6, 0.8],
           [0. , 0. ]])
    """

    def _learn(self, X: Array) -> int:
        return X.shape[1]

    def _map(self, X: Array) -> Array:
        with np.errstate(over="ignore", under="ignore"):
            squares = np.einsum("ij,ij->i", X, X)
        odd = ~np.isfinite(squares) | (squares < np.finfo(X.dtype).tiny / np.finfo(X.dtype).eps)
        if odd.any():  # rows so large or so small that their squares are not to be trusted
            X = X.copy()
            largest = np.abs(X[odd]).max(axis=1, keepdims=True)
            X[odd] /= np.where(largest > 0, largest, 1.0)
            squares[odd] = np.einsum("ij,ij->i", X[odd], X[odd])
        return X * (1.0 / np.sqrt(np.where(squares > 0, squares, 1.0)))[:, None]


class PrincipalMap(BaseFeatureMap):
    """Projection on the leading principal directions: how a wide domain meets a narrow one.

    Parameters
    ----------
    n_components : int
        Width wanted; the output is padded with zeros where the rank is lower.

    Attributes
    ----------
    mean_ : array of shape (d,)
    components_ : array of shape (d, n_components)
    """

    _rules: ClassVar[Rules] = {"n_components": Range(1, kind=Integral)}

    def __init__(self, n_components: int = 64) -> None:
        self.n_components = n_components

    def _learn(self, X: Array) -> int:
        self.mean_: Array = X.mean(axis=0)
        P = pca(X - self.mean_, self.n_components)
        self.components_: Array = np.pad(P, ((0, 0), (0, self.n_components - P.shape[1])))
        return self.n_components

    def _map(self, X: Array) -> Array:
        return (X - self.mean_) @ self.components_


class AnchorKernel(BaseFeatureMap):
    """Similarities to anchors drawn from the data, Gaussian unless told otherwise: φ of Eq. 15.

    φ_j(x) = exp(-‖x - χ_j‖² / σ). The paper prints the exponent without its minus sign.

    Anchors are drawn by position in the order of distance from the mean, so the same seed finds
    the same anchors whatever the order of the samples.

    Parameters
    ----------
    n_anchors : int, default=1000
        m_k of the paper; all rows where there are fewer.
    bandwidth : float, "median" or "twice-mean", default="median"
        σ, a squared length. "median" takes the median squared distance between rows and
        anchors, which makes the map free of the scale of the features; so does "twice-mean",
        twice the mean over all rows and anchors.
    random_state : int, RandomState or None
        Draws the anchors.
    kernel : "gaussian" or "exponential", default="gaussian"
        "exponential" takes the distance in place of its square; σ is then a length.

    Attributes
    ----------
    anchors_ : array of shape (n_anchors, d)
    bandwidth_ : float
    """

    _rules: ClassVar[Rules] = {
        "n_anchors": Range(1, kind=Integral),
        "bandwidth": OneOf(("median", "twice-mean"), number=Range(0, above=True)),
        "kernel": OneOf(("gaussian", "exponential")),
    }

    def __init__(
        self,
        n_anchors: int = 1000,
        bandwidth: float | Literal["median", "twice-mean"] = "median",
        random_state: int | np.random.RandomState | None = None,
        kernel: Literal["gaussian", "exponential"] = "gaussian",
    ) -> None:
        self.n_anchors = n_anchors
        self.bandwidth = bandwidth
        self.random_state = random_state
        self.kernel = kernel

    def _learn(self, X: Array) -> int:
        rng = check_random_state(self.random_state)
        self.anchors_: Array = X[drawn_rows(X, self.n_anchors, rng)]
        self.bandwidth_ = self._width(X)
        return len(self.anchors_)

    def _width(self, X: Array) -> float:
        if self.bandwidth == "median":
            sample = X[outward(X)[:: 1 + len(X) // 2000]]
            return float(np.median(self._distances(sample))) or 1.0
        if self.bandwidth == "twice-mean":
            parts = (self._distances(X[rows]) for rows in gen_batches(len(X), _TILE))
            total = sum(float(F.sum(dtype=np.float64)) for F in parts)
            return 2.0 * total / (len(X) * len(self.anchors_)) or 1.0
        return float(self.bandwidth)

    def _distances(self, X: Array) -> Array:
        """Distances to the anchors, squared for the Gaussian."""
        F: Array = euclidean_distances(X, self.anchors_, squared=self.kernel == "gaussian")
        return F

    def _map(self, X: Array) -> Array:
        F = self._distances(X)
        F /= -self.bandwidth_
        return np.exp(F, out=F)
