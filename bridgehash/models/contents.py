"""Rules for the contents of a model file, checked against each other when it is loaded.

A checksum shows that a file is complete, not that its contents belong together: anybody can write
a file with a right checksum. So every class declares in `_contents` what it stores: the sizes of
its arrays by name (equal names must have equal sizes), and the range of its numbers. The
transformers of scikit-learn that can be stored are listed here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral
from string import hexdigits
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from .._core.validation import Flag, OneOf, Range, Rules, check_name

Sizes = dict[str, int]


@dataclass(frozen=True)
class NotSaved:
    """Placeholder for a parameter that was not stored with the model."""

    kind: str

    def __repr__(self) -> str:
        return f"<{self.kind}: not saved with the model>"


MAX_WIDTH = 2**22  # columns
MAX_MAPS = 100
MAX_NAMED = 10_000
_SEED = OneOf((None,), number=Range(0, 2**32 - 1, Integral))


@dataclass(frozen=True)
class Values:
    """A finite array.

    Parameters
    ----------
    shape : str
        Names of its sizes, separated by blanks.
    kinds : str
        Allowed kinds of NumPy dtypes.
    low : float
        Least value.
    below : str
        Name of the size that all values are smaller than: they are positions.
    nonzero : bool
        Whether zeros are refused, for divisors.
    """

    shape: str
    kinds: str = "f"
    low: float = -np.inf
    below: str = ""
    nonzero: bool = False

    def check(self, value: Any, sizes: Sizes) -> None:
        names = self.shape.split()
        if not isinstance(value, np.ndarray) or value.dtype.kind not in self.kinds:
            raise ValueError(f"{_described(value)} instead of an array of numbers")
        if value.ndim != len(names) or 0 in value.shape:
            raise ValueError(f"shape {value.shape} instead of ({', '.join(names)})")
        for name, size in zip(names, value.shape, strict=True):
            if sizes.setdefault(name, size) != size:
                raise ValueError(f"shape {value.shape}, but {name} is {sizes[name]} elsewhere")
        low, high = value.min(), value.max()
        if not (np.isfinite(low) and np.isfinite(high)):
            raise ValueError("values that are not finite")
        if low < self.low or (self.below and high >= sizes[self.below]):
            raise ValueError(f"values from {low} to {high}")
        if self.nonzero and not value.all():
            raise ValueError("zeros")


@dataclass(frozen=True)
class Width:
    """A whole number that equals the size of the same name."""

    name: str

    def check(self, value: Any, sizes: Sizes) -> None:
        if not Range(1, MAX_WIDTH, Integral).admits(value):
            raise ValueError(f"{_described(value)} instead of a whole number of at least 1")
        if sizes.setdefault(self.name, value) != value:
            raise ValueError(f"{value}, but {self.name} is {sizes[self.name]} elsewhere")


@dataclass(frozen=True)
class Interval:
    """Two finite numbers, the smaller one first."""

    def check(self, value: Any, sizes: Sizes) -> None:
        finite = Range(-np.inf)
        if not (len(value) == 2 and all(map(finite.admits, value)) and value[0] < value[1]):
            raise ValueError(f"{_described(value)} instead of two numbers in order")


@dataclass(frozen=True)
class Number:
    """A number or a choice, by a rule for parameters."""

    rule: Range | Flag | OneOf

    def check(self, value: Any, sizes: Sizes) -> None:
        if not self.rule.admits(value):
            raise ValueError(f"{_described(value)} instead of {self.rule}")


@dataclass(frozen=True)
class Part:
    """Another estimator, of the class with this name or a subclass of it."""

    class_name: str

    def check(self, value: Any, sizes: Sizes) -> None:
        if self.class_name not in [base.__name__ for base in type(value).__mro__]:
            raise ValueError(f"{_described(value)} instead of {self.class_name}")


@dataclass(frozen=True)
class Named:
    """Estimators of one class by name, at least one."""

    class_name: str

    def check(self, value: Any, sizes: Sizes) -> None:
        if not isinstance(value, dict) or not 0 < len(value) <= MAX_NAMED:
            raise ValueError(f"{_described(value)} instead of 1 to {MAX_NAMED} named parts")
        for name, each in value.items():
            check_name(name)
            Part(self.class_name).check(each, sizes)


@dataclass(frozen=True)
class Entries:
    """A list of texts or of whole numbers, of the size with this name."""

    name: str

    def check(self, value: Any, sizes: Sizes) -> None:
        kinds = {type(each) for each in value} if isinstance(value, list) else {None}
        if kinds not in ({str}, {int}):
            raise ValueError(f"{_described(value)} instead of texts or whole numbers")
        if sizes.setdefault(self.name, len(value)) != len(value):
            raise ValueError(f"{len(value)} entries, but {self.name} is {sizes[self.name]}")


@dataclass(frozen=True)
class Digest:
    """A SHA-256 digest in hexadecimal digits."""

    def check(self, value: Any, sizes: Sizes) -> None:
        if not (isinstance(value, str) and len(value) == 64 and set(value) <= set(hexdigits)):
            raise ValueError(f"{_described(value)} instead of a digest")


@dataclass(frozen=True)
class Parts:
    """A list of fitted feature maps."""

    def check(self, value: Any, sizes: Sizes) -> None:
        if not isinstance(value, list | tuple) or len(value) > MAX_MAPS:
            raise ValueError(f"{_described(value)} instead of at most {MAX_MAPS} feature maps")
        for each in value:
            widths(each)


@dataclass(frozen=True)
class Given:
    """What the user gave to `fit`: a name, an array, or something that was not stored."""

    shape: str
    names: tuple[str, ...] = ()

    def check(self, value: Any, sizes: Sizes) -> None:
        if isinstance(value, NotSaved) or (isinstance(value, str) and value in self.names):
            return
        Values(self.shape, "biuf").check(np.asarray(value), sizes)


@dataclass(frozen=True)
class Course:
    """One finite number per iteration, or several with names."""

    def check(self, value: Any, sizes: Sizes) -> None:
        if not isinstance(value, np.ndarray) or value.ndim != 1:
            raise ValueError(f"{_described(value)} instead of a list of numbers")
        if value.dtype.names and "total" not in value.dtype.names:
            raise ValueError("no field called total")
        for column in [value[name] for name in value.dtype.names or ()] or [value]:
            if column.dtype.kind != "f" or not np.isfinite(column).all():
                raise ValueError("values that are not finite numbers")


@dataclass(frozen=True)
class Maybe:
    """What may be None or missing, depending on the parameters."""

    rule: Values | Number | Course | Entries | Digest | Part | Named

    def check(self, value: Any, sizes: Sizes) -> None:
        if value is not None:
            self.rule.check(value, sizes)


Simple = Values | Width | Interval | Number | Entries | Digest | Given | Course
Rule = Simple | Part | Named | Parts | Maybe
Contents = dict[str, Rule]

_LINEAR: Contents = {"n_features_in_": Width("d"), "components_": Values("m d")}
_CENTRED: Contents = _LINEAR | {"mean_": Maybe(Values("d"))}
_PRINCIPAL: Contents = _CENTRED | {
    "n_components_": Width("m"),
    "explained_variance_": Values("m", low=0.0),
    "explained_variance_ratio_": Maybe(Values("m")),
    "singular_values_": Maybe(Values("m")),
    "noise_variance_": Maybe(Number(Range(0))),
}
_SCALER: Contents = {"n_features_in_": Width("d"), "scale_": Maybe(Values("d", nonzero=True))}

# Transformers whose state is in public attributes, and whose `transform` is plain arithmetic.
SKLEARN: Mapping[str, Contents] = {
    "sklearn.preprocessing.StandardScaler": _SCALER
    | {"mean_": Maybe(Values("d")), "var_": Maybe(Values("d", low=0.0))},
    "sklearn.preprocessing.MinMaxScaler": _SCALER
    | {
        "feature_range": Interval(),
        "scale_": Values("d"),
        "min_": Values("d"),
        "data_min_": Values("d"),
        "data_max_": Values("d"),
        "data_range_": Values("d"),
    },
    "sklearn.preprocessing.MaxAbsScaler": _SCALER | {"max_abs_": Values("d")},
    "sklearn.preprocessing.RobustScaler": _SCALER | {"center_": Maybe(Values("d"))},
    "sklearn.preprocessing.Normalizer": {"n_features_in_": Width("d")},
    "sklearn.preprocessing.QuantileTransformer": {
        "n_features_in_": Width("d"),
        "n_quantiles_": Width("q"),
        "references_": Values("q"),
        "quantiles_": Values("q d"),
    },
    "sklearn.decomposition.PCA": _PRINCIPAL | {"n_samples_": Width("n")},
    "sklearn.decomposition.IncrementalPCA": _PRINCIPAL
    | {"var_": Maybe(Values("d")), "batch_size_": Width("batch")},
    "sklearn.decomposition.TruncatedSVD": _LINEAR
    | {
        "explained_variance_": Values("m"),
        "explained_variance_ratio_": Values("m"),
        "singular_values_": Values("m"),
    },
    "sklearn.decomposition.FastICA": _CENTRED
    | {
        "mixing_": Values("d m"),
        "whitening_": Maybe(Values("m d")),
        "n_iter_": Number(Range(0, kind=Integral)),
    },
    "sklearn.kernel_approximation.Nystroem": {
        "n_features_in_": Width("d"),
        "components_": Values("m d"),
        "normalization_": Values("m m"),
        "component_indices_": Values("m", "iu", low=0),
        "kernel": Number(
            OneOf(("rbf", "laplacian", "cosine", "linear", "sigmoid", "poly", "polynomial"))
        ),
        "degree": Number(OneOf((None,), number=Range(1, 100, Integral))),
        "n_jobs": Number(OneOf((None,), number=Range(-1, 1024, Integral))),
    },
    "sklearn.kernel_approximation.RBFSampler": {
        "n_features_in_": Width("d"),
        "n_components": Width("m"),
        "random_weights_": Values("d m"),
        "random_offset_": Values("m"),
    },
    "sklearn.random_projection.GaussianRandomProjection": _LINEAR
    | {"n_components_": Width("m"), "inverse_components_": Maybe(Values("d m"))},
}


def contents_of(cls: type, class_name: str) -> Contents:
    """Return what a class stores besides its parameters."""
    return SKLEARN.get(class_name) or getattr(cls, "_contents", {})


def check_contents(model: BaseEstimator, class_name: str, *, fitted: bool) -> None:
    """Raise `ValueError` unless the parameters and the state of an estimator fit together."""
    contents = contents_of(type(model), class_name)
    parameters = model.get_params(deep=False)
    if class_name in SKLEARN:
        model._validate_params()  # as `fit` does
    else:
        _check_parameters(model, {**parameters}, contents)
    if not fitted:
        contents = {name: rule for name, rule in contents.items() if name in parameters}
    sizes_of(model, contents)
    if fitted and hasattr(model, "_check_loaded"):
        model._check_loaded()


def _check_parameters(model: Any, parameters: dict[str, Any], contents: Contents) -> None:
    rules: Rules = {"random_state": _SEED, **getattr(model, "_rules", {})}
    for name, value in parameters.items():
        if name in contents:
            continue
        rule = rules[name]
        left_out = isinstance(value, NotSaved) and getattr(rule, "method", None) is not None
        if not (left_out or rule.admits(value)):
            raise ValueError(f"{name}: {_described(value)} instead of {rule}")


def sizes_of(model: BaseEstimator, contents: Contents) -> Sizes:
    """Return the sizes by name; raise `ValueError` if they or the values do not fit together."""
    sizes: Sizes = {}
    for name, rule in contents.items():
        if not hasattr(model, name) and not isinstance(rule, Maybe):
            raise ValueError(f"{name} is missing")
        try:
            rule.check(getattr(model, name, None), sizes)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error
    return sizes


def widths(transformer: BaseEstimator) -> tuple[int, int]:
    """Return the columns that a fitted feature map takes and gives."""
    cls = type(transformer)
    names = [name for name in SKLEARN if name.rpartition(".")[2] == cls.__name__]
    sizes = sizes_of(transformer, contents_of(cls, names[0] if names else ""))
    return sizes["d"], sizes.get("m", sizes["d"])


def _described(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype}"
    text = repr(value) if isinstance(value, int | float | str) else type(value).__name__
    return text if len(text) <= 40 else f"{text[:40]}…"
