"""Rules for the codes B of the alternation: balanced signs, one word per class, one per pair.

A rule is any object with a method `begin(data, n_bits, alphas, rng)` that returns the `Codes` of a
fit: the first codes, the B-step, and the weight of each row in T1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from sklearn.base import BaseEstimator

from .._core.arrays import array_namespace, like, take_rows, to_numpy
from .._core.errors import InputError
from .._core.linalg import Array
from .._core.validation import Range, Rules
from ..models.training import Domains, Ids
from ..neighbors.graphs import one_hot, operator
from .steps import code_step

_TINY = 1e-30
_REPULSION = 2.0  # energy of two words: exp(_REPULSION * inner product / sqrt(n_bits))
_WORK = 5 * 10**8  # products spent on moving words apart: about a second
_SWEEPS = 30
_ASSIGNED = 2000  # most classes that are assigned anew in each step; it costs their cube
_CANDIDATES = 1000  # random words of which a further one is chosen
_ENUMERATED = 20  # bits up to which distinct words are drawn from the list of all


class Codes(Protocol):
    """The codes of one fit; lists have one entry per domain."""

    weights: Sequence[Array | None]  # of the rows in T1; None: all one

    def first(self, H: Sequence[Array]) -> list[Array]:
        """Return the codes before the first A-step."""

    def step(self, H: Sequence[Array]) -> list[Array]:
        """Return the codes that minimise T1."""


class BalancedCodes(BaseEstimator):
    """The codes of the paper: each bit is +1 for half of the rows of a domain (Eq. 19).

    If a domain has given codes, each bit is +1 for the share of rows that it has there.

    Parameters
    ----------
    decorrelation : float, default=0.0
        How far projections are whitened before their signs are taken: 0 is the step of the paper,
        0.5 is full whitening. Without it many bits repeat each other. Given codes are not whitened.
    words : float, default=0.0
        Share of the bits that hold the word of the class instead: see `ClassCodes`. A row whose
        class is estimated has the mean of all words, weighted by its memberships; this minimises
        the expected T1. Words keep classes apart, balanced signs forgive wrong estimates. Given
        codes leave no bits for words.
    lacking_weight : float, default=0.0
        Least weight in T1, relative to the domain with the largest α, of rows whose class was found
        to be lacking in another domain (see `Propagation.private`). The bridge term does not hold
        them, so a small α leaves them among the codes of other classes. 0 is the step of the paper.
    """

    _rules: ClassVar[Rules] = {
        "decorrelation": Range(0, 0.5),
        "words": Range(0, 1),
        "lacking_weight": Range(0),
    }

    def __init__(
        self, decorrelation: float = 0.0, words: float = 0.0, lacking_weight: float = 0.0
    ) -> None:
        self.decorrelation = decorrelation
        self.words = words
        self.lacking_weight = lacking_weight

    def begin(
        self, data: Domains, n_bits: int, alphas: Sequence[float], rng: np.random.RandomState
    ) -> Codes:
        """Return the rule for these domains."""
        weights = [
            _lacking_weights(data, k, self.lacking_weight * max(alphas) / max(alpha, _TINY))
            for k, alpha in enumerate(alphas)
        ]
        codes = BalancedSigns(self.decorrelation, self.shares(data), weights)
        n_words = round(self.words * n_bits)
        if not n_words or codes.shares is not None:
            return codes
        labels = _labels(data, "BalancedCodes(words=...)")
        words = _class_words(data, labels, n_words, alphas, rng)
        return WordsAndSigns(words, self._members(data, labels, words), codes, weights)

    @staticmethod
    def _members(data: Domains, labels: Sequence[Ids], words: ClassWords) -> list[Array]:
        """Return the memberships of all rows, given or estimated."""
        n, members = len(words.words), []
        for k, y in enumerate(labels):
            M = data.members[k] if k in data.members else one_hot(y, n).toarray()
            members.append(np.pad(M, ((0, 0), (0, n - M.shape[1]))))
        return members

    def shares(self, data: Domains) -> Array | None:
        """Return the share of +1 in each bit of the given codes; None if there are none."""
        given = [(B > 0).mean(axis=0) for B in data.codes if B is not None]
        return np.mean(given, axis=0) if given else None


def _lacking_weights(data: Domains, k: int, least: float) -> Array | None:
    """Return the weight of each row of a domain, or None: all one."""
    y, found = data.y[k], [data.private[j].classes for j in data.private if j != k]
    if y is None or not found or least <= 1.0:
        return None
    alone = np.isin(y, np.flatnonzero(np.any(found, axis=0)))
    return np.where(alone, least, 1.0) if alone.any() else None


@dataclass
class BalancedSigns:
    """Signs by the median of each bit, or by the quantile that gives its share."""

    decorrelation: float
    shares: Array | None  # of +1 in each bit; None: one half
    weights: Sequence[Array | None]

    def first(self, H: Sequence[Array]) -> list[Array]:
        """Return signs, not balanced, as in Algorithm 1."""
        return [signs(H_k) for H_k in H]

    def step(self, H: Sequence[Array]) -> list[Array]:
        """Return balanced signs."""
        if self.shares is None:
            return [code_step(H_k, self.decorrelation) for H_k in H]
        return [signs(H_k - like(limits(H_k, self.shares), H_k, H_k.dtype)) for H_k in H]


@dataclass
class WordsAndSigns:
    """Words of classes in the first bits, signs in the others."""

    words: ClassWords
    members: Sequence[Array]  # of the rows of each domain, (n, n_classes); 0: class not known
    signs: BalancedSigns
    weights: Sequence[Array | None]

    def first(self, H: Sequence[Array]) -> list[Array]:
        """Assign words by the first projections; return words and signs."""
        self.words.step([H_k[:, : self.n_words] for H_k in H])
        return self._joined(H, self.signs.first)

    def step(self, H: Sequence[Array]) -> list[Array]:
        """Return the same words, and balanced signs."""
        return self._joined(H, self.signs.step)

    @property
    def n_words(self) -> int:
        """Return the number of bits that hold words."""
        return int(self.words.words.shape[1])

    def _joined(
        self, H: Sequence[Array], rule: Callable[[Sequence[Array]], list[Array]]
    ) -> list[Array]:
        expected = [M @ self.words.words for M in self.members]  # the mean over the classes
        others = rule([H_k[:, self.n_words :] for H_k in H])
        return [
            array_namespace(B).concat([like(mean, B, B.dtype), B], axis=1)
            for mean, B in zip(expected, others, strict=True)
        ]


def limits(H: Array, shares: Array | None) -> Array:
    """Return the value in each column that a given share of its values exceeds; None: one half."""
    above = np.full(H.shape[1], 0.5) if shares is None else shares
    columns = zip(to_numpy(H).T, 1.0 - above, strict=True)
    return np.array([np.quantile(column, share) for column, share in columns])


class ClassCodes(BaseEstimator):
    """One code word per class, the same in all domains; words are far apart.

    Each class has the same total weight in T1, however many rows it has. Rows without a label have
    no weight, and the signs of their projections as codes. A class that has given codes, or codes
    of an earlier model, keeps the majority of each of their bits as its word.
    """

    needs_labels = True

    def begin(
        self, data: Domains, n_bits: int, alphas: Sequence[float], rng: np.random.RandomState
    ) -> Codes:
        """Draw the words of the classes."""
        return _class_words(data, _labels(data, "codes='classes'"), n_bits, alphas, rng)


def _labels(data: Domains, needed_by: str) -> list[Ids]:
    """Return the labels of all domains."""
    for y, name in zip(data.y, data.names, strict=True):
        if y is None:
            raise InputError(f"missing; {needed_by} needs it", f"y_{name}")
    return [y for y in data.y if y is not None]


def _class_words(
    data: Domains,
    labels: Sequence[Ids],
    n_bits: int,
    alphas: Sequence[float],
    rng: np.random.RandomState,
) -> ClassWords:
    """Draw a word for each class, or take it from the first bits of its given codes."""
    n_classes = 1 + max(int(y.max()) for y in labels)
    fresh = far_words(n_classes, n_bits, rng)
    kept = np.zeros(n_classes, dtype=bool)
    sums = np.zeros((n_classes, n_bits))
    frozen = any(B is not None for B in data.codes)
    for B, y in zip(data.codes if frozen else data.earlier, labels, strict=False):
        if B is not None:
            sums += group_sums(B[:, :n_bits], y, n_classes, class_weights(y))
            kept |= np.bincount(y[y >= 0], minlength=n_classes) > 0
    words = np.where(kept[:, None], signs(sums), fresh)
    if not frozen:
        kept = _first_of_equal(words, kept)
    if kept.any():
        words[~kept] = further_words(words[kept], int((~kept).sum()), rng)
    return ClassWords(labels, words, [class_weights(y) for y in labels], alphas, kept)


def _first_of_equal(words: Array, kept: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Let only the first of several classes with the same word keep it: they were one class."""
    _, first = np.unique(words[kept], axis=0, return_index=True)
    own = np.zeros_like(kept)
    own[np.flatnonzero(kept)[first]] = True
    return own


def further_words(words: Array, n: int, rng: np.random.RandomState) -> Array:
    """Return n more words, each the one of many random words that is farthest from all others."""
    n_bits = words.shape[1]
    for _ in range(n):
        drawn = 2.0 * rng.randint(2, size=(_CANDIDATES, n_bits)) - 1.0
        nearest = (drawn @ words.T).max(axis=1)
        words = np.vstack([words, drawn[nearest.argmin()]])
    return words[len(words) - n :]


class PairCodes(BaseEstimator):
    """One code per pair: the signs of the summed projections of its rows.

    This is the code that minimises T1 if both rows must have the same. Rows that are connected by
    several pairs share one code; rows without a partner have the signs of their projections. The
    partners of a row with a given code have that code.
    """

    needs_pairs = True

    def begin(
        self, data: Domains, n_bits: int, alphas: Sequence[float], rng: np.random.RandomState
    ) -> Codes:
        """Number the groups of connected rows."""
        if data.pairs is None:
            raise InputError("missing; codes='pairs' needs it", "pairs")
        sizes = [X.shape[0] for X in data.X]
        ends = np.cumsum(sizes)
        rows = np.where(data.pairs >= 0, data.pairs + (ends - sizes), -1)
        first = np.argmax(rows >= 0, axis=1)  # each further row of a pair is joined with its first
        heads = np.repeat(rows[np.arange(len(rows)), first], rows.shape[1])
        known = rows.ravel() >= 0
        edges = (heads[known], rows.ravel()[known])
        shape = (int(ends[-1]),) * 2
        graph = coo_array((np.ones(known.sum()), edges), shape=shape)
        groups: Ids = connected_components(graph, directed=False)[1].astype(np.intp)
        alone = np.ones(len(groups), dtype=bool)
        alone[edges[1]] = False
        groups[~alone] = np.unique(groups[~alone], return_inverse=True)[1]
        groups[alone] = -1
        by_domain = np.split(groups, ends[:-1])
        return GroupCodes(by_domain, int(groups.max()) + 1, alphas, [None] * len(sizes), data.codes)


@dataclass
class GroupCodes:
    """Codes that the rows of a group share."""

    groups: Sequence[Ids]  # of the rows of each domain; -1: alone
    n_groups: int
    alphas: Sequence[float]
    weights: Sequence[Array | None]
    given: Sequence[Array | None] = ()

    def first(self, H: Sequence[Array]) -> list[Array]:
        """Return the codes of the first projections."""
        return self.step(H)

    def step(self, H: Sequence[Array]) -> list[Array]:
        """Return the signs of the weighted sums of each group; given codes decide alone."""
        known = [
            (1.0, B, g) for B, g in zip(self.given, self.groups, strict=False) if B is not None
        ]
        words = signs(self._sums(list(zip(self.alphas, H, self.groups, strict=True))))
        if known:
            sums = self._sums(known)
            words = np.where(sums != 0.0, signs(sums), words)
        return [_placed(H_k, group, words) for H_k, group in zip(H, self.groups, strict=True)]

    def _sums(self, parts: Sequence[tuple[float, Array, Ids]]) -> Array:
        return np.asarray(
            sum(alpha * group_sums(H, group, self.n_groups) for alpha, H, group in parts)
        )


@dataclass
class ClassWords:
    """Words that are assigned to classes so that T1 is smallest."""

    labels: Sequence[Ids]
    words: Array  # (n_classes, n_bits), row c is the word of class c
    weights: Sequence[Array | None]
    alphas: Sequence[float]
    kept: NDArray[np.bool_]  # classes that keep their word

    def first(self, H: Sequence[Array]) -> list[Array]:
        """Assign words by the first projections."""
        return self.step(H)

    def step(self, H: Sequence[Array]) -> list[Array]:
        """Exchange words between classes so that Σ_c ⟨word of c, weighted sum of H⟩ is largest.

        All words have the same norm, so T1 is then smallest.
        """
        free = np.flatnonzero(~self.kept)
        if len(free) <= _ASSIGNED:
            parts = zip(self.alphas, H, self.labels, self.weights, strict=True)
            sums = sum(alpha * group_sums(H_k, y, len(self.words), w) for alpha, H_k, y, w in parts)
            gains = np.asarray(sums)[free] @ self.words[free].T
            order = free[linear_sum_assignment(gains, maximize=True)[1]]
            self.words = self.words.copy()
            self.words[free] = self.words[order]
        return [_placed(H_k, y, self.words) for H_k, y in zip(H, self.labels, strict=True)]


def group_sums(H: Array, groups: Ids, n_groups: int, weights: Array | None = None) -> Array:
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
        change = np.round(change / w.sum(), 9)  # equal changes stay equal on any processor
        best = int(change.argmin())
        if change[best] >= 0.0:
            return flips
        word[best] = -word[best]
    return most
