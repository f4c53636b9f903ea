"""A hash function by itself: what every method leaves behind, one for each domain.

An encoder maps rows of features to projections, signs or packed codes and knows nothing of how it
was learned. It works on blocks of rows that stay in cache: product, threshold, sign and packing of
a block are done before the next is looked at, and nothing as large as the input is ever made.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from copy import copy, deepcopy
from typing import Any, Self
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import assert_all_finite, check_array

from ._files import ModelFileError, StrPath
from ._threaded import map_blocks
from ._xp import (
    array_namespace,
    block_rows,
    by_rows,
    is_array_api_obj,
    is_foreign,
    is_half,
    like,
    place,
    row_norms,
    rows_product,
    to_numpy,
)
from .codes import pack, signs
from .feature_maps import BaseFeatureMap, UnitRows
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

    Rows may be NumPy's, torch's or of another library of the array API, whatever the arrays of the
    encoder are; the result is where the rows are. Arrays that had to be moved stay there, so give
    an encoder new arrays rather than write into those that it has.

    What is computed is φ(x) @ P - c with P = projection / scale and c = mean @ P - intercept, and
    rows are divided by their norm after the product, not before. float32 rows get the codes that
    float64 would give but for 3e-7 of the bits (CIFAR-10 GIST; none of other features), and but for
    1e-5 where the mean is a hundred times the spread. 16-bit torch tensors are multiplied as
    they are, with sums in float32: 7e-4 of the bits at most are others in bfloat16, 6e-5 in float16
    (the same features). benchmarks/encode.py measures all this.

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
        return self._in_blocks(X, lambda H: H)

    def transform(self, X: ArrayLike) -> NDArray[np.int8]:
        """Codes as ±1, shape (n, n_bits)."""
        return self._in_blocks(X, signs)

    def encode(
        self, X: ArrayLike, *, done: Callable[[int], None] | None = None
    ) -> NDArray[np.uint8]:
        """Packed codes, shape (n, ceil(n_bits / 8)); `done` is told the rows after each block."""
        return self._in_blocks(X, pack, done)

    def _in_blocks(
        self,
        X: Any,
        of: Callable[[Array], Any],
        done: Callable[[int], None] | None = None,
    ) -> Any:
        X = self._checked(X)
        *maps, last = [*self.maps] or [None]
        if type(last) is not UnitRows:
            maps, last = [*self.maps], None
        P, c = self._linear_part(X)

        def work(rows: slice) -> Any:
            return of(_project(X[rows, :], maps, last, P, c))

        ours = all(isinstance(part, BaseFeatureMap) for part in maps)  # others may not bear threads
        threads = ours and not is_foreign(X)
        parts = map_blocks(work, X.shape[0], block_rows(X, P), threads=threads, done=done)
        return parts[0] if len(parts) == 1 else array_namespace(X).concat(parts, axis=0)

    def _checked(self, X: Any) -> Any:
        """X as a matrix of the right width; whether it is finite shows in its projections."""
        if not is_foreign(X):
            X = check_array(X, dtype="numeric", ensure_all_finite=False, input_name="X")
        elif X.ndim != 2 or X.shape[0] == 0:
            raise ValueError(f"X has shape {tuple(X.shape)}; one row a sample is needed")
        elif not array_namespace(X).isdtype(X.dtype, "real floating"):
            raise ValueError(f"X holds {X.dtype}; a floating type is needed")
        if X.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {X.shape[1]} features, but this encoder was made for "
                f"{self.n_features_in_}; is it the other domain?"
            )
        return X

    def _linear_part(self, X: Array) -> tuple[Array, Array]:
        """P and c where X is."""
        own = (self.projection, self.mean, self.scale, self.intercept)
        if place(self.projection) == place(X):
            return _folded(*own, X)
        moved = _MOVED.setdefault(self, {})
        known = moved.get(place(X))
        if known is None or any(a is not b for a, b in zip(known[0], own, strict=True)):
            moved[place(X)] = known = own, _folded(*own, X)
        return known[1]


# P and c of encoders by the place they were moved to: no part of an encoder, so never saved
_MOVED: WeakKeyDictionary[LinearEncoder, dict[Any, Any]] = WeakKeyDictionary()


def _folded(
    projection: Any, mean: Any, scale: float, intercept: Any, X: Array
) -> tuple[Array, Array]:
    """P in the type of the encoder and c in float64, in the library and on the device of X."""
    xp = array_namespace(X)
    P = by_rows(like(projection, X)) / float(scale)
    c = like(mean, X, xp.float64) @ xp.astype(P, xp.float64, copy=False)
    return P, c if intercept is None else c - like(intercept, X, xp.float64)


def _project(X: Array, maps: list[Any], unit_rows: UnitRows | None, P: Array, c: Array) -> Array:
    """Projections of a block of rows."""
    xp = array_namespace(X)
    Z: Any = _as_float(X)
    if maps:
        _check_finite(X)  # a map may hide what is not: exp(-inf) = 0
        Z = xp.astype(Z, xp.float32) if is_half(Z) else Z
    for feature_map in maps:
        Z = feature_map.transform(Z)
        Z = Z if is_foreign(Z) else np.asarray(Z)  # a map may be set to give data frames
    wide = xp.float32 if is_half(Z) else xp.result_type(Z.dtype, P.dtype)
    Z = Z if is_half(Z) else xp.astype(Z, wide, copy=False)
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        norms = None
        if unit_rows is not None:
            Z, norms = _with_norms(Z, unit_rows)
        H = rows_product(Z, xp.astype(P, wide, copy=False))
        if norms is not None:
            H *= (1.0 / norms)[:, None]
        H -= xp.astype(c, wide)
        finite = bool(xp.isfinite(xp.sum(H))) or bool(xp.all(xp.isfinite(H)))
    if not finite:
        _check_finite(X)
    if not finite and np.geterr()["over"] != "ignore":
        warnings.warn(
            f"projections are too large for {wide}: give rows of float64, or smaller ones",
            RuntimeWarning,
            stacklevel=2,
        )
    return H


def _as_float(X: Any) -> Any:
    """NumPy's rows as float32 or float64; others come as floats."""
    known = is_foreign(X) or X.dtype in (np.float32, np.float64)
    return X if known else X.astype(np.float64)


def _with_norms(Z: Any, unit_rows: UnitRows) -> tuple[Any, Any]:
    """Rows and their norms; what is too large or too small to be squared comes as a unit row."""
    xp = array_namespace(Z)
    norms = row_norms(Z)
    limits = xp.finfo(norms.dtype)
    least = float(limits.smallest_normal / limits.eps) ** 0.5
    odd = ~((norms >= least) & xp.isfinite(norms))
    if bool(xp.any(odd)):
        _check_finite(Z)
        units = unit_rows.transform(xp.astype(Z, norms.dtype, copy=False))
        Z = xp.where(odd[:, None], xp.astype(units, Z.dtype, copy=False), Z)
        norms = xp.where(odd, xp.ones_like(norms), norms)
    return Z, norms


def _check_finite(X: Any) -> None:
    """What scikit-learn says of rows that are not finite."""
    X = array_namespace(X).astype(X, array_namespace(X).float32) if is_half(X) else X
    assert_all_finite(to_numpy(X), input_name="X")


def _moved(feature_map: Any, reference: Array) -> Any:
    """A copy of a fitted map whose arrays are where those of another are."""
    moved = copy(feature_map)
    for name, value in vars(feature_map).items():
        if is_array_api_obj(value):
            setattr(moved, name, like(value, reference))
    return moved
