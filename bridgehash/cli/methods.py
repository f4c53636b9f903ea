"""The methods that `bridgehash fit` knows by name, and their parameters by keyword."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from sklearn.base import BaseEstimator, clone

from bridgehash._core.errors import InputError, unknown
from bridgehash.ath.presets import NAMED_PARTS
from bridgehash.models.base import BaseTransferHasher
from bridgehash.registry import METHODS, ath_name, choose_preset, find_method, inner_estimator

NAMES = ("ath", *METHODS)  # "ath" leaves the realisation to --preset, or to the labels given

_SPELLED = {"None": None, "True": True, "False": False}  # as Python spells what JSON spells else


def method_records() -> list[dict[str, str]]:
    """What there is to tell of each method."""
    return [
        {
            "method": name,
            "kind": entry.about.kind,
            "inputs": entry.inputs,
            "citation": entry.about.citation,
            "title": entry.title,
        }
        for name, entry in METHODS.items()
    ]


def build(
    method: str,
    data: Mapping[str, Any],
    *,
    preset: str | None,
    published: bool,
    n_bits: int,
    seed: int,
) -> tuple[BaseTransferHasher, str]:
    """Return an unfitted hasher and its title; `ath` without a preset is chosen by the data."""
    reason = ""
    if method == "ath":
        if preset is None:
            preset, why = choose_preset(**data, published=published)
            reason = f" ({why})"
        method = ath_name(preset, published=published)
    elif preset or published:
        raise InputError(
            f"--preset and --published belong to --method ath, not {method}; drop them"
        )
    return clone(find_method(method).prepared(n_bits, seed)), method + reason


def ignored(hasher: BaseTransferHasher, given: Collection[str]) -> list[str]:
    """What of labels and pairs was given in vain, in words."""
    used = hasher.used_inputs()
    words = {"y_source": "labels of the source", "y_target": "labels of the target"}
    return [words.get(name, name) for name in given if name[0] in "yp" and name not in used]


def apply_settings(hasher: BaseTransferHasher, settings: Iterable[str]) -> None:
    """Set parameters from `key=value`; `part__key` reaches into a part such as a graph."""
    estimator = inner_estimator(hasher)
    wanted = dict(map(_parsed, settings))
    for deep in (False, True):
        chosen = {key: value for key, value in wanted.items() if ("__" in key) == deep}
        if deep and chosen:
            _name_to_object(estimator, {key.partition("__")[0] for key in chosen})
        known = estimator.get_params(deep=deep)
        for key, value in chosen.items():
            if key not in known:
                raise _unknown("parameter", key, _all_keys(estimator), option="--set: ")
            if isinstance(known[key], bool) and not isinstance(value, bool):
                raise InputError(f"--set: {key}={value!r} is not allowed: give true or false")
        estimator.set_params(**chosen)


def _parsed(setting: str) -> tuple[str, Any]:
    """Key and value of `key=value`: JSON where it is JSON, else text.

    >>> _parsed("lam=0.5"), _parsed("start=pca"), _parsed("feature_map=null")
    (('lam', 0.5), ('start', 'pca'), ('feature_map', None))
    """
    key, equals, text = (part.strip() for part in setting.partition("="))
    if not (key and equals):
        raise InputError(f"--set: {setting!r} is not of the form key=value; write --set lam=0.5")
    try:
        return key, json.loads(text)
    except (ValueError, RecursionError):
        return key, _SPELLED.get(text, text)


def _name_to_object(estimator: BaseEstimator, parts: Collection[str]) -> None:
    """Put the object in place of its name, so that it has parameters to set."""
    for part, value in estimator.get_params(deep=False).items():
        named = NAMED_PARTS.get(part, {})
        if part in parts and isinstance(value, str) and value in named:
            estimator.set_params(**{part: clone(named[value])})


def _all_keys(estimator: BaseEstimator) -> list[str]:
    estimator = clone(estimator)
    _name_to_object(estimator, NAMED_PARTS)
    return sorted(estimator.get_params(deep=True))


def _unknown(kind: str, name: str, known: Collection[str], option: str = "") -> InputError:
    return InputError(option + unknown(kind, name, known))
