"""Validation of matrices, labels and parameters; allowed ranges are declared as data."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .arrays import array_namespace, is_foreign, place, to_numpy
from .errors import InputError

if TYPE_CHECKING:
    from .linalg import Array

FLOATS = [np.float64, np.float32]
_NAME = re.compile(r"[^\W_][\w .+-]{0,63}")  # of a domain
UNKNOWN = -1  # the label of a sample whose class is not known, as in scikit-learn


def check_domain(X: Any, name: str) -> Array:
    """Return X as a finite float array of shape (n, d), n ≥ 2; float32 stays float32."""
    if is_foreign(X):
        checked = check_foreign(X, name)
    else:
        from sklearn.utils.validation import check_array  # an index needs no scikit-learn

        try:
            checked = check_array(X, dtype=FLOATS, ensure_min_samples=0, input_name=name)
        except ValueError as error:
            raise InputError(str(error), "" if name in str(error) else name) from error
    if checked.shape[0] < 2:
        raise InputError(f"has {checked.shape[0]} of at least 2 rows", name)
    check_magnitude(checked, name)
    return checked


def check_magnitude(X: Array, name: str) -> None:
    """Refuse rows to learn from whose squares, or sums of them, overflow or vanish."""
    xp = array_namespace(X)
    largest = max(abs(float(xp.max(X))), abs(float(xp.min(X))))
    limit = 1e100 if X.dtype == xp.float64 else 1e15
    if largest > limit or 0 < largest < 1 / limit:
        raise InputError(
            f"the largest value is {largest:.3g}; scale the features to between {1 / limit:g} and "
            f"{limit:g}",
            name,
        )


def check_foreign(X: Any, name: str) -> Any:
    """Return a finite (n, d) array of another library; other numbers become float64."""
    xp = array_namespace(X)
    if X.ndim != 2 or X.shape[1] == 0:
        raise InputError(f"shape {tuple(X.shape)}; rows and columns are needed", name)
    if X.dtype not in (xp.float32, xp.float64):
        if xp.isdtype(X.dtype, "complex floating"):
            raise InputError(f"holds {X.dtype}; real numbers are needed", name)
        X = xp.astype(X, xp.float64)
    if not bool(xp.all(xp.isfinite(X))):
        raise InputError("contains NaN or infinity", name)
    return X


def check_same_library(X: Sequence[Any], names: Sequence[str]) -> None:
    """Refuse arrays of two libraries, or on two devices."""
    places = [f"{name.split('.')[-1]} ({device})" for name, device in map(place, X)]
    for name, found in zip(names, places, strict=True):
        if found != places[0]:
            raise InputError(f"{names[0]} is {places[0]}, {name} is {found}; convert one of them")


def check_labels(y: ArrayLike | None, n: int, name: str) -> NDArray[Any] | None:
    """Return n labels as a one-dimensional array, or None where none were given."""
    if y is None:
        return None
    y = to_numpy(y)
    if y.ndim != 1 or len(y) != n:
        raise InputError(f"shape {y.shape}; one label is needed for each of the {n} rows", name)
    if y.dtype.kind == "O":
        y = _checked_objects(y, name)
    if y.dtype.kind == "f":
        if not np.isfinite(y).all():
            raise InputError("contains NaN or infinity; use -1 for an unknown label", name)
        if (y != np.round(y)).any():
            raise InputError("contains fractions; labels are class ids or names", name)
    if y.dtype.kind not in "biufUS":
        raise InputError(f"holds {y.dtype}; labels are whole numbers or text", name)
    return y.astype(np.int64) if y.dtype.kind in "bfu" else y


def _checked_objects(y: NDArray[Any], name: str) -> NDArray[Any]:
    """Labels that came as Python objects, all of them text or all of them numbers."""
    if all(isinstance(label, str) for label in y):
        return y.astype(str)
    if all(isinstance(label, Real) for label in y):
        return np.array(y.tolist())
    row = next(i for i, label in enumerate(y) if not isinstance(label, str))
    raise InputError(
        f"row {row} is {y[row]!r}, not text; text labels cannot mark unknown rows: use whole "
        "numbers and -1",
        name,
    )


def check_name(name: Any) -> str:
    """Return the name of a domain, or raise `InputError`."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InputError(
            f"{name!r} cannot name a domain; use up to 64 letters, digits, blanks and _ . + -, "
            "with a letter or digit first",
            "domain",
        )
    return name


def check_pairs(
    pairs: ArrayLike | None, sizes: Sequence[int], names: Sequence[str] = ("source", "target")
) -> NDArray[np.intp] | None:
    """Return row numbers, one column per domain, or None where none were given.

    With more than two domains, -1 marks a domain that has no such row.
    """
    if pairs is None:
        return None
    checked, n_domains = to_numpy(pairs), len(sizes)
    if checked.ndim != 2 or checked.shape[1] != n_domains or checked.dtype.kind not in "iu":
        listed = " and ".join(f"a row of the {name}" for name in names)
        raise InputError(
            f"shape {checked.shape}, type {checked.dtype}; "
            + ("two whole numbers per pair" if n_domains == 2 else f"{n_domains} whole numbers")
            + f" are needed, {listed}",
            "pairs",
        )
    checked = checked.astype(np.intp)
    least = 0 if n_domains == 2 else -1
    for rows, n, name in zip(checked.T, sizes, names, strict=True):
        if len(rows) and not least <= rows.min() <= rows.max() < n:
            raise InputError(f"names rows of the {name} outside 0..{n - 1}", "pairs")
    return checked


def classes_of(*labels: NDArray[Any] | None) -> NDArray[Any] | None:
    """Return all classes of several domains, sorted; None if no domain has labels."""
    given = [y for y in labels if y is not None]
    if not given:
        return None
    if len({y.dtype.kind in "USO" for y in given}) > 1:
        raise InputError("labels of all domains must be text, or all of them numbers")
    classes = np.unique(np.concatenate([_signed(y) for y in given]))
    return classes[classes != UNKNOWN] if classes.dtype.kind in "iu" else classes


def class_ids(*labels: NDArray[Any] | None) -> tuple[NDArray[np.intp] | None, ...]:
    """Return the labels of several domains as ids of all their classes; -1 and None stay.

    >>> class_ids(np.array(["cat", "dog"]), np.array(["dog", "emu"]))
    (array([0, 1]), array([1, 2]))
    """
    classes = classes_of(*labels)
    return tuple(
        None if y is None or classes is None else _lookup(_signed(y), classes) for y in labels
    )


def _signed(y: NDArray[Any]) -> NDArray[Any]:
    return y.astype(np.int64) if y.dtype.kind == "u" else y


def _lookup(y: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.intp]:
    if len(classes) == 0:
        return np.full(len(y), UNKNOWN, dtype=np.intp)
    ids = np.clip(np.searchsorted(classes, y), 0, len(classes) - 1)
    return np.where(classes[ids] == y, ids, UNKNOWN)


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
        try:
            number = float(value)  # type: ignore[arg-type]
        except OverflowError:
            return False
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
    """A name from a list, an object with the given method, or a number in a range."""

    names: tuple[str | None, ...]
    method: str | None = None
    number: Range | Flag | None = None

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


@dataclass(frozen=True)
class Size:
    """A number of bytes: a whole number, or text such as 3GiB, 500MB or 1.5g; or None."""

    def admits(self, value: object) -> bool:
        if isinstance(value, str):
            return _SIZE.fullmatch(value.upper()) is not None
        return value is None or Range(1, kind=Integral).admits(value)

    @staticmethod
    def n_bytes(value: int | str) -> int:
        """Return the number of bytes; units are powers of 1024 however they are spelled.

        >>> Size.n_bytes("1.5GiB")
        1610612736
        """
        found = _SIZE.fullmatch(str(value).upper())
        assert found is not None, "sizes are checked before they are used"
        return int(float(found[1]) * _UNITS[found[2]])

    def __str__(self) -> str:
        return "a number of bytes, or a size such as '4GiB' or '500MiB'"


_SIZE = re.compile(r"\s*(\d+\.?\d*|\.\d+)\s*([KMGT]?)I?B?\s*", re.ASCII)
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}

Rules = Mapping[str, Range | Flag | OneOf | Size]


def check_parameters(estimator: Any) -> None:
    """Check every parameter that a class declares in `_rules`, nested parts included."""
    from sklearn.base import BaseEstimator

    rules: Rules = getattr(estimator, "_rules", {})
    for name, rule in rules.items():
        value = getattr(estimator, name)
        if not rule.admits(value):
            raise InputError(f"{value!r} is not allowed; use {rule}", name)
        if isinstance(value, BaseEstimator):
            check_parameters(value)
