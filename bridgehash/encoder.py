"""A hash function by itself: what every method leaves behind, one for each domain.

An encoder maps rows of features to projections, signs or packed codes and knows nothing of how it
was learned.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy, deepcopy
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_array

from ._files import ModelFileError, StrPath
from ._validation import FLOATS
from ._xp import array_namespace, is_array_api_obj, like
from .codes import pack, signs
from .linalg import Array
from .persistence import load, save


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
    """A hash function: maps φ, then sign((φ(x) - mean) / scale @ projection + intercept).

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
    intercept : array of shape (n_bits,), optional
        Added to the projections.

    Examples
    --------
    >>> encoder = LinearEncoder(projection=np.eye(2), mean=np.array([1.0, 1.0]))
    >>> encoder.transform([[3.0, 0.0]])
    array([[ 1, -1]], dtype=int8)
    >>> encoder.encode([[3.0, 0.0]])
    array([[128]], dtype=uint8)
    """

    def __init__(
        self,
        projection: Array,
        mean: Array,
        scale: float = 1.0,
        maps: Sequence[Any] = (),
        intercept: Array | None = None,
    ) -> None:
        self.projection = projection
        self.mean = mean
        self.scale = scale
        self.maps = maps
        self.intercept = intercept

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

    def like(self, reference: Array) -> LinearEncoder:
        """The same function with its arrays in the library, and on the device, of another."""
        if array_namespace(self.projection) is array_namespace(reference):
            return self
        return LinearEncoder(
            like(self.projection, reference),
            like(self.mean, reference),
            self.scale,
            [_moved(feature_map, reference) for feature_map in self.maps],
            None if self.intercept is None else like(self.intercept, reference),
        )

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
        H: Array = (Z - self.mean) @ (self.projection / self.scale)
        if self.intercept is not None:
            H += self.intercept
        return H

    def transform(self, X: ArrayLike) -> NDArray[np.int8]:
        """Codes as ±1, shape (n, n_bits)."""
        return signs(self.decision_function(X))

    def encode(self, X: ArrayLike) -> NDArray[np.uint8]:
        """Packed codes, shape (n, ceil(n_bits / 8))."""
        return pack(self.decision_function(X))


def _moved(feature_map: Any, reference: Array) -> Any:
    """A copy of a fitted map whose arrays are where those of another are."""
    moved = copy(feature_map)
    for name, value in vars(feature_map).items():
        if is_array_api_obj(value):
            setattr(moved, name, like(value, reference))
    return moved
