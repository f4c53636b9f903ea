"""Saved models: arrays and a JSON header, read back without executing code.

An object is described by the name of its class, its parameters, and its fitted attributes (names
that end in an underscore). Only public classes of this package, and transformers of a few modules
of scikit-learn, are restored. A part that only `fit` needs, such as a start written by the user, is
not stored: the loaded model encodes, and asks for that part when it is fitted again.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from .._core.arrays import is_foreign, to_numpy
from .._core.errors import InputError, ModelFileError
from .._core.files import StrPath
from .model_file import INDEX_KIND, load_model, save_model

Arrays = dict[str, NDArray[Any]]
_LEFT_OUT = ("bipartite_graph_", "feature_names_in_")
_SKLEARN = ("preprocessing", "decomposition", "kernel_approximation", "random_projection")


@dataclass(frozen=True)
class NotSaved:
    """Placeholder for a parameter that was not stored with the model."""

    kind: str

    def __repr__(self) -> str:
        return f"<{self.kind}: not saved with the model>"


def save(model: BaseEstimator, path: StrPath) -> None:
    """Write an encoder or a fitted hasher to a file, atomically.

    The file holds both encoders, the parameters and the record of the fit, but not the bipartite
    graph, which belongs to the training rows.
    """
    check_is_fitted(model)
    arrays: Arrays = {}
    save_model(path, type(model).__name__, _describe(model, "", arrays), arrays)


def load(path: StrPath) -> Any:
    """Read a model that `save` wrote; its class is stored in the file."""
    file = load_model(path)
    if file.kind == INDEX_KIND:
        raise ModelFileError(
            "is an index, not a model; use HammingIndex.load or `bridgehash index info`",
            os.fspath(path),
        )
    try:
        model = _restore(file.header, file.arrays)
        if not isinstance(model, BaseEstimator):
            raise TypeError("no class in the header")
        return model
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ModelFileError(
            f"holds {file.kind} of bridgehash {file.package_version}, which this version cannot "
            f"read ({error}); save it again with this version",
            str(path),
        ) from error


def _describe(value: Any, name: str, arrays: Arrays) -> Any:
    """Return JSON for a value; arrays are added to `arrays` and referenced by name."""
    if is_foreign(value):
        value = to_numpy(value)
    if isinstance(value, BaseEstimator):
        return _describe_estimator(value, name, arrays)
    if isinstance(value, np.ndarray):
        fields = list(value.dtype.names or ())
        if fields:  # stored as a plain table
            value = np.array(value.tolist(), dtype=np.float64).reshape(len(value), -1)
        arrays[name] = value
        return {"array": name, "fields": fields}
    if isinstance(value, list | tuple):
        return [_describe(part, f"{name}.{i}", arrays) for i, part in enumerate(value)]
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.random.RandomState):
        return None
    return {"not saved": value.kind if isinstance(value, NotSaved) else type(value).__name__}


def _describe_estimator(value: BaseEstimator, name: str, arrays: Arrays) -> dict[str, Any]:
    class_name = _name_of(type(value))
    fitted = {
        key: part
        for key, part in vars(value).items()
        if key.endswith("_") and not key.startswith("_") and key not in _LEFT_OUT
    }
    if class_name is None:
        if fitted:  # encoding needs it
            raise InputError(
                f"{type(value).__name__} cannot be saved, only classes of bridgehash and "
                f"transformers of sklearn.{', sklearn.'.join(_SKLEARN)}; use pickle instead",
                name.partition(".")[0],
            )
        return {"not saved": type(value).__name__}
    prefix = f"{name}." if name else ""
    described = {
        "class": class_name,
        "parameters": {
            key: _describe(part, prefix + key, arrays)
            for key, part in value.get_params(deep=False).items()
        },
        "learned": {key: _describe(part, prefix + key, arrays) for key, part in fitted.items()},
    }
    if fitted and class_name.startswith("sklearn."):
        _check_restorable(value, described, arrays)
    return described


def _check_restorable(value: Any, described: dict[str, Any], arrays: Arrays) -> None:
    """Refuse a transformer of scikit-learn that keeps state in private attributes."""
    probe = np.random.default_rng(0).random((2, value.n_features_in_))
    try:
        same = np.array_equal(_restore(described, arrays).transform(probe), value.transform(probe))
    except Exception:  # whatever the missing state leads to
        same = False
    if not same:
        raise InputError(
            f"{type(value).__name__} keeps state that cannot be saved; use another transformer, or "
            "pickle the model",
            "feature_map",
        )


def _restore(value: Any, arrays: Arrays) -> Any:
    if isinstance(value, list):
        return [_restore(part, arrays) for part in value]
    if not isinstance(value, dict):
        return value
    if "array" in value:
        array, fields = arrays[value["array"]], [(name, np.float64) for name in value["fields"]]
        return np.array([tuple(row) for row in array], dtype=fields) if fields else array
    if "class" in value:
        parameters = {key: _restore(part, arrays) for key, part in value["parameters"].items()}
        model = _class_of(value["class"])(**parameters)
        for key, part in value["learned"].items():
            setattr(model, key, _restore(part, arrays))
        return model
    return NotSaved(str(value["not saved"]))


def _name_of(cls: type) -> str | None:
    """Return the name under which a class is stored; None if it is not."""
    names = [cls.__name__, *(f"sklearn.{module}.{cls.__name__}" for module in _SKLEARN)]
    for name in names:
        try:
            if _class_of(name) is cls:
                return name
        except TypeError:
            continue
    return None


def _class_of(name: Any) -> Any:
    """Return a class by its stored name; only public estimators are ever looked up."""
    import bridgehash

    cls = None
    package, _, short = str(name).rpartition(".")
    if not package and short in dir(bridgehash):
        cls = getattr(bridgehash, short)
    elif package in {f"sklearn.{module}" for module in _SKLEARN}:
        cls = getattr(import_module(package), short, None)
    own = getattr(cls, "__module__", "").startswith((package, "bridgehash."))
    if not (isinstance(cls, type) and issubclass(cls, BaseEstimator) and own):
        raise TypeError(f"{name} is not a class that is stored in model files")
    return cls
