"""What every method looks like: one-domain and two-domain hashers, and what they learn from.

Learning may involve two domains; its result is always ordinary encoders, one per domain.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from ._validation import (
    FLOATS,
    check_domain,
    check_labels,
    check_pairs,
    check_parameters,
    class_ids,
)
from ._xp import array_namespace, is_foreign, like
from .blocks import whole
from .encoder import LinearEncoder, SaveMixin
from .linalg import Array

DomainName = Literal["source", "target"]
Ids = NDArray[np.intp]


@dataclass(frozen=True)
class About:
    """What a list of methods tells of one: its kind, where it comes from, what `fit` takes."""

    kind: Literal["unsupervised", "semi-supervised", "supervised", "paired"]
    citation: str
    needs: tuple[Literal["y", "y_source", "y_target", "pairs"], ...] = ()  # cannot do without
    uses: tuple[Literal["pairs"], ...] = ()  # takes where given


class BaseHasher(SaveMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, ABC):
    """A method for one domain: `fit(X, y=None)`, then codes of any rows of the same width.

    A subclass says in `_learn(X, y)` how it finds its `LinearEncoder`.
    """

    about: ClassVar[About]
    n_bits: int
    encoder_: LinearEncoder

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Learn the hash function from the rows of X."""
        check_parameters(self)
        rows: Array = validate_data(self, X, dtype=FLOATS, ensure_min_samples=2)
        self.encoder_ = self._learn(rows, check_labels(y, len(rows), "y"))
        return self

    @abstractmethod
    def _learn(self, X: Array, y: NDArray[Any] | None) -> LinearEncoder:
        """The hash function for checked rows."""

    def decision_function(self, X: ArrayLike) -> Array:
        """Projections before the sign, shape (n, n_bits)."""
        rows = self._checked(X)
        return self.encoder_.decision_function(rows)

    def transform(self, X: ArrayLike) -> NDArray[np.int8]:
        """Codes as ±1, shape (n, n_bits)."""
        rows = self._checked(X)
        return self.encoder_.transform(rows)

    def encode(self, X: ArrayLike) -> NDArray[np.uint8]:
        """Packed codes, shape (n, ceil(n_bits / 8))."""
        rows = self._checked(X)
        return self.encoder_.encode(rows)

    def _checked(self, X: Any) -> Any:
        """Rows with the columns of the fit; the encoder sees whether they are finite."""
        check_is_fitted(self)
        if is_foreign(X):
            return X
        return validate_data(self, X, dtype="numeric", reset=False, ensure_all_finite=False)

    @property
    def _n_features_out(self) -> int:
        return self.n_bits

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []  # codes are int8 whatever comes in
        return tags


class BaseLabelHasher(BaseHasher):
    """A one-domain method that learns from labels; rows of unknown class (-1) are left out.

    A subclass says in `_learn_classes(X, y)` what it makes of rows and their class ids.
    """

    def _learn(self, X: Array, y: NDArray[Any] | None) -> LinearEncoder:
        name = type(self).__name__
        if y is None:
            raise ValueError(f"{name} requires y to be passed, but the target y is None")
        ids, _ = class_ids(y, None)
        assert ids is not None
        known = ids >= 0
        if len(np.unique(ids[known])) < 2:
            raise ValueError(f"y holds fewer than two classes; {name} learns to tell classes apart")
        return self._learn_classes(X[known], ids[known])

    @abstractmethod
    def _learn_classes(self, X: Array, y: Ids) -> LinearEncoder:
        """The hash function for rows whose classes, 0 to c - 1, are all known."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


@dataclass(frozen=True)
class TrainingData:
    """What `fit` of a two-domain method was given, checked."""

    X_source: Any  # arrays; rows in blocks for a method that asks for them
    X_target: Any
    y_source: Ids | None = None  # class ids common to both domains, -1 where unknown
    y_target: Ids | None = None
    pairs: NDArray[np.intp] | None = None  # (p, 2) rows of the source and of the target

    def like(self, reference: Array) -> TrainingData:
        """The same rows in the library, and on the device, of another array."""
        X_s, X_t = like(self.X_source, reference), like(self.X_target, reference)
        return replace(self, X_source=X_s, X_target=X_t)

    def labelled_source(self, method: str) -> tuple[Array, Ids]:
        """Rows of the source whose class is known, and their classes as ids 0 to c - 1."""
        if self.y_source is None:
            raise ValueError(f"{method} learns from labels of the source: give y_source")
        known = self.y_source >= 0
        classes, ids = np.unique(self.y_source[known], return_inverse=True)
        if len(classes) < 2:
            raise ValueError(
                f"y_source holds fewer than two classes; {method} learns to tell classes apart"
            )
        return self.X_source[known], ids


def _checked_rows(X: Any, name: str) -> Array:
    rows = check_domain(whole(X, name), name)
    if _all_equal(rows):
        raise ValueError(f"all rows of {name} are equal; there is nothing to tell apart")
    return rows


def _all_equal(X: Array) -> bool:
    equal = array_namespace(X).all
    return bool(equal(X[1:2, :] == X[:1, :])) and bool(equal(X[1:, :] == X[:1, :]))


class BaseTransferHasher(SaveMixin, BaseEstimator, ABC):
    """A method for two domains: `fit(X_source, X_target)`, then codes of rows of either.

    A subclass says in `_learn(data)` how it finds the encoders of source and target.
    """

    about: ClassVar[About]
    source_encoder_: LinearEncoder
    target_encoder_: LinearEncoder

    def fit(
        self,
        X_source: ArrayLike,
        X_target: ArrayLike,
        *,
        y_source: ArrayLike | None = None,
        y_target: ArrayLike | None = None,
        pairs: ArrayLike | None = None,
    ) -> Self:
        """Learn the hash functions of both domains.

        Parameters
        ----------
        X_source : array of shape (n_source, d_source)
            Or a path, a zarr array, or blocks of rows: see `bridgehash.as_blocks`.
        X_target : array of shape (n_target, d_target)
        y_source, y_target : array of class ids or names, optional
            -1 marks an unknown class. Ignored by methods without a use for them.
        pairs : array of shape (p, 2), optional
            Numbers of a row of the source and a row of the target that show the same thing.
            Ignored by methods without a use for them.
        """
        check_parameters(self)
        X_s, X_t = self._opened(X_source, X_target)
        y_s = check_labels(y_source, X_s.shape[0], "y_source")
        y_t = check_labels(y_target, X_t.shape[0], "y_target")
        known = check_pairs(pairs, X_s.shape[0], X_t.shape[0])
        data = TrainingData(X_s, X_t, *class_ids(y_s, y_t), known)
        self.source_encoder_, self.target_encoder_ = self._learn(data)
        return self

    def _opened(self, X_source: Any, X_target: Any) -> tuple[Array, Array]:
        """Both domains, checked, as `_learn` takes them."""
        return _checked_rows(X_source, "X_source"), _checked_rows(X_target, "X_target")

    @abstractmethod
    def _learn(self, data: TrainingData) -> tuple[LinearEncoder, LinearEncoder]:
        """The encoders of source and target."""

    def encoder(self, domain: DomainName) -> LinearEncoder:
        """The fitted encoder of a domain."""
        check_is_fitted(self, "source_encoder_")
        if domain not in ("source", "target"):
            raise ValueError(f"domain={domain!r} is not allowed: give 'source' or 'target'")
        return self.source_encoder_ if domain == "source" else self.target_encoder_

    def decision_function(self, X: ArrayLike, domain: DomainName) -> Array:
        """Projections before the sign, shape (n, n_bits)."""
        return self.encoder(domain).decision_function(X)

    def transform(self, X: ArrayLike, domain: DomainName) -> NDArray[np.int8]:
        """Codes as ±1, shape (n, n_bits)."""
        return self.encoder(domain).transform(X)

    def encode(self, X: ArrayLike, domain: DomainName) -> NDArray[np.uint8]:
        """Packed codes, shape (n, ceil(n_bits / 8))."""
        return self.encoder(domain).encode(X)
