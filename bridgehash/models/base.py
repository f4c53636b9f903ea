"""Base classes of all methods: hashers for one domain and for two.

Learning may involve two domains; the result is always ordinary encoders, one per domain.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Set
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from .._core.arrays import array_namespace, is_foreign, like
from .._core.errors import InputError
from .._core.linalg import Array
from .._core.validation import (
    FLOATS,
    Range,
    check_domain,
    check_labels,
    check_magnitude,
    check_pairs,
    check_parameters,
    check_same_library,
    class_ids,
)
from ..codes import MAX_BITS, pack
from ..streaming.blocks import needs_reading, read_all
from .contents import Contents, Course, Maybe, Number, Part, Width
from .encoder import LinearEncoder, SaveMixin

DomainName = Literal["source", "target"]
FitInput = Literal["y", "y_source", "y_target", "pairs"]
Ids = NDArray[np.intp]
N_BITS = Range(1, MAX_BITS, Integral)  # the rule of every `n_bits`
_RECORD: Contents = {  # of a fit, if the method keeps one
    "objective_": Maybe(Course()),
    "n_iter_": Maybe(Number(Range(0, kind=Integral))),
}


def _check_record(model: BaseEstimator) -> None:
    if hasattr(model, "objective_") and not isinstance(getattr(model, "n_iter_", None), int):
        raise ValueError("objective_ has no n_iter_")


@dataclass(frozen=True)
class About:
    """Facts about a method: its kind, its reference, and what `fit` needs besides features."""

    kind: Literal["unsupervised", "semi-supervised", "supervised", "paired"]
    citation: str
    needs: tuple[FitInput, ...] = ()  # "y": labels of either domain
    uses: tuple[FitInput, ...] = ()  # optional


class BaseHasher(SaveMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, ABC):
    """A method for one domain: `fit(X, y=None)`, then codes of rows of the same width.

    Subclasses implement `_learn(X, y)`, which returns a `LinearEncoder`.
    """

    about: ClassVar[About]
    _contents: ClassVar[Contents] = _RECORD | {
        "n_features_in_": Width("d"),
        "encoder_": Part("LinearEncoder"),
    }
    n_bits: int
    encoder_: LinearEncoder

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Learn the hash function from the rows of X."""
        check_parameters(self)
        rows: Array = validate_data(self, X, dtype=FLOATS, ensure_min_samples=2)
        check_magnitude(rows, "X")
        self.encoder_ = self._learn(rows, check_labels(y, len(rows), "y"))
        return self

    @abstractmethod
    def _learn(self, X: Array, y: NDArray[Any] | None) -> LinearEncoder:
        """Return the hash function for validated rows."""

    def decision_function(self, X: ArrayLike) -> Array:
        """Return the projections before the sign, shape (n, n_bits)."""
        return self._checked_encoder(X).decision_function(X)

    def transform(self, X: ArrayLike) -> NDArray[np.int8]:
        """Return the codes as ±1, shape (n, n_bits)."""
        return self._checked_encoder(X).transform(X)

    def encode(self, X: Any) -> NDArray[np.uint8]:
        """Return packed codes, shape (n, ceil(n_bits / 8))."""
        return self._checked_encoder(X).encode(X)

    def _checked_encoder(self, X: Any) -> LinearEncoder:
        """The encoder, once X has the columns of the training data."""
        check_is_fitted(self)
        if not is_foreign(X) and not needs_reading(X):
            validate_data(self, X, dtype="numeric", reset=False, ensure_all_finite=False)
        return self.encoder_

    def _check_loaded(self) -> None:
        """Refuse a model whose parts do not fit together; run when it is loaded."""
        found = (self.encoder_.n_features_in_, self.encoder_.n_bits)
        if found != (self.n_features_in_, self.n_bits):
            raise ValueError(
                f"encoder_ has (columns, bits) {found}, the model "
                f"{(self.n_features_in_, self.n_bits)}"
            )
        _check_record(self)

    @property
    def _n_features_out(self) -> int:
        return self.n_bits

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []  # codes are always int8
        return tags


class BaseLabelHasher(BaseHasher):
    """A one-domain method that learns from labels; rows labelled -1 (unknown) are left out.

    Subclasses implement `_learn_classes(X, y)`.
    """

    def _learn(self, X: Array, y: NDArray[Any] | None) -> LinearEncoder:
        name = type(self).__name__
        if y is None:
            raise InputError(f"{name} requires y to be passed, but the target y is None")
        ids, _ = class_ids(y, None)
        assert ids is not None
        known = ids >= 0
        if len(np.unique(ids[known])) < 2:
            raise InputError(f"fewer than two classes; {name} needs at least two", "y")
        return self._learn_classes(X[known], ids[known])

    @abstractmethod
    def _learn_classes(self, X: Array, y: Ids) -> LinearEncoder:
        """Return the hash function for rows of known classes 0 to c - 1."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


@dataclass(frozen=True)
class TrainingData:
    """Validated input of a two-domain `fit`."""

    X_source: Any  # an array; Blocks for a method that reads rows in blocks
    X_target: Any
    y_source: Ids | None = None  # class ids common to both domains, -1 where unknown
    y_target: Ids | None = None
    pairs: NDArray[np.intp] | None = None  # (p, 2) row numbers in the source and in the target

    @classmethod
    def checked(
        cls, X_source: Any, X_target: Any, y_source: Any, y_target: Any, pairs: Any
    ) -> TrainingData:
        """Validate labels and pairs against the rows of both domains."""
        y_s = check_labels(y_source, X_source.shape[0], "y_source")
        y_t = check_labels(y_target, X_target.shape[0], "y_target")
        rows = check_pairs(pairs, X_source.shape[0], X_target.shape[0])
        return cls(X_source, X_target, *class_ids(y_s, y_t), rows)

    def like(self, reference: Array) -> TrainingData:
        """Return the same rows in the library, and on the device, of another array."""
        X_s, X_t = like(self.X_source, reference), like(self.X_target, reference)
        return replace(self, X_source=X_s, X_target=X_t)

    def paired_rows(self, method: str) -> tuple[Array, Array]:
        """Return the rows of the pairs in the source and in the target."""
        if self.pairs is None or len(self.pairs) < 2:
            n = 0 if self.pairs is None else len(self.pairs)
            raise InputError(f"{n} given; {method} needs at least 2", "pairs")
        return self.X_source[self.pairs[:, 0]], self.X_target[self.pairs[:, 1]]

    def labelled_source(self, method: str) -> tuple[Array, Ids]:
        """Return the source rows of known class, and their classes as ids 0 to c - 1."""
        if self.y_source is None:
            raise InputError(f"missing; {method} needs labels of the source", "y_source")
        known = self.y_source >= 0
        classes, ids = np.unique(self.y_source[known], return_inverse=True)
        if len(classes) < 2:
            raise InputError(f"fewer than two classes; {method} needs at least two", "y_source")
        return self.X_source[known], ids


def check_rows(X_source: Any, X_target: Any) -> tuple[Array, Array]:
    """Return both domains as validated arrays; files and blocks are read into memory."""
    rows = []
    for X, name in ((X_source, "X_source"), (X_target, "X_target")):
        checked = check_domain(X if isinstance(X, np.ndarray) else read_all(X, name), name)
        all_ = array_namespace(checked).all
        first = checked[:1, :]
        if bool(all_(checked[1:2, :] == first)) and bool(all_(checked[1:, :] == first)):
            raise InputError("all rows are equal; nothing can be learned from them", name)
        rows.append(checked)
    check_same_library(*rows)
    return rows[0], rows[1]


class BaseTransferHasher(SaveMixin, BaseEstimator, ABC):
    """A method for two domains: `fit(X_source, X_target)`, then codes of rows of either.

    Subclasses implement `_learn(data)`, which returns the encoders of source and target.
    """

    about: ClassVar[About]
    _contents: ClassVar[Contents] = _RECORD | {
        "source_encoder_": Part("LinearEncoder"),
        "target_encoder_": Part("LinearEncoder"),
    }
    source_encoder_: LinearEncoder
    target_encoder_: LinearEncoder

    def fit(
        self,
        X_source: Any,
        X_target: Any,
        *,
        y_source: ArrayLike | None = None,
        y_target: ArrayLike | None = None,
        pairs: ArrayLike | None = None,
    ) -> Self:
        """Learn the hash functions of both domains.

        Parameters
        ----------
        X_source : array of shape (n_source, d_source)
            Features. Also a DataFrame, a path, a zarr array or blocks of rows: see
            `bridgehash.as_blocks`.
        X_target : array of shape (n_target, d_target)
        y_source, y_target : array of class ids or names, optional
            -1 marks an unknown class. Ignored by methods that do not use labels.
        pairs : array of shape (p, 2), optional
            Row numbers of the source and of the target that show the same thing. Ignored by
            methods that do not use pairs.
        """
        self._check_caller()
        check_parameters(self)
        rows = check_rows(X_source, X_target)
        data = TrainingData.checked(*rows, y_source, y_target, pairs)
        self.source_encoder_, self.target_encoder_ = self._learn(data)
        return self

    @abstractmethod
    def _learn(self, data: TrainingData) -> tuple[LinearEncoder, LinearEncoder]:
        """Return the encoders of source and target."""

    def _check_loaded(self) -> None:
        """Refuse a model whose parts do not fit together; run when it is loaded."""
        found = {self.source_encoder_.n_bits, self.target_encoder_.n_bits}
        if found != {getattr(self, "n_bits", self.source_encoder_.n_bits)}:
            raise ValueError(f"the encoders have {sorted(found)} bits, unlike n_bits")
        _check_record(self)

    def used_inputs(self) -> Set[str]:
        """Which of y_source, y_target and pairs this method learns from, if they are given."""
        used: set[str] = {*self.about.needs, *self.about.uses}
        return used - {"y"} | ({"y_source", "y_target"} if "y" in used else set())

    def _check_caller(self) -> None:
        """Refuse a call by scikit-learn itself, which would pass labels as X_target."""
        if sys._getframe(2).f_globals.get("__name__", "").startswith("sklearn."):
            raise InputError(
                f"{type(self).__name__} learns from two domains and cannot be a step of a "
                "scikit-learn Pipeline or search: fit it by itself, then use source_encoder_ and "
                "target_encoder_, which can"
            )

    def encoder(self, domain: DomainName) -> LinearEncoder:
        """Return the fitted encoder of a domain."""
        check_is_fitted(self, "source_encoder_")
        if domain not in ("source", "target"):
            raise InputError(f"{domain!r} is not allowed; use 'source' or 'target'", "domain")
        return self.source_encoder_ if domain == "source" else self.target_encoder_

    def decision_function(self, X: Any, domain: DomainName) -> Array:
        """Return the projections before the sign, shape (n, n_bits)."""
        return self.encoder(domain).decision_function(X)

    def transform(self, X: Any, domain: DomainName) -> NDArray[np.int8]:
        """Return the codes as ±1, shape (n, n_bits)."""
        return self.encoder(domain).transform(X)

    def encode(self, X: Any, domain: DomainName) -> NDArray[np.uint8]:
        """Return packed codes, shape (n, ceil(n_bits / 8))."""
        return self.encoder(domain).encode(X)

    def encode_both(self, X_source: Any, X_target: Any) -> NDArray[np.uint8]:
        """Return packed codes of items that are known in both feature spaces.

        The code of an item is the signs of the summed projections of its two rows, so the domain
        with the larger projections decides more bits: that of the surer prediction, if the method
        predicts codes.

        Parameters
        ----------
        X_source : array of shape (n, d_source)
        X_target : array of shape (n, d_target)
            Row i shows the same item as row i of X_source.
        """
        H_s = self.decision_function(X_source, "source")
        H_t = self.decision_function(X_target, "target")
        if H_s.shape != H_t.shape:
            raise InputError(
                f"{H_t.shape[0]} rows, but X_source has {H_s.shape[0]}; row i of both must show "
                "the same item",
                "X_target",
            )
        return pack(H_s + H_t)
