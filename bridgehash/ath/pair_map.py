"""From known pairs to one space: a map for the rows of the target, and further pairs.

Few pairs tell a rotation apart from others but not a whole matrix; many do. So the map is a ridge
regression whose penalty pulls towards the best rotation in place of zero. Where the target holds
rows whose partners are not known, the map itself finds some: two rows that are each other's
nearest. They are kept if held-out pairs say that they help.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Integral
from typing import ClassVar

import numpy as np
from sklearn.base import BaseEstimator

from .._core.errors import InputError
from .._core.linalg import Array, RidgeSolver, pca, procrustes
from .._core.validation import Range, Rules
from ..models.base import Ids, TrainingData
from ..models.encoder import LinearEncoder
from ..models.feature_maps import UnitRows, drawn_rows, outward
from ..neighbors.search import nearest

_FOLDS = 3  # one of them is held out
_LEAST_PAIRS = 6  # from which on some can be held out
_DIRECTIONS = 256  # principal directions in which partners are looked for
_HUB_NEIGHBORS = 10


def towards_procrustes(X: Array, Y: Array, ridge: float) -> Array:
    """argmin ‖XM - Y‖² + ridge ‖M - Q‖², Q the rotation that `procrustes` finds for the pairs.

    X and Y are centred. Without a ridge to speak of this is the least-squares map nearest to Q, at
    a large one Q itself.

    >>> towards_procrustes(np.array([[1.0], [-1.0]]), np.array([[3.0], [-3.0]]), ridge=2.0)
    array([[2.]])
    """
    Q = procrustes(X.T @ Y, within_rank=True)
    return Q + RidgeSolver(X, ridge)(Y - X @ Q)


def mutual_pairs(X: Array, Y: Array, n_neighbors: int = _HUB_NEIGHBORS) -> Ids:
    """Rows (of X, of Y) that are each other's nearest, by cosines less those of a crowd (CSLS).

    The closeness of x and y is 2 cos(x, y) - c(x) - c(y), c the mean cosine of a row to its nearest
    on the other side (Conneau et al. 2018), so that a row near to all is nobody's partner. On
    unit rows the nearest by it is a nearest row with one coordinate more, √c.

    >>> mutual_pairs(np.eye(3)[:2], np.eye(3)[[2, 1, 0]], n_neighbors=1)
    array([[0, 2],
           [1, 1]])
    """
    X, Y = UnitRows().fit_transform(X), UnitRows().fit_transform(Y)
    there = _best(X, Y, _crowd(Y, X, n_neighbors))
    back = _best(Y, X, _crowd(X, Y, n_neighbors))
    rows = np.flatnonzero(back[there] == np.arange(len(X)))
    return np.column_stack([rows, there[rows]])


def _crowd(X: Array, Y: Array, n_neighbors: int) -> Array:
    """Mean cosine of each unit row of X to its nearest rows of Y."""
    F, _ = nearest(X, Y, min(n_neighbors, len(Y)))
    crowd: Array = 1.0 - F.mean(axis=1) / 2.0
    return crowd


def _best(X: Array, Y: Array, crowd: Array) -> Ids:
    """argmax over y of 2 cos(x, y) - c(y), by ‖x - y‖² + c(y) = 2 - 2 cos(x, y) + c(y)."""
    further = np.sqrt(np.maximum(crowd - crowd.min(), 0.0)).astype(Y.dtype)
    still = np.zeros(len(X), dtype=X.dtype)
    _, columns = nearest(np.column_stack([X, still]), np.column_stack([Y, further]), 1)
    return columns[:, 0]


@dataclass(frozen=True)
class Affine:
    """x ↦ (x - mean) matrix + offset."""

    mean: Array
    matrix: Array
    offset: Array

    @classmethod
    def between(cls, X: Array, Y: Array, ridge: float) -> Affine:
        """The map from rows of X to their partners in Y, both around the means of the pairs."""
        mean, offset = X.mean(axis=0), Y.mean(axis=0)
        return cls(mean, towards_procrustes(X - mean, Y - offset, ridge), offset)

    def __call__(self, X: Array) -> Array:
        return (X - self.mean) @ self.matrix + self.offset

    def before(self, encoder: LinearEncoder, unit_rows: list[UnitRows]) -> LinearEncoder:
        """The encoder of mapped rows as one of raw rows."""
        intercept = (self.offset - encoder.mean) @ (encoder.projection / encoder.scale)
        projection = self.matrix @ encoder.projection
        return LinearEncoder(projection, self.mean, encoder.scale, unit_rows, intercept)


@dataclass(frozen=True)
class MappedDomains:
    """Both domains in the space of the source, and the way back to encoders of raw rows."""

    data: TrainingData
    affine: Affine
    unit_rows: tuple[list[UnitRows], list[UnitRows]]  # of source and target

    def encoders(
        self, source: LinearEncoder, target: LinearEncoder
    ) -> tuple[LinearEncoder, LinearEncoder]:
        """Encoders of raw rows from those of carried ones."""
        own = LinearEncoder(source.projection, source.mean, source.scale, self.unit_rows[0])
        return own, self.affine.before(target, self.unit_rows[1])


class PairMap(BaseEstimator):
    """Carries the target's rows into the space of the source by a map learned from pairs.

    Parameters
    ----------
    ridge : float, default=2.0
        How strongly the map is held at the best rotation (`towards_procrustes`), for rows of
        unit norm. Small: faithful to the old model's neighbours. Large: to what the new one knows.
    n_rounds : int, default=3
        Of looking for partners of rows without one (`mutual_pairs`); 0 keeps to the known pairs.
    max_rows : int, default=2000
        Rows of the target without a partner that take part in this, drawn at random.

    Notes
    -----
    What is found is used only where it helps. A third of the known pairs is held out, the others
    look for partners, and what they find must bring them closer to that third, by mean cosine.
    """

    _rules: ClassVar[Rules] = {
        "ridge": Range(0, above=True),
        "n_rounds": Range(0, kind=Integral),
        "max_rows": Range(1, kind=Integral),
    }

    def __init__(self, ridge: float = 2.0, n_rounds: int = 3, max_rows: int = 2000) -> None:
        self.ridge = ridge
        self.n_rounds = n_rounds
        self.max_rows = max_rows

    def map_target(
        self, data: TrainingData, *, unit_rows: bool, rng: np.random.RandomState
    ) -> MappedDomains:
        """Both domains in one space, with the pairs that were used."""
        dtype = np.result_type(data.X_source, data.X_target)
        maps_s, X_s = _unit(data.X_source.astype(dtype, copy=False), unit_rows)
        maps_t, X_t = _unit(data.X_target.astype(dtype, copy=False), unit_rows)
        pairs = checked(data.pairs, X_s, X_t)
        pairs = np.vstack([pairs, self._further(X_s, X_t, pairs, rng)])
        affine = Affine.between(X_t[pairs[:, 1]], X_s[pairs[:, 0]], self.ridge)
        carried = replace(data, X_source=X_s, X_target=affine(X_t), pairs=pairs)
        return MappedDomains(carried, affine, (maps_s, maps_t))

    def _further(self, X_s: Array, X_t: Array, pairs: Ids, rng: np.random.RandomState) -> Ids:
        """Pairs of rows that the known ones do not name, where a trial says that they help."""
        free_s = np.setdiff1d(np.arange(len(X_s)), pairs[:, 0])
        free_t = np.setdiff1d(np.arange(len(X_t)), pairs[:, 1])
        if min(len(free_s), len(free_t), self.n_rounds) == 0 or len(pairs) < _LEAST_PAIRS:
            return pairs[:0]
        free_t = free_t[drawn_rows(X_t[free_t], self.max_rows, rng)]
        search = _Search(_reduced(X_s), _reduced(X_t), free_s, free_t, self.ridge, self.n_rounds)
        return search.found(pairs) if search.helps(pairs) else pairs[:0]


@dataclass(frozen=True)
class _Search:
    """Rows without a partner in reduced features, and how partners are looked for."""

    Z_s: Array
    Z_t: Array
    free_s: Ids
    free_t: Ids
    ridge: float
    n_rounds: int

    def found(self, pairs: Ids) -> Ids:
        """Pairs of free rows by the map that known pairs give, then by that of both, and so on."""
        found = pairs[:0]
        for _ in range(self.n_rounds):
            affine = self._map(np.vstack([pairs, found]))
            met = mutual_pairs(affine(self.Z_t[self.free_t]), self.Z_s[self.free_s])
            found = np.column_stack([self.free_s[met[:, 1]], self.free_t[met[:, 0]]])
        return found

    def helps(self, pairs: Ids) -> bool:
        """Does what two thirds of the pairs find bring them closer to the last third?"""
        order = outward(self.Z_s[pairs[:, 0]])
        held, rest = pairs[order[::_FOLDS]], pairs[np.delete(order, np.s_[::_FOLDS])]
        with_found = np.vstack([rest, self.found(rest)])
        return self.closeness(held, with_found) > self.closeness(held, rest)

    def closeness(self, held: Ids, pairs: Ids) -> float:
        """Mean cosine of held-out pairs behind the map of others."""
        mapped, partners = self._map(pairs)(self.Z_t[held[:, 1]]), self.Z_s[held[:, 0]]
        cosines: Array = (
            UnitRows().fit_transform(mapped) * UnitRows().fit_transform(partners)
        ).sum(axis=1)
        return float(cosines.mean())

    def _map(self, pairs: Ids) -> Affine:
        return Affine.between(self.Z_t[pairs[:, 1]], self.Z_s[pairs[:, 0]], self.ridge)


def checked(pairs: Ids | None, X_s: Array, X_t: Array) -> Ids:
    """Return pairs that a map can be learned from, or raise `InputError`."""
    if pairs is None or len(pairs) < 2:
        n = 0 if pairs is None else len(pairs)
        raise InputError(f"{n} given; at least 2 are needed to learn a map", "pairs")
    for X, rows, name in ((X_s, pairs[:, 0], "X_source"), (X_t, pairs[:, 1], "X_target")):
        if (X[rows] == X[rows[0]]).all():
            raise InputError(f"all paired rows of {name} are equal; pair different rows", "pairs")
    return pairs


def _unit(X: Array, wanted: bool) -> tuple[list[UnitRows], Array]:
    if not wanted:
        return [], X
    unit = UnitRows().fit(X)
    return [unit], unit.transform(X)


def _reduced(X: Array) -> Array:
    """Rows around their mean in their leading principal directions."""
    centred = X - X.mean(axis=0)
    return centred @ pca(centred, _DIRECTIONS)
