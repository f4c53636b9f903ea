"""Rules for the codes B of the alternation: balanced signs, one word per class, one per pair.

A rule is any object with a method `begin(data, n_bits, alphas, rng)` that returns the `Codes` of a
fit: the first codes, the B-step, and the weight of each row in T1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from sklearn.base import BaseEstimator

from .._core.arrays import array_namespace, like, take_rows, to_numpy
from .._core.errors import InputError
from .._core.linalg import Array
from .._core.validation import Range, Rules
from ..models.base import Ids, TrainingData
from ..neighbors.graphs import one_hot, operator
from .steps import code_step

_REPULSION = 2.0  # energy of two words: exp(_REPULSION * inner product / sqrt(n_bits))
_WORK = 5 * 10**8  # products spent on moving words apart: about a second
_SWEEPS = 30
_ASSIGNED = 2000  # most classes that are assigned anew in each step; it costs their cube
_ENUMERATED = 20  # bits up to which distinct words are drawn from the list of all

Pair = tuple[Array, Array]


class Codes(Protocol):
    """The codes of one fit."""

    weights: tuple[Array | None, Array | None]  # None: all one

    def first(self, H_s: Array, H_t: Array) -> Pair:
        """Return the codes before the first A-step."""

    def step(self, H_s: Array, H_t: Array) -> Pair:
        """Return the codes that minimise T1."""


class BalancedCodes(BaseEstimator):
    """The codes of the paper: each bit is +1 for half of the rows of a domain (Eq. 19).

    Parameters
    ----------
    decorrelation : float, default=0.0
        How far projections are whitened before their signs are taken: 0 is the step of the paper,
        0.5 is full whitening. Without it many bits repeat each other.
    """

    weights = (None, None)
    _rules: ClassVar[Rules] = {"decorrelation": Range(0, 0.5)}

    def __init__(self, decorrelation: float = 0.0) -> None:
        self.decorrelation = decorrelation

    def begin(
        self,
        data: TrainingData,
        n_bits: int,
        alphas: tuple[float, float],
        rng: np.random.RandomState,
    ) -> Codes:
        """Return the same rule for all data."""
        return self

    def first(self, H_s: Array, H_t: Array) -> Pair:
        """Return signs, not balanced, as in Algorithm 1."""
        return signs(H_s), signs(H_t)

    def step(self, H_s: Array, H_t: Array) -> Pair:
        """Return balanced signs."""
        return code_step(H_s, self.decorrelation), code_step(H_t, self.decorrelation)


class ClassCodes(BaseEstimator):
    """One code word per class, the same in both domains; words are far apart.

    Each class has the same total weight in T1, however many rows it has. Rows without a label have
    no weight, and the signs of their projections as codes.
    """

    needs_labels = True

    def begin(
        self,
        data: TrainingData,
        n_bits: int,
        alphas: tuple[float, float],
        rng: np.random.RandomState,
    ) -> Codes:
        """Draw the words of the classes."""
        for y, name in ((data.y_source, "y_source"), (data.y_target, "y_target")):
            if y is None:
                raise InputError("missing; codes='classes' needs it", name)
        y_s, y_t = data.y_source, data.y_target
        assert y_s is not None
        assert y_t is not None
        n_classes = 1 + int(max(y_s.max(), y_t.max()))
        words = far_words(n_classes, n_bits, rng)
        return ClassWords((y_s, y_t), words, (class_weights(y_s), class_weights(y_t)), alphas)


class PairCodes(BaseEstimator):
    """One code per pair: the signs of the summed projections of its rows.

    This is the code that minimises T1 if both rows must have the same. Rows that are connected by
    several pairs share one code; rows without a partner have the signs of their projections.
    """

    needs_pairs = True

    def begin(
        self,
        data: TrainingData,
        n_bits: int,
        alphas: tuple[float, float],
        rng: np.random.RandomState,
    ) -> Codes:
        """Number the groups of connected rows."""
        if data.pairs is None:
            raise InputError("missing; codes='pairs' needs it", "pairs")
        n_s, n_t = data.X_source.shape[0], data.X_target.shape[0]
        rows, columns = data.pairs.T
        edges = coo_array((np.ones(len(rows)), (rows, n_s + columns)), shape=(n_s + n_t,) * 2)
        groups: Ids = connected_components(edges, directed=False)[1].astype(np.intp)
        alone = np.ones(len(groups), dtype=bool)
        alone[rows] = alone[n_s + columns] = False
        groups[~alone] = np.unique(groups[~alone], return_inverse=True)[1]
        groups[alone] = -1
        return GroupCodes((groups[:n_s], groups[n_s:]), int(groups.max()) + 1, alphas)


@dataclass
class GroupCodes:
    """Codes that the rows of a group share."""

    groups: tuple[Ids, Ids]  # of source and target rows; -1: alone
    n_groups: int
    alphas: tuple[float, float]
    weights: tuple[Array | None, Array | None] = (None, None)

    def first(self, H_s: Array, H_t: Array) -> Pair:
        """Return the codes of the first projections."""
        return self.step(H_s, H_t)

    def step(self, H_s: Array, H_t: Array) -> Pair:
        """Return the signs of the weighted sums of each group."""
        sums = sum(
            alpha * _group_sums(H, group, self.n_groups)
            for alpha, H, group in zip(self.alphas, (H_s, H_t), self.groups, strict=True)
        )
        words = signs(np.asarray(sums))
        return _placed(H_s, self.groups[0], words), _placed(H_t, self.groups[1], words)


@dataclass
class ClassWords:
    """Words that are assigned to classes so that T1 is smallest."""

    labels: tuple[Ids, Ids]
    words: Array  # (n_classes, n_bits), row c is the word of class c
    weights: tuple[Array | None, Array | None]
    alphas: tuple[float, float]

    def first(self, H_s: Array, H_t: Array) -> Pair:
        """Assign words by the first projections."""
        return self.step(H_s, H_t)

    def step(self, H_s: Array, H_t: Array) -> Pair:
        """Exchange words between classes so that Σ_c ⟨word of c, weighted sum of H⟩ is largest.

        All words have the same norm, so T1 is then smallest.
        """
        if len(self.words) <= _ASSIGNED:
            sums = sum(
                alpha * _group_sums(H, y, len(self.words), w)
                for alpha, H, y, w in zip(
                    self.alphas, (H_s, H_t), self.labels, self.weights, strict=True
                )
            )
            self.words = self.words[linear_sum_assignment(sums @ self.words.T, maximize=True)[1]]
        words = self.words
        return _placed(H_s, self.labels[0], words), _placed(H_t, self.labels[1], words)


def _group_sums(H: Array, groups: Ids, n_groups: int, weights: Array | None = None) -> Array:
    """Return the weighted sum of the rows of each group; -1 is no group."""
    members = one_hot(groups, n_groups)
    if weights is not None:
        members = members.multiply(weights[:, None]).tocsr()
    return to_numpy(operator(members.T.tocsr()) @ H)


def _placed(H: Array, groups: Ids, words: Array) -> Array:
    """Return the word of the group of each row, and signs for rows without a group."""
    placed = take_rows(like(words, H, H.dtype), groups)
    return array_namespace(H).where(like(groups >= 0, H)[:, None], placed, signs(H))


def signs(H: Array) -> Array:
    """Return +1 where H is positive and -1 elsewhere, in the type of H."""
    return 2.0 * array_namespace(H).astype(H > 0, H.dtype) - 1.0


def class_weights(y: Ids) -> Array:
    """Return row weights with the same sum for each class; they sum to the number of labelled rows.

    >>> class_weights(np.array([0, 0, 0, 1, -1]))
    array([0.66666667, 0.66666667, 0.66666667, 2.        , 0.        ])
    """
    known = y >= 0
    counts = np.bincount(y[known])
    share = known.sum() / max(np.count_nonzero(counts), 1)
    weights = np.zeros(len(y))
    weights[known] = share / counts[y[known]]
    return weights


def far_words(n_words: int, n_bits: int, rng: np.random.RandomState) -> Array:
    """Return words of ±1 that are far apart: random words that repel each other.

    Single bits are flipped while Σ exp(2 ⟨u, v⟩ / √n_bits) over all pairs of words falls.
    Words are distinct if there are enough of them.

    >>> words = far_words(2, 3, np.random.RandomState(0))
    >>> words[0] + words[1]
    array([0., 0., 0.])
    """
    words = _drawn_words(n_words, n_bits, rng)
    t = 2.0 * _REPULSION / np.sqrt(n_bits)  # change of the exponent if a bit is flipped
    left = _WORK // (n_words * n_bits) if n_words > 1 else 0
    for _ in range(_SWEEPS):
        moved = 0
        for i in range(min(n_words, left)):
            flips = _flip(words, i, t, min(left, n_bits))
            moved, left = moved + flips, left - 1 - flips
        if not moved:
            break
    return words


def _drawn_words(n_words: int, n_bits: int, rng: np.random.RandomState) -> Array:
    if n_bits <= _ENUMERATED:
        distinct = n_words <= 2**n_bits
        numbers = rng.choice(2**n_bits, n_words, replace=not distinct)
        bits = numbers[:, None] >> np.arange(n_bits) & 1
    else:
        bits = rng.randint(2, size=(n_words, n_bits))
        while len(kept := np.unique(bits, axis=0)) < n_words:
            more = rng.randint(2, size=(n_words - len(kept), n_bits))
            bits = np.vstack([kept, more])
    return 2.0 * bits - 1.0


def _flip(words: Array, i: int, t: float, most: int) -> int:
    """Flip bits of word i while the energy falls, at most so many; return how many."""
    word = words[i]
    for flips in range(most):
        inner = words @ word
        inner[i] = -np.inf
        w = np.exp(t / 2.0 * (inner - inner.max()))
        change = (np.cosh(t) - 1.0) * w.sum() - np.sinh(t) * word * (w @ words)
        near = words[inner == len(word) - 2]  # a flip would make two words equal
        change[(near != word).any(axis=0)] = np.inf
        best = int(change.argmin())
        if change[best] >= -1e-12 * w.sum():
            return flips
        word[best] = -word[best]
    return most
