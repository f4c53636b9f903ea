"""Learn from known pairs: rows of source and target that show the same thing.

`PartnerSearch` finds partners for rows without one: two rows that are nearest to each other after a
linear map. They are used if they improve that map on held-out pairs. `PairStart` predicts source
rows from target rows and keeps the directions of the source that are predicted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import eigh
from sklearn.base import BaseEstimator

from .._core.arrays import like, to_numpy
from .._core.errors import InputError
from .._core.linalg import (
    Array,
    RidgeSolver,
    itq_rotation,
    majority_sign,
    pca,
    procrustes,
    project_sample,
    random_orthonormal,
    unit_rows,
)
from .._core.validation import Range, Rules
from ..models.feature_maps import drawn_rows, outward
from ..models.training import Ids, TrainingData
from ..neighbors.search import nearest
from .ridge import ridge_path
from .starts import ITQ_ROWS, Known, Start, StartContext

_FOLDS = 3  # one fold is held out
_LEAST_PAIRS = 6  # with fewer, none is held out
_DIRECTIONS = 256  # principal directions used to find partners
_HUB_NEIGHBORS = 10
_CANDIDATES = 100_000  # most source rows among which partners are searched
_ROTATED = 2.0  # ridge of the map that finds partners, for unit rows
_RIDGES = (0.03, 0.1, 0.3, 1.0, 3.0)  # of the prediction, in units of the mean squared norm
_ROTATION = 0.5  # weight of the rotation, compared with the prediction
_FOLLOWED = 1.5  # the same for given codes, whose directions cannot be chosen
_LEAST_VALUE = 1e-3  # directions of a smaller value, relative to the largest, are left out


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


class PartnerSearch(BaseEstimator):
    """Find partners for rows without one, by a linear map learned from the known pairs.

    Parameters
    ----------
    n_rounds : int, default=3
        Rounds of searching, each with the map of all pairs found so far.
    max_rows : int, default=2000
        Target rows without a partner that take part, drawn at random. Partners are searched among
        at most 100,000 source rows.

    Notes
    -----
    Further pairs are used only if they help: two thirds of the known pairs search for partners, and
    the result must increase the mean cosine on the held-out third.
    """

    needs_pairs = True
    _rules: ClassVar[Rules] = {
        "n_rounds": Range(1, kind=Integral),
        "max_rows": Range(1, kind=Integral),
    }

    def __init__(self, n_rounds: int = 3, max_rows: int = 2000) -> None:
        self.n_rounds = n_rounds
        self.max_rows = max_rows

    def complete(
        self, data: TrainingData, *, rng: np.random.RandomState, **_unused: Any
    ) -> TrainingData:
        """Return the data with the known pairs and those found."""
        pairs = checked_pairs(data)
        free_s = np.setdiff1d(np.arange(len(data.X_source)), pairs[:, 0])
        free_t = np.setdiff1d(np.arange(len(data.X_target)), pairs[:, 1])
        if min(len(free_s), len(free_t)) == 0 or len(pairs) < _LEAST_PAIRS:
            return data
        free_t = free_t[drawn_rows(data.X_target[free_t], self.max_rows, rng)]
        if len(free_s) > _CANDIDATES:
            free_s = free_s[drawn_rows(data.X_source[free_s], _CANDIDATES, rng)]
        Z_s, Z_t = _reduced(data.X_source), _reduced(data.X_target)
        partners = _Partners(Z_s, Z_t, free_s, free_t, self.n_rounds)
        if not partners.help(pairs):
            return data
        return replace(data, pairs=np.vstack([pairs, partners.search(pairs)]))


@dataclass(frozen=True)
class _Partners:
    """Partners of unpaired rows, in reduced features."""

    Z_s: Array
    Z_t: Array
    free_s: Ids
    free_t: Ids
    n_rounds: int

    def search(self, pairs: Ids) -> Ids:
        """Return pairs of free rows by the map of the known pairs, refined in rounds."""
        more = pairs[:0]
        for _ in range(self.n_rounds):
            affine = self._map(np.vstack([pairs, more]))
            met = mutual_pairs(affine(self.Z_t[self.free_t]), self.Z_s[self.free_s])
            more = np.column_stack([self.free_s[met[:, 1]], self.free_t[met[:, 0]]])
        return more

    def help(self, pairs: Ids) -> bool:
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
        return Affine.between(self.Z_t[pairs[:, 1]], self.Z_s[pairs[:, 0]], _ROTATED)


def checked_pairs(data: TrainingData) -> Ids:
    """Return pairs that can be learned from, or raise `InputError`."""
    pairs = data.pairs
    if pairs is None or len(pairs) < 2:
        n = 0 if pairs is None else len(pairs)
        raise InputError(f"{n} given; at least 2 are needed to learn from pairs", "pairs")
    for X, rows, name in (
        (data.X_source, pairs[:, 0], "X_source"),
        (data.X_target, pairs[:, 1], "X_target"),
    ):
        if (X[rows] == X[rows[0]]).all():
            raise InputError(f"all paired rows of {name} are equal; pair different rows", "pairs")
    return pairs


def _reduced(X: Array) -> Array:
    """Return unit rows, centred, in their leading principal directions."""
    X = unit_rows(X)
    centred = X - X.mean(axis=0)
    return centred @ pca(centred, _DIRECTIONS)


class PairStart(BaseEstimator):
    """Directions of the source that the target predicts, rotated by ITQ over both domains.

    A ridge regression predicts the source row of a pair from its target row, and the best rotation
    of the target is added. The directions are those in which row and prediction agree most, after
    the variances of the source have been evened out. The target gets the projections of its
    predictions.

    Parameters
    ----------
    evenness : float, default=0.15
        Directions of more than this share of the total variance count hardly more than those of
        this share. Smaller values help if the two models describe different things, larger ones if
        the classes are in the directions of large variance.
    """

    needs_pairs = True
    _rules: ClassVar[Rules] = {"evenness": Range(0, above=True)}

    def __init__(self, evenness: float = 0.15) -> None:
        self.evenness = evenness

    def begin(self, context: StartContext) -> Start:
        """Return linear projections of both domains, of mean magnitude one in the source."""
        if context.pairs is None:
            raise InputError("missing; PairStart needs it", "pairs")
        X_s, X_t = (to_numpy(X).astype(np.float64) for X in (context.X_s, context.X_t))
        M = predictor(X_t[context.pairs[:, 1]], X_s[context.pairs[:, 0]])
        P = self._directions(X_s, X_s[context.pairs[:, 0]], X_t[context.pairs[:, 1]] @ M)
        Q = M @ P
        sizes = [np.linalg.norm(X @ A) / len(X) ** 0.5 for X, A in ((X_s, P), (X_t, Q))]
        even = Q * (sizes[0] / max(sizes[1], np.finfo(float).tiny))  # both domains count alike
        R = random_orthonormal(P.shape[1], context.n_bits, context.rng)
        R = itq_rotation(project_sample([(X_s, P), (X_t, even)], ITQ_ROWS), R)
        scale = float(np.abs(X_s @ P @ R).mean())
        A_s, A_t = (
            like(A @ R / scale, X, X.dtype) for A, X in ((P, context.X_s), (Q, context.X_t))
        )
        return Start(context.X_s @ A_s, context.X_t @ A_t, A_s=A_s, A_t=A_t)

    def follow(self, context: StartContext, known: Known) -> Start:
        """Predict the features of the source, or else its projections, from those of the target."""
        if context.pairs is None:
            raise InputError("missing; PairStart needs it", "pairs")
        rows, X_t = context.pairs[:, 0], to_numpy(context.X_t).astype(np.float64)
        X = X_t[context.pairs[:, 1]]
        if known.linear is None:
            Q = regression(X, to_numpy(known.H)[rows].astype(np.float64))
        else:
            features, A = known.linear
            Y = to_numpy(features(rows)).astype(np.float64)
            Q = predictor(X, Y - Y.mean(axis=0), _FOLLOWED) @ to_numpy(A)
        A_t = like(Q, context.X_t, context.X_t.dtype)
        return Start(known.H, context.X_t @ A_t, A_t=A_t)

    def _directions(self, X_s: Array, X: Array, predicted: Array) -> Array:
        """Return the directions of the source in which X and predicted agree, the best first."""
        values, V = eigh(X_s.T @ X_s / len(X_s), check_finite=False)
        E = (V / np.sqrt(np.maximum(values, 0.0) + self.evenness * values.sum())) @ V.T
        G = (X @ E).T @ (predicted @ E)
        values, V = eigh((G + G.T) / 2.0, check_finite=False)
        if not values[-1] > np.finfo(float).eps * len(X):  # E gives rows about unit variance
            raise InputError(
                "no direction of the source follows the target in the paired rows; pair more rows, "
                "which differ in both domains",
                "pairs",
            )
        P = E @ V[:, values > values[-1] * _LEAST_VALUE][:, ::-1]
        return P * majority_sign(X_s @ P)  # independent of the order of the rows


def predictor(X: Array, Y: Array, rotation: float = _ROTATION) -> Array:
    """Return the map from rows of X to their partners in Y, both centred: regression and rotation.

    The regression keeps of X what predicts Y; its ridge is the one that predicts left-out rows
    best. The best rotation, at the size of Y and a weight of its own, keeps all of X.
    """
    size = float(np.linalg.norm(Y) / max(np.linalg.norm(X), np.finfo(float).tiny))
    return regression(X, Y) + rotation * size * procrustes(X.T @ Y, within_rank=True)


def regression(X: Array, Y: Array) -> Array:
    """Return the ridge regression of Y on X whose ridge predicts left-out rows best."""
    return RidgeSolver(X, _best_ridge(X, Y))(Y)


def _best_ridge(X: Array, Y: Array) -> float:
    ridges = tuple(ridge * float((X**2).sum()) / len(X) for ridge in _RIDGES)
    path = ridge_path(X, Y, np.ones(len(X)), ridges, left_out=True, intercept=True)
    errors = [float(((Y - predicted) ** 2).sum()) for predicted in path]
    return ridges[int(np.argmin(errors))]
