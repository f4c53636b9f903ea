"""Checks of the inputs before a fit: can they connect the domains?

Each check has a warning class of its own, and its message names the remedy. Two checks also change
what the fit sees: domains of equal width whose columns do not correspond become separate feature
spaces, and pairs that the other pairs contradict are left out. docs/maths.md has the formulas.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from .._core.errors import BridgeWarning, ClassesWarning, FeatureSpaceWarning, FewLabelsWarning
from ..models.columns import columns_correspond
from ..models.training import Domains
from ..streaming.blocks import Blocks
from .pair_checks import checked_pairs_of
from .presets import part
from .starts import PCAStart

_FEW_COMMON = 0.25  # share of the smaller set of classes
_FEW_LABELLED = 0.5  # share of the rows
_SHOWN = 4  # classes in a message


def checked_inputs(
    ath: Any,
    data: Domains,
    *,
    without_rows: Collection[int] = (),
    frozen: bool = False,
    initial: bool = False,
) -> Domains:
    """Warn about inputs that cannot connect the domains; return those that the fit should see.

    Parameters
    ----------
    ath : ATH
    data : Domains
    without_rows : numbers of domains of which only codes are known
    frozen, initial : bool
        Whether codes are frozen, and whether the fit begins at an earlier model.
    """
    used = ath.used_inputs()
    found: list[BridgeWarning] = [*_label_warnings(ath, data, used, frozen=frozen)]
    if _compares_columns(ath, data, used):
        data = replace(data, spaces=feature_spaces(data, without_rows))
    found += _space_warnings(ath, data, linked=frozen or initial)
    if "pairs" in used and not isinstance(data.X[0], Blocks):
        data, more = checked_pairs_of(data, ath.unit_rows)
        found += more
    for warning in found:
        warnings.warn(warning, stacklevel=3)
    return data


def _label_warnings(
    ath: Any, data: Domains, used: Collection[str], *, frozen: bool
) -> Iterator[BridgeWarning]:
    if {"y_source", "y_target"} <= set(used) and not frozen:  # classes of frozen codes: an error
        yield from class_warnings(data)
    if getattr(part(ath, "completion"), "needs_labels", False):
        return
    for k, y in enumerate(data.y):
        if y is None or f"y_{'target' if k else 'source'}" not in used:
            continue
        known = int(np.count_nonzero(y >= 0))
        if 0 < known < _FEW_LABELLED * len(y):
            better = "adopted" if frozen else "propagated"
            yield FewLabelsWarning(
                f"only {known:,} of {len(y):,} rows of the {data.names[k]} are labelled, and the "
                f"others are hardly used; ATH.{better} (--preset {better}) estimates their labels "
                "first"
            )


def class_warnings(data: Domains) -> Iterator[ClassesWarning]:
    """Compare the classes of each labelled domain with those of the labelled domains before it."""
    sets = class_sets(data)
    names = list(sets)
    for k in range(1, len(names)):
        ours, others = sets[names[k]], set().union(*(sets[name] for name in names[:k]))
        common, fewest = len(ours & others), min(len(ours), len(others))
        alike = _spelled_alike(ours, others)
        if fewest == 0 or (not alike and common >= max(1.0, _FEW_COMMON * fewest)):
            continue
        shares = "no class" if common == 0 else f"only {common} of {fewest} classes"
        before = " and ".join(names[:k])
        text = (
            f"the labels of {before} and {names[k]} have {shares} in common: {before} has "
            f"{_listed(others)}, {names[k]} has {_listed(ours)}. "
        )
        if alike:
            first, second = alike[0]
            text += (
                f"{len(alike)} differ only in case, blanks, hyphens or underscores, such as "
                f"{first!r} and {second!r}: write them alike"
            )
        else:
            text += "Use the same names in all domains, or leave out the labels of one"
        yield ClassesWarning(text)


def class_sets(data: Domains) -> dict[str, set[Any]]:
    """Return the classes of the domains that have labels."""
    if data.classes is None:
        return {}
    classes = data.classes
    return {
        name: set(classes[np.unique(y[y >= 0])].tolist())
        for name, y in zip(data.names, data.y, strict=True)
        if y is not None
    }


def _spelled_alike(ours: set[Any], others: set[Any]) -> list[tuple[Any, Any]]:
    """Return pairs of different classes that are the same word in another spelling."""
    known = {_plain(name): name for name in sorted(others - ours, key=str)}
    pairs = [(known.get(_plain(name)), name) for name in sorted(ours - others, key=str)]
    return [pair for pair in pairs if pair[0] is not None]


def _plain(name: Any) -> str:
    """Return a class without what often differs between two tables.

    >>> _plain(" Polar_bear"), _plain("polar-Bear")
    ('polar bear', 'polar bear')
    """
    return " ".join(str(name).casefold().replace("_", " ").replace("-", " ").split())


def _listed(classes: set[Any]) -> str:
    shown = ", ".join(map(repr, sorted(classes)[:_SHOWN]))
    return f"{shown}{', ...' if len(classes) > _SHOWN else ''} ({len(classes)})"


def _compares_columns(ath: Any, data: Domains, used: Collection[str]) -> bool:
    """Whether the fit compares rows across domains, and may find out whether it can."""
    if ath.feature_space != "auto" or ath.center == "joint" or ath.source_encoder == "target":
        return False
    if "pairs" in used:
        return False
    if getattr(part(ath, "completion"), "needs_labels", False):
        return not all(y is not None and bool((y >= 0).all()) for y in data.y)
    return bool(getattr(part(ath, "bipartite"), "for_any_rows", False))


def feature_spaces(data: Domains, without_rows: Collection[int] = ()) -> tuple[int, ...]:
    """Number the domains by feature space: equal numbers if the columns may mean the same."""
    spaces: list[int] = []
    for k, X in enumerate(data.X):
        same = (
            spaces[i]
            for i in range(k)
            if not {i, k} & set(without_rows)
            and X.shape[1] == data.X[i].shape[1]
            and columns_correspond(data.X[i], X)
        )
        spaces.append(next(same, k))
    return tuple(spaces)


def _space_warnings(ath: Any, data: Domains, *, linked: bool) -> Iterator[FeatureSpaceWarning]:
    """Warn if columns were found not to correspond, and if nothing else connects the domains."""
    start = part(ath, "start")
    arbitrary = (
        isinstance(start, PCAStart)
        and getattr(part(ath, "bipartite"), "for_any_rows", False)
        and not linked
    )
    widths = [X.shape[1] for X in data.X]
    for k in range(1, len(widths)):
        one_space = ath.feature_space == "same" or (
            ath.feature_space == "auto" and any(data.alike(i, k) for i in range(k))
        )
        if one_space:
            continue
        first, name = data.names[0], data.names[k]
        text = f"{first} and {name} have different feature spaces"
        if ath.feature_space == "auto" and widths[k] in widths[:k]:
            if not arbitrary and ath.completion is None:  # such as a structural start
                continue
            text = (
                f"{first} and {name} have {widths[k]:,} columns each, but these do not correspond: "
                "they come from different models, or are in another order. They are treated as "
                "separate feature spaces; set feature_space='same' if this is wrong"
            )
        elif not arbitrary:
            continue
        if arbitrary:
            text += (
                ". Nothing connects them, and cross-domain search will be no better than chance: "
                "use ATH.structural (--preset structural), or give labels or pairs of some rows"
            )
        yield FeatureSpaceWarning(text)
