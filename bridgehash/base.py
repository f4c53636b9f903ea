"""What every method leaves behind and looks like: encoders, one-domain and two-domain hashers.

Learning may involve two domains; its result is always ordinary encoders, one per domain, that map
rows of features to projections, signs or packed codes and know nothing of how they were learned.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import deepcopy
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from ._files import ModelFileError, StrPath
from ._validation import FLOATS, check_domain, check_labels
from .codes import pack, signs
from .feature_maps import PrincipalMap
from .linalg import Array
from .persistence import load, save

DomainName = Literal["source", "target"]


class SaveMixin:
    """`save` and `load` as methods."""

    def save(self, path: StrPath) -> None:
        """Write the model to one file (see `bridgehash.save`)."""
        save(self, path)

    @classmethod
    def load(cls, path: StrPath) -> Self:
        """Read a model of this class (see `bridgehash.load`, which reads any)."""
        model = load(path)
        if not isinstance(model, cls):
            raise ModelFileError(f"{path}: holds a {type(model).__name__}, not a {cls.__name__}")
        return model


class LinearEncoder(SaveMixin, TransformerMixin, BaseEstimator):
    """A hash function: maps φ, then sign((φ(x) - mean) / scale @ projection).

    Its parameters are all it consists of, so there is nothing to fit: it can be cloned, put into a
    pipeline, pickled or saved.

    Parameters
    ----------
    projection : array of shape (m, n_bits)
        A of the paper.
    mean : array of shape (m,)
        Subtracted from the mapped features.
    scale : float
        Divides them afterwards.
    maps : sequence of fitted transformers
        Applied to the input in turn; with none, features are taken as they are.

    Examples
    --------
    >>> encoder = LinearEncoder(projection=np.eye(2), mean=np.array([1.0, 1.0]))
    >>> encoder.transform([[3.0, 0.0]])
    array([[ 1, -1]], dtype=int8)
    >>> encoder.encode([[3.0, 0.0]])
    array([[128]], dtype=uint8)
    """

    def __init__(
        self, projection: Array, mean: Array, scale: float = 1.0, maps: Sequence[Any] = ()
    ) -> None:
        self.projection = projection
        self.mean = mean
        self.scale = scale
        self.maps = maps

    @property
    def projection_(self) -> Array:
        return self.projection

    @property
    def n_bits(self) -> int:
        """Length of the codes."""
        return int(self.projection.shape[1])

    @property
    def n_features_in_(self) -> int:
        """Width of the input."""
        return int(self.maps[0].n_features_in_ if self.maps else self.projection.shape[0])

    def fit(self, X: ArrayLike | None = None, y: object = None) -> Self:
        """Nothing to learn; there for pipelines."""
        return self

    def __sklearn_clone__(self) -> Self:
        return deepcopy(self)  # the default would forget what the maps have learned

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def decision_function(self, X: ArrayLike) -> Array:
        """Projections before the sign, shape (n, n_bits)."""
        Z: Array = check_array(X, dtype=FLOATS, input_name="X")
        if Z.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {Z.shape[1]} features, but this encoder was made for "
                f"{self.n_features_in_}; is it the other domain?"
            )
        for feature_map in self.maps:
            Z = feature_map.transform(Z)
        return (Z - self.mean) @ (self.projection / self.scale)

    def transform(self, X: ArrayLike) -> NDArray[np.int8]:
        """Codes as ±1, shape (n, n_bits)."""
        return signs(self.decision_function(X))

    def encode(self, X: ArrayLike) -> NDArray[np.uint8]:
        """Packed codes, shape (n, ceil(n_bits / 8))."""
        return pack(self.decision_function(X))


class BaseHasher(SaveMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, ABC):
    """A method for one domain: `fit(X, y=None)`, then codes of any rows of the same width.

    A subclass says in `_learn(X, y)` how it finds its `LinearEncoder`.
    """

    n_bits: int
    encoder_: LinearEncoder

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Learn the hash function from the rows of X."""
        rows: Array = validate_data(self, X, dtype=FLOATS, ensure_min_samples=2)
        self.encoder_ = self._learn(rows, check_labels(y, len(rows), "y"))
        return self

    @abstractmethod
    def _learn(self, X: Array, y: NDArray[Any] | None) -> LinearEncoder:
        """The hash function for checked rows."""

    def decision_function(self, X: ArrayLike) -> Array:
        """Projections before the sign, shape (n, n_bits)."""
        check_is_fitted(self)
        return self.encoder_.decision_function(validate_data(self, X, dtype=FLOATS, reset=False))

    def transform(self, X: ArrayLike) -> NDArray[np.int8]:
        """Codes as ±1, shape (n, n_bits)."""
        return signs(self.decision_function(X))

    def encode(self, X: ArrayLike) -> NDArray[np.uint8]:
        """Packed codes, shape (n, ceil(n_bits / 8))."""
        return pack(self.decision_function(X))

    @property
    def _n_features_out(self) -> int:
        return self.n_bits

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []  # codes are int8 whatever comes in
        return tags


class BaseTransferHasher(SaveMixin, BaseEstimator):
    """A method for two domains: `fit(X_source, X_target)`, then codes of rows of either.

    A subclass sets `source_encoder_` and `target_encoder_` in `fit`.
    """

    source_encoder_: LinearEncoder
    target_encoder_: LinearEncoder

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


class Shared(BaseTransferHasher):
    """A one-domain method lifted to two: one hash function, learned on both domains together.

    Where the widths differ, the wider domain is first reduced to the width of the other by its own
    principal components, as the paper does for the methods it compares with.

    Parameters
    ----------
    hasher : BaseHasher
        The method, for example `ITQ(n_bits=64)`.

    Examples
    --------
    >>> from bridgehash.baselines import ITQ
    >>> rng = np.random.default_rng(0)
    >>> shared = Shared(ITQ(n_bits=4, random_state=0))
    >>> shared.fit(rng.normal(size=(20, 6)), rng.normal(size=(30, 5)))
    Shared(hasher=ITQ(n_bits=4, random_state=0))
    >>> shared.encode(rng.normal(size=(2, 6)), domain="source").shape
    (2, 1)
    """

    def __init__(self, hasher: BaseHasher) -> None:
        self.hasher = hasher

    def fit(
        self,
        X_source: ArrayLike,
        X_target: ArrayLike,
        *,
        y_source: ArrayLike | None = None,
        y_target: ArrayLike | None = None,
    ) -> Self:
        """Learn from both domains; labels are handed on where both are given."""
        X_s, X_t = check_domain(X_source, "X_source"), check_domain(X_target, "X_target")
        y_s = check_labels(y_source, len(X_s), "y_source")
        y_t = check_labels(y_target, len(X_t), "y_target")
        for X, name in ((X_s, "X_source"), (X_t, "X_target")):
            if not (X - X[0]).any():
                raise ValueError(f"all rows of {name} are equal; there is nothing to tell apart")
        width = min(X_s.shape[1], X_t.shape[1])
        maps = [self._reduction(X, width) for X in (X_s, X_t)]
        Z_s, Z_t = (X if m is None else m.transform(X) for X, m in ((X_s, maps[0]), (X_t, maps[1])))
        y = None if y_s is None or y_t is None else np.concatenate([y_s, y_t])
        self.hasher_ = clone(self.hasher).fit(np.vstack([Z_s, Z_t]), y)
        self.source_encoder_, self.target_encoder_ = (self._behind(m) for m in maps)
        return self

    @staticmethod
    def _reduction(X: Array, width: int) -> PrincipalMap | None:
        return PrincipalMap(width).fit(X) if X.shape[1] > width else None

    def _behind(self, feature_map: PrincipalMap | None) -> LinearEncoder:
        """The common encoder, behind the reduction of a domain where there is one."""
        encoder: LinearEncoder = clone(self.hasher_.encoder_)
        if feature_map is not None:
            encoder.maps = [feature_map, *encoder.maps]
        return encoder
