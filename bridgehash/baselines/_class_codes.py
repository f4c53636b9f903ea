"""Code words for classes: signs as far apart as a few draws can make them."""

from __future__ import annotations

import numpy as np
from sklearn.utils.random import sample_without_replacement

from .._core.linalg import Array

_DRAWS = 100
_TOLD_APART_BY = 30  # first bits, at most, in which no two random words agree


def class_words(n_classes: int, n_bits: int, rng: np.random.RandomState) -> Array:
    """One row of ±1 a class; the best of a hundred draws by the distance of the nearest two.

    Parts of Hadamard matrices, whose rows differ in half of their places, compete with one draw of
    random words. Words differ while there are enough of them, and no bit is alike for all.

    >>> class_words(2, 1, np.random.RandomState(0)).sum()
    np.float64(0.0)
    """
    best = _random_words(n_classes, n_bits, rng)
    for _ in range(_DRAWS):
        words = _hadamard_words(n_classes, n_bits, rng)
        if _apart(words) > _apart(best):
            best = words
    alike = np.flatnonzero(np.abs(best.sum(axis=0)) == n_classes)
    best[rng.randint(n_classes, size=len(alike)), alike] *= -1.0  # tells no words apart as it was
    return best


def _apart(words: Array) -> float:
    """Hamming distance of the nearest two words."""
    products = words @ words.T
    np.fill_diagonal(products, -np.inf)
    return float(words.shape[1] - products.max()) / 2


def _hadamard_words(n_classes: int, n_bits: int, rng: np.random.RandomState) -> Array:
    """Some rows and columns of Sylvester's matrix, H_ij = (-1)^|i & j|, columns of random sign."""
    order = 1 << max(n_classes, n_bits).bit_length()
    rows, columns = (
        1 + sample_without_replacement(order - 1, n, random_state=rng) for n in (n_classes, n_bits)
    )
    odd = np.bitwise_count(rows[:, None] & columns) % 2
    return (1.0 - 2.0 * odd) * (2.0 * rng.randint(2, size=n_bits) - 1.0)


def _random_words(n_classes: int, n_bits: int, rng: np.random.RandomState) -> Array:
    n_apart = min(n_bits, _TOLD_APART_BY)
    n_words = min(n_classes, 2**n_apart)
    drawn = sample_without_replacement(2**n_apart, n_words, random_state=rng)
    words = np.resize(rng.permutation(drawn), n_classes)
    bits = words[:, None] >> np.arange(n_apart) & 1
    more = rng.randint(2, size=(n_classes, n_bits - n_apart))
    return 2.0 * np.hstack([bits, more]) - 1.0
