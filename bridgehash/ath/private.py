"""Classes without a counterpart: source classes that the target lacks, target rows of new classes.

Label propagation assumes that both domains have the same classes. `find_private` tests this first,
with labels of one domain ("there") and none, or few, of the other ("here"). See "Classes without a
counterpart" in docs/maths.md.

Rows are new if they resemble no class: their cosines to the nearest class mean, averaged over the
neighbourhood, fall into two groups that are far apart, or groups of such rows fit the k-NN graph
better than the labels that propagation gives them (modularity), or labelled rows do not reach some
rows: these cosines are small after a bridge without labels, and labelled rows hardly choose them as
neighbours. In the last two cases the bridge that knows the labels shows which rows are new. The
other rows are tested for classes that they lack: see `lacking`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._core.errors import CounterpartWarning
from .._core.linalg import Array
from ..models.rejector import Rejector
from ..models.training import Domains, Ids
from .coinciding import coincidence
from .groups import grouped
from .lacking import find_lacking
from .likeness import (
    N_VOTERS,
    Space,
    modularity,
    settled_labels,
    short_spread,
    two_groups,
)
from .spreading import Rows, votes

_LEAST_ROWS, _LEAST_PER_CLASS, _LEAST_CLASSES = 100, 10, 4  # with fewer nothing can be told
_LEAST_SURE = 0.45  # agreement between features and bridge
_FAR = 0.45  # between two groups of rows: their cosines, relative to those of the labelled rows
_NEW, _NOT_NEW = 0.15, 0.85  # part of the rows that may be private
_LOWEST, _HARDLY = 0.1, 0.05  # parts of the rows: least cosines, least often chosen
_REACHED = 0.96  # least sum of both after a bridge without labels, if all rows are reached
_MAY_BE = 1.2  # the same with labels: above, no bridge without labels is fitted
_UNLIKE = 0.55  # likeness of new rows is less
_LIMITS = (0.55, 0.7)  # of the likeness of new rows, if the graph decides
_GAIN_OF_ROWS = 0.04  # in modularity
_MEDIUM = 0.8  # resolution of modularity: less than one favours large groups
_TINY = 1e-12

Bridge = Callable[[NDArray[np.bool_], NDArray[np.bool_], bool], tuple[Array, Array]]


class Private(NamedTuple):
    """What has no counterpart in the other domain."""

    classes: NDArray[np.bool_]  # (n_classes,) of the labelled domain
    groups: Ids  # (n,) of the rows here: 0, 1, … for groups of new rows, -1 for the others
    unlikeness: Array | None  # (n,) of the rows here: 0 like a class, 1 like none; None: not known
    doubtful: bool = False  # the classes that are left may not coincide: see `coinciding`

    @property
    def something(self) -> bool:
        """Whether anything was found, or is in doubt."""
        return bool(self.doubtful or self.classes.any() or (self.groups >= 0).any())


class Counterparts(NamedTuple):
    """Which classes the domains have in common."""

    shared: list[Any]
    private: dict[str, list[Any]]  # by domain: classes that no other domain has
    new: dict[str, float]  # by domain: share of the rows that resemble no class of the others
    doubtful: list[str]  # domains whose classes may be others

    @classmethod
    def of(cls, data: Domains) -> Counterparts | None:
        """Compare the labels of all domains; None if fewer than two have any."""
        if data.classes is None or sum(y is not None for y in data.y) < 2:
            return None
        n = len(data.classes)
        present = np.array([_present(y, n) for y in data.y])
        alone = present & (present.sum(axis=0) == 1)
        return cls(
            data.classes[present.sum(axis=0) > 1].tolist(),
            {
                name: data.classes[only].tolist()
                for name, only in zip(data.names, alone, strict=True)
            },
            {
                name: 0.0 if y is None else float((y >= n).mean())
                for name, y in zip(data.names, data.y, strict=True)
            },
            [data.names[k] for k, found in data.private.items() if found.doubtful],
        )


def _present(y: Ids | None, n_classes: int) -> NDArray[np.bool_]:
    return np.isin(np.arange(n_classes), [] if y is None else y)


def warn_of_private(data: Domains) -> None:
    """Warn with `CounterpartWarning` of what was found in domains without labels of all rows."""
    n = 0 if data.classes is None else len(data.classes)
    present = np.array([_present(y, n) for y in data.y])
    for k, found in data.private.items():
        name, new = data.names[k], float((found.groups >= 0).mean())
        if not found.something:
            continue
        told = [f"{new:.0%} of the rows of {name} resemble no class"] if new else []
        if lacking := int((present.any(axis=0) & ~present[k]).sum()):
            told.insert(0, f"{lacking} of {n} classes seem to have no rows in {name}")
        if told:
            told[-1] += ". They keep codes of their own"
        if found.doubtful:
            told.append(f"two ways to estimate the classes of {name} disagree: they may be others")
        warnings.warn(
            f"{'; '.join(told)}. Label a few rows of {name} to be sure, or set "
            "completion=Propagation(private=False) if its classes are the same",
            CounterpartWarning,
            stacklevel=3,
        )


def rejectors(data: Domains, rows: Mapping[str, Any]) -> dict[str, Rejector]:
    """Learn which rows of each tested domain have no counterpart.

    Parameters
    ----------
    data : Domains
        With what was found.
    rows : mapping from names of domains to arrays of shape (n, d)
        What a rejector sees of the training rows: their features, or their codes.
    """
    learned = {}
    for k, found in data.private.items():
        if found.unlikeness is not None and data.names[k] in rows:
            limit = 1.0 - _UNLIKE if (found.groups >= 0).any() else None
            learned[data.names[k]] = Rejector.learned(rows[data.names[k]], found.unlikeness, limit)
    return learned


def find_private(there: Rows, here: Rows, n_classes: int, bridge: Bridge) -> Private:
    """Find classes of a labelled domain that the other one lacks, and rows of the other's own.

    Parameters
    ----------
    there : Rows
        All rows have a label.
    here : Rows
        Some rows may have a label.
    bridge : function of masks of the rows there and here, and of whether the fit knows the labels
        Returns all rows in a space where a fit of these rows has joined the domains.
    """
    classes, groups = np.zeros(n_classes, dtype=bool), np.full(len(here.y), -1)
    if len(groups) < _LEAST_ROWS or len(there.y) < _LEAST_PER_CLASS * n_classes:
        return Private(classes, groups, None)
    labelled, everything = np.ones(len(there.y), dtype=bool), np.ones(len(groups), dtype=bool)
    features, bridged = _spaces(there, here, bridge(labelled, everything, True), n_classes)
    agreement = float((features.label == bridged.label).mean())
    clusters = grouped(features.Y, 2 * n_classes, features.S)
    rest, unlikeness = here, 1.0 - _mean_with_group(bridged.likeness, clusters)
    if agreement < _LEAST_SURE:
        return Private(classes, groups, unlikeness)

    def unlabelled() -> Space:
        return _spaces(there, here, bridge(labelled, everything, False), n_classes)[1]

    likeness = _likeness_if_new(features, bridged, unlabelled)
    new = (likeness < _UNLIKE) & (here.y < 0)
    if _may_be_new(new):
        groups[new] = grouped(here.taken(new).centred, 2 * n_classes)
        unlikeness = 1.0 - _mean_with_group(likeness, clusters)
        rest, everything = here.taken(~new), ~new
        X, Y = bridge(labelled, everything, True)
        features, bridged = _spaces(there, rest, (X, Y[everything]), n_classes)

    def bridged_without(some: NDArray[np.bool_]) -> Space:
        X, Y = bridge(~some[there.y], everything, True)
        return _spaces(there, rest, (X, Y[everything]), n_classes)[1]

    if n_classes < _LEAST_CLASSES:
        return Private(classes, groups, unlikeness)
    fit = coincidence(there, rest, features)
    classes = find_lacking(there, rest, features, bridged, bridged_without, fit.score, fit.clear)
    if classes.any():
        shared = there.taken(~classes[there.y])
        fit = coincidence(shared, rest, Space(shared.centred, shared.y, rest.centred, n_classes))
    if fit.doubtful and fit.new.any():
        classes |= fit.unlike
        more = np.flatnonzero(groups < 0)[fit.new]
        groups[more] = 1 + groups.max() + grouped(rest.taken(fit.new).centred, 2 * n_classes)
    return Private(classes, groups, unlikeness, fit.doubtful)


def _mean_with_group(values: Array, groups: Ids) -> Array:
    """Return the mean of the value of each row and of the mean value of its group."""
    means = np.bincount(groups, values) / np.maximum(np.bincount(groups), 1)
    return np.asarray((values + means[groups]) / 2.0)


def _spaces(
    there: Rows, here: Rows, projections: tuple[Array, Array], n_classes: int
) -> tuple[Space, Space]:
    """Return the rows compared by their features, and by features and projections together."""
    X, Y = (rows.joined_with(H) for rows, H in zip((there, here), projections, strict=True))
    features = Space(there.centred, there.y, here.centred, n_classes)
    return features, Space(X.unit, there.y, Y.unit, n_classes)


def _likeness_if_new(features: Space, bridged: Space, unlabelled: Callable[[], Space]) -> Array:
    """Return how like a class each row is; 1 for all if no group of rows resembles no class.

    Rows are new if the features show two groups, if the graph does, or if labelled rows do not
    reach some rows. If the features leave it open which ones, the bridge that knows the labels
    shows it: it has moved rows of the known classes to their class.
    """
    relative = features.best / np.maximum(features.own[features.label], _TINY)
    groups = two_groups(relative)
    both = _may_be_new(features.likeness < 0.5) and _may_be_new(relative < groups.limit)
    if groups.high - groups.low > _FAR and both:
        return _scaled(relative, groups.limit)
    gains = [_gain(features, bridged, features.likeness < limit) for limit in _LIMITS]
    if max(gains) > _GAIN_OF_ROWS or _some_not_reached(features, bridged, unlabelled):
        return _scaled(bridged.best, two_groups(bridged.best).limit)
    return np.ones(len(relative))


def _some_not_reached(features: Space, bridged: Space, unlabelled: Callable[[], Space]) -> bool:
    """Whether some rows are far from all classes, and hardly chosen by labelled rows.

    A bridge that knows the labels moves all rows to classes, so one without labels decides.
    """
    chosen = float(np.sqrt(np.quantile(features.chosen, _HARDLY)))
    if np.quantile(bridged.best, _LOWEST) + chosen >= _MAY_BE:
        return False
    return bool(np.quantile(unlabelled().best, _LOWEST) + chosen < _REACHED)


def _scaled(values: Array, limit: float) -> Array:
    """Scale values so that those below the limit are new; their order stays, whatever it is."""
    return values * (_UNLIKE / max(limit, _TINY))


def _may_be_new(rows: NDArray[np.bool_]) -> bool:
    return bool(_NEW < rows.mean() < _NOT_NEW)


def _gain(features: Space, bridged: Space, new: NDArray[np.bool_]) -> float:
    """Return what modularity gains if some rows are groups of their own."""
    if not _may_be_new(new):
        return 0.0
    counted = votes(bridged.X, bridged.y, bridged.Y, N_VOTERS, bridged.n_classes)
    labels = settled_labels(bridged.S, short_spread(bridged.S, counted))
    with_groups = labels.copy()
    with_groups[new] = features.n_classes + grouped(features.Y[new], 2 * features.n_classes)
    before, after = (modularity(features.S, y, _MEDIUM) for y in (labels, with_groups))
    return after - before
