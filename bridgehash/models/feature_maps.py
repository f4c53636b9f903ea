"""Feature maps φ: scikit-learn transformers applied before the projection."""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import copy
from numbers import Integral
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import eigh
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.utils import gen_batches
from sklearn.utils.validation import check_is_fitted, check_random_state, validate_data

from .._core.arrays import array_namespace, is_foreign, like, row_squares, take_rows, to_numpy
from .._core.errors import InputError
from .._core.linalg import Array, pca, unit_rows
from .._core.validation import (
    FLOATS,
    Flag,
    OneOf,
    Range,
    Rules,
    check_foreign,
    check_magnitude,
    check_parameters,
)
from .contents import Contents, Maybe, Number, Part, Values, Width

_MOST_ANCHORS = 3000  # of n_anchors="auto"
_LEAST_SHARE = 1e-6  # of the largest eigenvalue of a kernel: smaller ones are rounding
_TILE = 1024  # rows whose distances to the anchors are held at one time


def outward(X: Array) -> NDArray[np.intp]:
    """Return row numbers by distance from the mean: an order that does not depend on shuffling."""
    D = X - array_namespace(X).mean(X, axis=0)
    return np.argsort(to_numpy(row_squares(D)), kind="stable")


def drawn_rows(X: Array, n: int, rng: np.random.RandomState) -> NDArray[np.intp]:
    """Draw n row numbers without replacement (all, if there are fewer), inner rows first.

    Rows are drawn by position in the order of distance from the mean, so the same seed draws the
    same rows in any order of the samples.
    """
    order = outward(X)
    return order[np.sort(rng.choice(len(order), min(n, len(order)), replace=False))]


class BaseFeatureMap(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, ABC):
    """A map of rows to rows. Subclasses implement `_learn(X)` and `_map(X)`."""

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Learn the map from the rows of X."""
        check_parameters(self)
        self.n_features_out_ = self._learn(self._checked(X, reset=True))
        return self

    @property
    def _n_features_out(self) -> int:
        return self.n_features_out_

    def transform(self, X: ArrayLike) -> Array:
        """Return φ(x) of each row."""
        check_is_fitted(self, "n_features_in_")
        with np.errstate(all="ignore"):
            Z = self._map(self._checked(X, reset=False))
            xp = array_namespace(Z)
            finite = bool(xp.isfinite(xp.sum(Z))) or bool(xp.all(xp.isfinite(Z)))
        if not finite:
            raise InputError(
                f"values are too large to encode: {type(self).__name__} overflows {Z.dtype}; scale "
                "the features down",
                "X",
            )
        return Z

    def _checked(self, X: Any, *, reset: bool) -> Array:
        if not is_foreign(X):
            return validate_data(self, X, dtype=FLOATS, reset=reset)
        X = check_foreign(X, "X")
        if reset:
            self.n_features_in_ = X.shape[1]
        elif X.shape[1] != self.n_features_in_:
            raise InputError(f"{X.shape[1]} features, but {self.n_features_in_} are expected", "X")
        return X

    @abstractmethod
    def _learn(self, X: Array) -> int:
        """Learn from X and return the width of the output."""

    @abstractmethod
    def _map(self, X: Array) -> Array:
        """Return φ(x) of each validated row."""


class UnitRows(BaseFeatureMap):
    """Divide each row by its norm; zero rows stay zero.

    >>> UnitRows().fit_transform([[3.0, 4.0], [0.0, 0.0]])
    array([[0.6, 0.8],
           [0. , 0. ]])
    """

    _contents: ClassVar[Contents] = {"n_features_in_": Width("d"), "n_features_out_": Width("d")}

    def _learn(self, X: Array) -> int:
        return X.shape[1]

    def _map(self, X: Array) -> Array:
        return unit_rows(X)


def unit_row_map(X: Array, wanted: bool) -> tuple[list[UnitRows], Array]:
    """Return the feature maps for `unit_rows=wanted`, and the rows after them.

    >>> unit_row_map(np.array([[3.0, 4.0]]), True)
    ([UnitRows()], array([[0.6, 0.8]]))
    """
    return ([UnitRows().fit(X)], unit_rows(X)) if wanted else ([], X)


class PrincipalMap(BaseFeatureMap):
    """Project on the leading principal directions, to give two domains the same width.

    Parameters
    ----------
    n_components : int
        Width of the output; padded with zeros if the rank is lower.

    Attributes
    ----------
    mean_ : array of shape (d,)
    components_ : array of shape (d, n_components)
    """

    _rules: ClassVar[Rules] = {"n_components": Range(1, kind=Integral)}
    _contents: ClassVar[Contents] = {
        "n_features_in_": Width("d"),
        "n_features_out_": Width("m"),
        "mean_": Values("d"),
        "components_": Values("d m"),
    }

    def __init__(self, n_components: int = 64) -> None:
        self.n_components = n_components

    def _learn(self, X: Array) -> int:
        check_magnitude(X, "X")
        self.mean_: Array = X.mean(axis=0)
        P = pca(X - self.mean_, self.n_components)
        self.components_: Array = np.pad(P, ((0, 0), (0, self.n_components - P.shape[1])))
        return self.n_components

    def _map(self, X: Array) -> Array:
        return (X - self.mean_) @ self.components_


class AnchorKernel(BaseFeatureMap):
    """Similarities to anchors drawn from the data: φ of Eq. 15.

    φ_j(x) = exp(-‖x - χ_j‖² / σ). The paper prints the exponent without its minus sign. The same
    seed draws the same anchors in any order of the samples.

    Parameters
    ----------
    n_anchors : int or "auto", default=1000
        m_k of the paper; all rows if there are fewer. "auto": all rows, at most 3,000. Anchors are
        stored with the model, and encoding a row costs n_anchors * d operations: with 3,000
        anchors a model is three times as large and encodes a third as fast as with 1,000.
    bandwidth : float, "median", "half-median" or "twice-mean", default="median"
        σ, a squared length. "median" is the median squared distance between rows and anchors,
        "half-median" half of it, "twice-mean" twice their mean; all make the map independent of
        the scale of the features.
    random_state : int, RandomState or None
        Seed of the anchors.
    kernel : "gaussian" or "exponential", default="gaussian"
        "exponential" uses the distance instead of its square; σ is then a length.
    root : bool or "auto", default=False
        Compare the square roots of features, with their signs, at unit norm: the Hellinger
        distance. Large values of histograms and activations then count less. "auto": if no
        feature is negative.

    Attributes
    ----------
    anchors_ : array of shape (n_anchors, d)
        After the root, if it is taken.
    bandwidth_ : float
    root_ : bool
    """

    _rules: ClassVar[Rules] = {
        "n_anchors": OneOf(("auto",), number=Range(1, kind=Integral)),
        "bandwidth": OneOf(("median", "half-median", "twice-mean"), number=Range(0, above=True)),
        "kernel": OneOf(("gaussian", "exponential")),
        "root": OneOf(("auto",), number=Flag()),
    }
    _contents: ClassVar[Contents] = {
        "n_features_in_": Width("d"),
        "n_features_out_": Width("m"),
        "anchors_": Values("m d"),
        "bandwidth_": Number(Range(0, above=True)),
        "root_": Number(Flag()),
    }

    def __init__(
        self,
        n_anchors: int | Literal["auto"] = 1000,
        bandwidth: float | Literal["median", "half-median", "twice-mean"] = "median",
        random_state: int | np.random.RandomState | None = None,
        kernel: Literal["gaussian", "exponential"] = "gaussian",
        root: bool | Literal["auto"] = False,
    ) -> None:
        self.n_anchors = n_anchors
        self.bandwidth = bandwidth
        self.random_state = random_state
        self.kernel = kernel
        self.root = root

    def _learn(self, X: Array) -> int:
        check_magnitude(X, "X")
        negative = bool(array_namespace(X).any(X < 0))
        self.root_ = not negative if isinstance(self.root, str) else bool(self.root)
        X = self._rooted(X)
        rng = check_random_state(self.random_state)
        self.anchors_: Array = take_rows(X, drawn_rows(X, self._number(), rng))
        self.bandwidth_ = self._width(X)
        return int(self.anchors_.shape[0])

    def _rooted(self, X: Array) -> Array:
        if not self.root_:
            return X
        xp = array_namespace(X)
        return unit_rows(xp.sign(X) * xp.sqrt(xp.abs(X)))

    def _number(self) -> int:
        return _MOST_ANCHORS if isinstance(self.n_anchors, str) else self.n_anchors

    def _width(self, X: Array) -> float:
        if self.bandwidth in ("median", "half-median"):
            part = 1.0 if self.bandwidth == "median" else 0.5
            sample = take_rows(X, outward(X)[:: 1 + X.shape[0] // 2000])
            return part * float(np.median(to_numpy(self._distances(sample)))) or 1.0
        if self.bandwidth == "twice-mean":
            parts = (self._distances(X[rows, :]) for rows in gen_batches(X.shape[0], _TILE))
            total = sum(float(to_numpy(F).sum(dtype=np.float64)) for F in parts)
            return 2.0 * total / (X.shape[0] * self.anchors_.shape[0]) or 1.0
        return float(self.bandwidth)

    def _distances(self, X: Array) -> Array:
        """Return distances to the anchors, squared for the Gaussian."""
        anchors = like(self.anchors_, X, X.dtype)
        if not is_foreign(X):
            return euclidean_distances(X, anchors, squared=self.kernel == "gaussian")
        xp = array_namespace(X)
        F = row_squares(X)[:, None] + row_squares(anchors)[None, :] - 2.0 * X @ anchors.T
        F = xp.clip(F, min=0.0)
        return F if self.kernel == "gaussian" else xp.sqrt(F)

    def _map(self, X: Array) -> Array:
        F = self._distances(self._rooted(X))
        F /= -self.bandwidth_
        return array_namespace(F).exp(F)


class RowsAndKernel(BaseFeatureMap):
    """The rows themselves, and beside them coordinates of the Gaussian kernel (Nyström).

    The coordinates are φ K^(-1/2), where φ are the similarities to the anchors and K those between
    anchors. Their inner products approximate the kernel.

    Parameters
    ----------
    n_anchors : int or "auto", default=1000
        As in `AnchorKernel`.
    bandwidth : float, "median", "half-median" or "twice-mean", default="half-median"
        As in `AnchorKernel`.
    random_state : int, RandomState or None
        Seed of the anchors.
    weight : float, default=0.65
        Norm of the coordinates of a row, compared with rows of norm one. Larger values let the
        kernel decide more, which needs more rows to learn from.

    Attributes
    ----------
    kernel_ : AnchorKernel
    basis_ : array of shape (n_anchors, n_anchors) or None
        K^(-1/2) times the weight; None: the map returns φ as it is (see `folded`).
    """

    _rules: ClassVar[Rules] = {
        "n_anchors": AnchorKernel._rules["n_anchors"],
        "bandwidth": AnchorKernel._rules["bandwidth"],
        "weight": Range(0, above=True),
    }
    _contents: ClassVar[Contents] = {
        "n_features_in_": Width("d"),
        "n_features_out_": Width("m"),
        "kernel_": Part("AnchorKernel"),
        "basis_": Maybe(Values("a a")),
    }

    def __init__(
        self,
        n_anchors: int | Literal["auto"] = 1000,
        bandwidth: float | Literal["median", "half-median", "twice-mean"] = "half-median",
        random_state: int | np.random.RandomState | None = None,
        weight: float = 0.65,
    ) -> None:
        self.n_anchors = n_anchors
        self.bandwidth = bandwidth
        self.random_state = random_state
        self.weight = weight

    def _learn(self, X: Array) -> int:
        self.kernel_ = AnchorKernel(self.n_anchors, self.bandwidth, self.random_state).fit(X)
        K = to_numpy(self.kernel_.transform(self.kernel_.anchors_)).astype(np.float64)
        values, vectors = eigh(K, check_finite=False)
        kept = values > values[-1] * _LEAST_SHARE
        root = vectors[:, kept] / values[kept] ** 0.25  # the product does not depend on its signs
        self.basis_: Array | None = like(self.weight * root @ root.T, X, X.dtype)
        return X.shape[1] + int(self.basis_.shape[1])

    def _map(self, X: Array) -> Array:
        coordinates = self.kernel_.transform(X)
        if self.basis_ is not None:
            coordinates = coordinates @ like(self.basis_, X, X.dtype)
        return array_namespace(X).concat([X, coordinates], axis=1)

    def folded(self, projection: Array) -> tuple[RowsAndKernel, Array]:
        """Return a map without the basis, and the projection that gives the same results with it.

        An encoder then needs neither to store the basis nor to multiply by it.
        """
        assert self.basis_ is not None
        d, xp = self.n_features_in_, array_namespace(projection)
        last = like(self.basis_, projection, projection.dtype) @ projection[d:, :]
        plain = copy(self)
        plain.basis_ = None
        return plain, xp.concat([projection[:d, :], last], axis=0)
