"""Saved models: arrays and a JSON header, read back without executing code.

An object is described by the name of its class, its parameters, and the fitted attributes that its
class declares. Only public classes of this package, and some transformers of scikit-learn, are
restored, and only if all parts fit together (see `contents`). A part that only `fit` needs, such as
a start written by the user, is not stored: the loaded model encodes, and asks for that part when it
is fitted again.
"""

from __future__ import annotations

import hashlib
import json
import os
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from .._core.arrays import is_foreign, to_numpy
from .._core.errors import InputError, ModelFileError
from .._core.files import StrPath
from .contents import SKLEARN, NotSaved, check_contents, contents_of
from .model_file import INDEX_KIND, load_model, save_model

Arrays = dict[str, NDArray[Any]]
_MAX_DEPTH = 20  # of nested parts


def save(model: BaseEstimator, path: StrPath) -> None:
    """Write an encoder or a fitted hasher to a file, atomically.

    The file holds the encoders, the parameters and the record of the fit, but not the bipartite
    graph, which belongs to the training rows.
    """
    check_is_fitted(model)
    arrays: Arrays = {}
    described = _describe(model, "", arrays)
    if described["class"] in SKLEARN:
        raise InputError(f"{described['class']} is saved only as a part of an encoder", "model")
    try:
        _restore(described, dict(arrays))
    except ValueError as error:
        raise InputError(f"{type(model).__name__} cannot be saved: {error}", "model") from error
    save_model(path, type(model).__name__, described, arrays)


def load(path: StrPath) -> Any:
    """Read a model that `save` wrote; its class is stored in the file."""
    file = load_model(path)
    if file.kind == INDEX_KIND:
        raise ModelFileError(
            "is an index, not a model; use HammingIndex.load or `bridgehash index info`",
            os.fspath(path),
        )
    unread = dict(file.arrays)
    try:
        model = _restore(file.header, unread)
        if file.header["class"] != file.kind:  # so a transformer of scikit-learn is only a part
            raise TypeError(f"the header describes {type(model).__name__}")
        if unread:
            raise ValueError(f"array {min(unread)!r} belongs to no part")
        check_is_fitted(model)
        return model
    except MemoryError:
        raise
    except Exception as error:  # parts that do not fit together can raise anything
        raise ModelFileError(
            f"holds {file.kind[:40]!r} of bridgehash {file.package_version[:40]}, which this "
            f"version cannot read ({_shortened(error)}); save it again with this version",
            str(path),
        ) from error


def fingerprint(model: BaseEstimator) -> str:
    """Return a digest of all that `save` would write about an estimator."""
    arrays: Arrays = {}
    described = _describe(model, "", arrays)
    digest = hashlib.sha256(json.dumps(described, sort_keys=True).encode())
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _shortened(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"{error} is missing"
    return " ".join(str(error).split())[:300] or type(error).__name__


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
    if isinstance(value, dict):
        return {
            "names": list(value),
            "parts": _describe(list(value.values()), name, arrays),
        }
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
    fitted = {key: part for key, part in vars(value).items() if _is_fitted_name(key)}
    if class_name is None:
        if fitted:  # encoding needs it
            names = ", ".join(name.rpartition(".")[2] for name in SKLEARN)
            raise InputError(
                f"{type(value).__name__} cannot be saved, only classes of bridgehash and {names} "
                "of scikit-learn; use pickle instead",
                name.partition(".")[0],
            )
        return {"not saved": type(value).__name__}
    prefix = f"{name}." if name else ""
    stored = contents_of(type(value), class_name)
    return {
        "class": class_name,
        "parameters": {
            key: _describe(part, prefix + key, arrays)
            for key, part in value.get_params(deep=False).items()
        },
        "learned": {
            key: _describe(part, prefix + key, arrays)
            for key, part in fitted.items()
            if key in stored
        },
    }


def _is_fitted_name(name: str) -> bool:
    return name.endswith("_") and not name.startswith("_")


def _restore(value: Any, arrays: Arrays, depth: int = 0) -> Any:
    """Return what JSON describes; arrays are removed from `arrays` when they are used."""
    if depth > _MAX_DEPTH:
        raise ValueError(f"more than {_MAX_DEPTH} levels of parts")
    if isinstance(value, list):
        return [_restore(part, arrays, depth + 1) for part in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"array", "fields"}:
        return _with_fields(arrays.pop(value["array"]), value["fields"])
    if value.keys() == {"names", "parts"}:
        parts = _restore(value["parts"], arrays, depth + 1)
        return dict(zip(value["names"], parts, strict=True))
    if value.keys() == {"not saved"} and isinstance(value["not saved"], str):
        return NotSaved(value["not saved"])
    if value.keys() != {"class", "parameters", "learned"}:
        raise ValueError(f"the header has a part with the entries {', '.join(value)[:100]}")
    return _restore_estimator(value["class"], value["parameters"], value["learned"], arrays, depth)


def _with_fields(array: NDArray[Any], fields: Any) -> NDArray[Any]:
    if fields == []:
        return array
    if array.dtype != np.float64 or array.ndim != 2 or array.shape[1] != len(fields):
        raise ValueError(f"an array of shape {array.shape} cannot have the fields {fields}")
    dtype = [(name, np.float64) for name in fields]
    return np.array([tuple(row) for row in array], dtype=dtype)


def _restore_estimator(
    class_name: Any, parameters: Any, learned: Any, arrays: Arrays, depth: int
) -> BaseEstimator:
    cls = _class_of(class_name)
    given = {key: _restore(part, arrays, depth + 1) for key, part in parameters.items()}
    if class_name in SKLEARN:  # ranges are tuples there
        given = {key: tuple(v) if isinstance(v, list) else v for key, v in given.items()}
    model: BaseEstimator = cls(**given)
    stored = contents_of(cls, class_name)
    for key, part in learned.items():
        if key not in stored or not _is_fitted_name(key):
            raise ValueError(f"{class_name} has no attribute {key!r}")
        setattr(model, key, _restore(part, arrays, depth + 1))
    fitted = bool(learned) or hasattr(model, "__sklearn_is_fitted__")
    check_contents(model, class_name, fitted=fitted)
    return model


def _name_of(cls: type) -> str | None:
    """Return the name under which a class is stored; None if it is not."""
    for name in (cls.__name__, *SKLEARN):
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
    if isinstance(name, str) and name in SKLEARN:
        package, _, short = name.rpartition(".")
        return getattr(import_module(package), short)
    if isinstance(name, str) and name in dir(bridgehash):
        cls = getattr(bridgehash, name)
    own = getattr(cls, "__module__", "").startswith("bridgehash.")
    if not (isinstance(cls, type) and issubclass(cls, BaseEstimator) and own):
        raise TypeError(f"{str(name)[:100]} is not a class that is stored in model files")
    return cls
