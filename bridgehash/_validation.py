"""Checks at the door: matrices, labels, and parameters against ranges declared as data."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array

from ._xp import array_namespace, is_foreign, to_numpy
from .linalg import Array

FLOATS = [np.float64, np.float32]
UNKNOWN = -1  # the label of a sample whose class is not known, as in scikit-learn


def check_domain(X: ArrayLike, name: str) -> Array:
    """A finite (n, d) float array with at least two rows; float32 stays float32."""
    if is_foreign(X):
        return _at_least_two(check_foreign(X, name), name)
    try:
        checked: Array = check_array(X, dtype=FLOATS, ensure_min_samples=0, input_name=name)
    except ValueError as error:
        raise ValueError(str(error) if name in str(error) else f"{name}: {error}") from error
    return _at_least_two(checked, name)


def check_foreign(X: Any, name: str) -> Any:
    """A finite (n, d) array of 32- or 64-bit floats of another library, as it is."""
    xp = array_namespace(X)
    if X.ndim != 2 or X.shape[1] == 0:
        raise ValueError(f"{name} has shape {tuple(X.shape)}; one row a sample is needed")
    if X.dtype not in (xp.float32, xp.float64):
        raise ValueError(f"{name} holds {X.dtype}; float32 or float64 is needed")
    if not bool(xp.all(xp.isfinite(X))):
        raise ValueError(f"{name} contains NaN or infinity")
    return X


def _at_least_two(X: Array, name: str) -> Array:
    if X.shape[0] < 2:
        raise ValueError(f"{name} has {X.shape[0]} rows; at least two are needed to learn from")
    return X


def check_labels(y: ArrayLike | None, n: int, name: str) -> NDArray[Any] | None:
    """A one-dimensional array of n labels, or None where none were given."""
    if y is None:
        return None
    y = to_numpy(y)
    if y.ndim != 1 or len(y) != n:
        raise ValueError(
            f"{name} has shape {y.shape}; one label for each of the {n} rows is needed"
        )
    if y.dtype.kind == "f":
        if not np.isfinite(y).all():
            raise ValueError(f"{name} contains NaN or infinity; use -1 for an unknown label")
        if (y != np.round(y)).any():
            raise ValueError(f"{name} holds fractions; labels are class ids or names")
    return y.astype(np.int64) if y.dtype.kind in "bfu" else y


def check_pairs(pairs: ArrayLike | None, n_source: int, n_target: int) -> NDArray[np.intp] | None:
    """Row numbers of shape (p, 2) within both domains, or None where none were given."""
    if pairs is None:
        return None
    checked = to_numpy(pairs)
    if checked.ndim != 2 or checked.shape[1] != 2 or checked.dtype.kind not in "iu":
        raise ValueError(
            f"pairs has shape {checked.shape} and type {checked.dtype}; two whole numbers a pair "
            "are needed: a row of the source, a row of the target"
        )
    for column, n, name in ((0, n_source, "X_source"), (1, n_target, "X_target")):
        rows = checked[:, column]
        if len(rows) and not 0 <= rows.min() <= rows.max() < n:
            raise ValueError(f"pairs names rows of {name} outside 0..{n - 1}")
    return checked.astype(np.intp)


def class_ids(
    y_source: NDArray[Any] | None, y_target: NDArray[Any] | None
) -> tuple[NDArray[np.intp] | None, NDArray[np.intp] | None]:
    """Labels of two domains as ids of all their classes; -1 and None stay as they are.

    >>> class_ids(np.array(["cat", "dog"]), np.array(["dog", "emu"]))
    (array([0, 1]), array([1, 2]))
    """
    y_source, y_target = (
        y.astype(np.int64) if y is not None and y.dtype.kind == "u" else y
        for y in (y_source, y_target)
    )
    given = [y for y in (y_source, y_target) if y is not None]
    if not given:
        return None, None
    if len({y.dtype.kind in "USO" for y in given}) > 1:
        raise ValueError("y_source and y_target must both hold names or both hold numbers")
    classes = np.unique(np.concatenate(given))
    if classes.dtype.kind in "iu":
        classes = classes[classes != UNKNOWN]
    return _lookup(y_source, classes), _lookup(y_target, classes)


def _lookup(y: NDArray[Any] | None, classes: NDArray[Any]) -> NDArray[np.intp] | None:
    if y is None:
        return None
    if len(classes) == 0:
        return np.full(len(y), UNKNOWN, dtype=np.intp)
    ids = np.clip(np.searchsorted(classes, y), 0, len(classes) - 1)
    return np.where(classes[ids] == y, ids, UNKNOWN)


def unknown(kind: str, name: str, known: Collection[str]) -> str:
    """What to say of a name that nobody has."""
    nearest = difflib.get_close_matches(name, list(known), n=1)
    hint = f"did you mean {nearest[0]!r}? " if nearest else ""
    return f"there is no {kind} {name!r}; {hint}Known: {', '.join(known)}"


@dataclass(frozen=True)
class Range:
    """Numbers from `low` to `high`; `above` leaves `low` itself out."""

    low: float
    high: float = np.inf
    kind: type = Real
    above: bool = False

    def admits(self, value: object) -> bool:
        if isinstance(value, bool) or not isinstance(value, self.kind):
            return False
        number = float(value)  # type: ignore[arg-type]
        return (self.low < number or (number == self.low and not self.above)) and (
            number <= self.high and np.isfinite(number)
        )

    def __str__(self) -> str:
        noun = "a whole number" if self.kind is Integral else "a number"
        if self.high == np.inf:
            return f"{noun} {'above' if self.above else 'of at least'} {self.low:g}"
        return f"{noun} from {self.low:g} to {self.high:g}"


@dataclass(frozen=True)
class Flag:
    """True or False."""

    def admits(self, value: object) -> bool:
        return isinstance(value, bool | np.bool_)

    def __str__(self) -> str:
        return "True or False"


@dataclass(frozen=True)
class OneOf:
    """A name out of a list, an object that has the given method, or a number in a range."""

    names: tuple[str | None, ...]
    method: str | None = None
    number: Range | None = None

    def admits(self, value: object) -> bool:
        if value is None or isinstance(value, str):
            return value in self.names
        if self.number is not None and isinstance(value, Real):
            return self.number.admits(value)
        return self.method is not None and callable(getattr(value, self.method, None))

    def __str__(self) -> str:
        names = ", ".join(repr(name) for name in self.names)
        method = f" or an object with `{self.method}`" if self.method else ""
        return f"one of {names}{method}" + (f" or {self.number}" if self.number else "")


Rules = Mapping[str, Range | Flag | OneOf]


def check_parameters(estimator: BaseEstimator) -> None:
    """Compare each parameter that a class declares in `_rules` with its rule, parts included."""
    rules: Rules = getattr(estimator, "_rules", {})
    for name, rule in rules.items():
        value = getattr(estimator, name)
        if not rule.admits(value):
            raise ValueError(f"{name}={value!r} is not allowed: give {rule}")
        if isinstance(value, BaseEstimator):
            check_parameters(value)
