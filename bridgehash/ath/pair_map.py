"""Map the target into the feature space of the source, learned from known pairs.

A few pairs determine a rotation, but not a whole matrix; many do. The map is therefore a ridge
regression whose penalty pulls towards the best rotation instead of zero. Among target rows without
a known partner the map finds further pairs: two rows that are nearest to each other. They are used
if they improve the map on held-out pairs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Integral
from typing import ClassVar

import numpy as np
from sklearn.base import BaseEstimator

from .._core.errors import InputError
from .._core.linalg import Array, RidgeSolver, pca, procrustes, unit_rows
from .._core.validation import Range, Rules
from ..models.base import Ids, TrainingData
from ..models.encoder import LinearEncoder
from ..models.feature_maps import UnitRows, drawn_rows, outward, unit_row_map
from ..neighbors.search import nearest

_FOLDS = 3  # one fold is held out
_LEAST_PAIRS = 6  # with fewer, none is held out
_DIRECTIONS = 256  # principal directions used to find partners
_HUB_NEIGHBORS = 10


def towards_procrustes(X: Array, Y: Array, ridge: float) -> Array:
    """Solve min ‖XM - Y‖² + ridge ‖M - Q‖², where Q is the best rotation for the pairs.

    X and Y are centred. A small ridge gives the least-squares map nearest to Q, a large one Q.

    >>> towards_procrustes(np.array([[1.0], [-1.0]]), np.array([[3.0], [-3.0]]), ridge=2.0)
    array([[2.]])
    """
    Q = procrustes(X.T @ Y, within_rank=True)
    return Q + RidgeSolver(X, ridge)(Y - X @ Q)


def mutual_pairs(X: Array, Y: Array, n_neighbors: int = _HUB_NEIGHBORS) -> Ids:
    """Return rows (of X, of Y) that are each other's nearest by cross-domain similarity (CSLS).

    The similarity of x and y is 2 cos(x, y) - c(x) - c(y), with c the mean cosine of a row to its
    nearest rows on the other side (Conneau et al. 2018), so that a hub is nobody's partner. On unit
    rows the most similar row is the nearest row after adding the coordinate √c.

    >>> mutual_pairs(np.eye(3)[:2], np.eye(3)[[2, 1, 0]], n_neighbors=1)
    array([[0, 2],
           [1, 1]])
    """
    X, Y = unit_rows(X), unit_rows(Y)
    there = _best(X, Y, _crowd(Y, X, n_neighbors))
    back = _best(Y, X, _crowd(X, Y, n_neighbors))
    rows = np.flatnonzero(back[there] == np.arange(len(X)))
    return np.column_stack([rows, there[rows]])


def _crowd(X: Array, Y: Array, n_neighbors: int) -> Array:
    """Return the mean cosine of each unit row of X to its nearest rows of Y."""
    F, _ = nearest(X, Y, min(n_neighbors, len(Y)))
    return 1.0 - F.mean(axis=1) / 2.0


def _best(X: Array, Y: Array, crowd: Array) -> Ids:
    """Return argmax over y of 2 cos(x, y) - c(y), as argmin of ‖x - y‖² + c(y)."""
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
        """Learn the map from rows of X to their partners in Y, centred on the pairs."""
        mean, offset = X.mean(axis=0), Y.mean(axis=0)
        return cls(mean, towards_procrustes(X - mean, Y - offset, ridge), offset)

    def __call__(self, X: Array) -> Array:
        return (X - self.mean) @ self.matrix + self.offset

    def before(self, encoder: LinearEncoder, unit_rows: list[UnitRows]) -> LinearEncoder:
        """Return an encoder of raw rows from one of mapped rows."""
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
        """Return encoders of raw rows from those of mapped rows."""
        own = LinearEncoder(source.projection, source.mean, source.scale, self.unit_rows[0])
        return own, self.affine.before(target, self.unit_rows[1])


class PairMap(BaseEstimator):
    """Map the target rows into the space of the source by a map learned from pairs.

    Parameters
    ----------
    ridge : float, default=2.0
        Strength of the pull towards the best rotation, for unit rows. Small values preserve the
        neighbours of the old model, large values the knowledge of the new one.
    n_rounds : int, default=3
        Rounds of searching partners for unpaired rows; 0 uses the known pairs only.
    max_rows : int, default=2000
        Unpaired target rows used in this search, drawn at random.

    Notes
    -----
    Further pairs are used only if they help: two thirds of the known pairs search for partners, and
    the result must increase the mean cosine on the held-out third.
    """

    needs_pairs = True
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
        """Return both domains in one space, with the pairs that were used."""
        dtype = np.result_type(data.X_source, data.X_target)
        maps_s, X_s = unit_row_map(data.X_source.astype(dtype, copy=False), unit_rows)
        maps_t, X_t = unit_row_map(data.X_target.astype(dtype, copy=False), unit_rows)
        pairs = checked(data.pairs, X_s, X_t)
        pairs = np.vstack([pairs, self._further(X_s, X_t, pairs, rng)])
        affine = Affine.between(X_t[pairs[:, 1]], X_s[pairs[:, 0]], self.ridge)
        carried = replace(data, X_source=X_s, X_target=affine(X_t), pairs=pairs)
        return MappedDomains(carried, affine, (maps_s, maps_t))

    def _further(self, X_s: Array, X_t: Array, pairs: Ids, rng: np.random.RandomState) -> Ids:
        """Return pairs of unpaired rows, if a trial shows that they help."""
        free_s = np.setdiff1d(np.arange(len(X_s)), pairs[:, 0])
        free_t = np.setdiff1d(np.arange(len(X_t)), pairs[:, 1])
        if min(len(free_s), len(free_t), self.n_rounds) == 0 or len(pairs) < _LEAST_PAIRS:
            return pairs[:0]
        free_t = free_t[drawn_rows(X_t[free_t], self.max_rows, rng)]
        partners = _PartnerSearch(
            _reduced(X_s), _reduced(X_t), free_s, free_t, self.ridge, self.n_rounds
        )
        return partners.search(pairs) if partners.helps(pairs) else pairs[:0]


@dataclass(frozen=True)
class _PartnerSearch:
    """Search for partners of unpaired rows, in reduced features."""

    Z_s: Array
    Z_t: Array
    free_s: Ids
    free_t: Ids
    ridge: float
    n_rounds: int

    def search(self, pairs: Ids) -> Ids:
        """Return pairs of free rows by the map of the known pairs, refined in rounds."""
        more = pairs[:0]
        for _ in range(self.n_rounds):
            affine = self._map(np.vstack([pairs, more]))
            met = mutual_pairs(affine(self.Z_t[self.free_t]), self.Z_s[self.free_s])
            more = np.column_stack([self.free_s[met[:, 1]], self.free_t[met[:, 0]]])
        return more

    def helps(self, pairs: Ids) -> bool:
        """Whether pairs found with two thirds of the known ones improve the held-out third."""
        order = outward(self.Z_s[pairs[:, 0]])
        held, rest = pairs[order[::_FOLDS]], pairs[np.delete(order, np.s_[::_FOLDS])]
        with_more = np.vstack([rest, self.search(rest)])
        return self.closeness(held, with_more) > self.closeness(held, rest)

    def closeness(self, held: Ids, pairs: Ids) -> float:
        """Return the mean cosine of held-out pairs under the map of the others."""
        mapped, partners = self._map(pairs)(self.Z_t[held[:, 1]]), self.Z_s[held[:, 0]]
        return float((unit_rows(mapped) * unit_rows(partners)).sum(axis=1).mean())

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


def _reduced(X: Array) -> Array:
    """Return centred rows in their leading principal directions."""
    centred = X - X.mean(axis=0)
    return centred @ pca(centred, _DIRECTIONS)
