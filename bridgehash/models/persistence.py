"""Saved models: arrays and a JSON header, read back without executing anything.

`save` takes an encoder or a fitted hasher, `load` gives it back. An object is described by the
name of its class, its parameters, and what it has learned (attributes that end in an underscore);
only public classes of this package are ever revived.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from .._core.arrays import is_foreign, to_numpy
from .._core.errors import ModelFileError
from .._core.files import StrPath
from .model_file import INDEX_KIND, load_model, save_model

Arrays = dict[str, NDArray[Any]]


def save(model: BaseEstimator, path: StrPath) -> None:
    """Write an encoder or a fitted hasher to one file, whole or not at all.

    A hasher keeps both encoders, its parameters and the record of the fit; the bipartite graph
    belongs to the training rows and stays behind.
    """
    check_is_fitted(model)
    arrays: Arrays = {}
    save_model(path, type(model).__name__, _describe(model, "", arrays), arrays)


def load(path: StrPath) -> Any:
    """The model in a file that `save` wrote; its class says which kind it is."""
    file = load_model(path)
    if file.kind == INDEX_KIND:
        raise ModelFileError(
            "is an index, not a model; use HammingIndex.load or `bridgehash index info`",
            os.fspath(path),
        )
    try:
        model = _revive(file.header, file.arrays)
        if not isinstance(model, BaseEstimator):
            raise TypeError("its header names no class")
        return model
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ModelFileError(
            f"{path}: holds a {file.kind} of bridgehash {file.package_version} that this version "
            f"cannot read ({error}); save it again with this version"
        ) from error


def _describe(value: Any, name: str, arrays: Arrays) -> Any:
    """JSON for a value; arrays go to `arrays` under a path of names and leave a reference."""
    if is_foreign(value):
        value = to_numpy(value)
    if isinstance(value, BaseEstimator):
        _public_class(type(value).__name__)  # what could not be read back is not written
        parts = value.get_params(deep=False)
        learned = {key: part for key, part in vars(value).items() if _is_learned(key)}
        return {
            "class": type(value).__name__,
            "parameters": _describe_all(parts, name, arrays),
            "learned": _describe_all(learned, name, arrays),
        }
    if isinstance(value, np.ndarray):
        arrays[name] = value if value.dtype.names is None else _plain(value)
        return {"array": name, "fields": list(value.dtype.names or ())}
    if isinstance(value, list | tuple):
        return [_describe(part, f"{name}.{i}", arrays) for i, part in enumerate(value)]
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return {"not saved": type(value).__name__}


def _describe_all(parts: dict[str, Any], name: str, arrays: Arrays) -> dict[str, Any]:
    prefix = f"{name}." if name else ""
    return {key: _describe(part, prefix + key, arrays) for key, part in parts.items()}


def _is_learned(key: str) -> bool:
    return key.endswith("_") and not key.startswith("_") and key != "bipartite_graph_"


def _plain(record: NDArray[np.void]) -> NDArray[np.float64]:
    return np.array(record.tolist(), dtype=np.float64).reshape(len(record), -1)


def _revive(value: Any, arrays: Arrays) -> Any:
    if isinstance(value, list):
        return [_revive(part, arrays) for part in value]
    if not isinstance(value, dict):
        return value
    if "array" in value:
        return _array(arrays[value["array"]], value["fields"])
    if "class" in value:
        parameters = {key: _revive(part, arrays) for key, part in value["parameters"].items()}
        model = _public_class(value["class"])(**parameters)
        for key, part in value["learned"].items():
            setattr(model, key, _revive(part, arrays))
        return model
    return None  # a parameter that was not saved: a RandomState, a given graph


def _array(array: NDArray[Any], fields: Sequence[str]) -> NDArray[Any]:
    if not fields:
        return array
    return np.array([tuple(row) for row in array], dtype=[(f, np.float64) for f in fields])


def _public_class(name: str) -> Any:
    import bridgehash

    found = getattr(bridgehash, name, None) if name in dir(bridgehash) else None
    if not (isinstance(found, type) and issubclass(found, BaseEstimator)):
        raise TypeError(f"{name} is not a class of bridgehash; only its own are saved")
    return found
