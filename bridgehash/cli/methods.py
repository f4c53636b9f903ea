"""The methods that `bridgehash fit` knows by name, and their parameters by keyword."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from sklearn.base import BaseEstimator, clone

from bridgehash import ATH
from bridgehash._validation import class_ids, unknown
from bridgehash.ath.parts import BIPARTITES, FEATURE_MAPS, GRAPHS, STARTS
from bridgehash.ath.presets import PRESETS, PUBLISHED
from bridgehash.base import BaseTransferHasher
from bridgehash.methods import METHODS, set_length_and_seed, tunable

from .tables import InputError

NAMES = ("ath", *METHODS)  # "ath" leaves the realisation to --preset, or to the labels given

_NAMED_PARTS: dict[str, dict[str, Any]] = {  # names that stand for objects with parameters
    "source_graph": GRAPHS,
    "target_graph": GRAPHS,
    "bipartite": BIPARTITES,
    "feature_map": FEATURE_MAPS,
    "start": STARTS,
}
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


def choose_preset(
    method: str, preset: str | None, data: Mapping[str, Any], *, published: bool = False
) -> tuple[str | None, str]:
    """The preset, by default the one that makes most of what is given; and the method's title.

    What is `published` is chosen among the realisations of the paper.

    >>> import numpy as np
    >>> X, y = np.ones((3, 2)), np.array([0, 1, -1])
    >>> choose_preset("ath", None, {"X_source": X, "X_target": X, "y_source": y})
    ('propagated', 'ath, propagated (labels of some rows)')
    """
    if method != "ath" or preset is not None:
        return preset, f"{method}, {preset}" if preset else method
    chosen, reason = _of_the_paper(data) if published else _suited(data)
    return chosen, f"{method}, {chosen} ({reason})"


def _suited(data: Mapping[str, Any]) -> tuple[str, str]:
    """The realisation for what is known of the rows, and what that is, in words."""
    if "pairs" in data:
        return "paired", "pairs given"
    labels = class_ids(data.get("y_source"), data.get("y_target"))
    if any(y is not None for y in labels):
        if all(y is not None and (y >= 0).all() for y in labels):
            return "supervised", "labels of all rows"
        return "propagated", "labels of some rows"
    if data["X_source"].shape[1] == data["X_target"].shape[1]:
        return "unsupervised", "no labels, as many columns in both domains"
    return "structural", "no labels, different columns"


def _of_the_paper(data: Mapping[str, Any]) -> tuple[str, str]:
    """The same among the realisations of the paper."""
    if "y_source" not in data:
        return "unsupervised", "no labels of the source"
    if "y_target" not in data:
        return "semi_supervised", "labels of the source"
    return "supervised", "labels of both domains"


def build(
    method: str, *, preset: str | None, published: bool, n_bits: int, seed: int
) -> BaseTransferHasher:
    """An unfitted hasher of its own: nothing in it is shared with a preset."""
    if method not in NAMES:
        raise _unknown("method", method, NAMES)
    if method == "ath":
        known = PUBLISHED if published else PRESETS
        if preset not in known:
            raise _unknown("published preset" if published else "preset", str(preset), known)
        hasher: BaseTransferHasher = ATH(
            **(PRESETS[preset] | (PUBLISHED[preset] if published else {}))
        )
    elif preset or published:
        raise InputError(f"--preset and --published belong to --method ath, not {method}; drop")
    else:
        hasher = METHODS[method].make()
    set_length_and_seed(hasher, n_bits, seed)
    return clone(hasher)


def ignored(hasher: BaseTransferHasher, given: Collection[str]) -> list[str]:
    """What of labels and pairs was given in vain, in words."""
    method: Any = tunable(hasher)
    if isinstance(method, ATH):
        parts = [str(part).lower() for part in method.get_params(deep=False).values()]
        words = {"y": ("label", "propagat"), "pairs": ("pair",)}
        needs = {kind for kind, ws in words.items() if any(w in p for w in ws for p in parts)}
    else:
        about = method.about
        needs = {need.partition("_")[0] for need in (*about.needs, *about.uses)}
    kinds = {"y": "labels", "pairs": "pairs"}
    given = {name.partition("_")[0] for name in given}
    return [word for kind, word in kinds.items() if kind in given and kind not in needs]


def apply_settings(hasher: BaseTransferHasher, settings: Iterable[str]) -> None:
    """Set parameters from `key=value`; `part__key` reaches into a part such as a graph."""
    estimator = tunable(hasher)
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
        named = _NAMED_PARTS.get(part, {})
        if part in parts and isinstance(value, str) and value in named:
            estimator.set_params(**{part: clone(named[value])})


def _all_keys(estimator: BaseEstimator) -> list[str]:
    estimator = clone(estimator)
    _name_to_object(estimator, _NAMED_PARTS)
    return sorted(estimator.get_params(deep=True))


def _unknown(kind: str, name: str, known: Collection[str], option: str = "") -> InputError:
    return InputError(option + unknown(kind, name, known))
