"""One code per class, as far apart as a few random draws can make them."""

from __future__ import annotations

import numpy as np
from sklearn.utils.random import sample_without_replacement

from .._core.linalg import Array

_DRAWS = 100
_DISTINCT_BITS = 30  # first bits, at most, in which random codes are drawn without repetition


def class_codes(n_classes: int, n_bits: int, rng: np.random.RandomState) -> Array:
    """Return one row of ±1 per class: the draw whose two nearest codes are farthest apart.

    One draw of random codes is compared with a hundred draws from Hadamard matrices, whose rows
    differ in half of their bits. All codes differ if n_bits allows it, and no bit is the same for
    all classes.

    >>> class_codes(2, 1, np.random.RandomState(0)).sum()
    np.float64(0.0)
    """
    best = _random_codes(n_classes, n_bits, rng)
    for _ in range(_DRAWS):
        codes = _hadamard_codes(n_classes, n_bits, rng)
        if _min_distance(codes) > _min_distance(best):
            best = codes
    constant = np.flatnonzero(np.abs(best.sum(axis=0)) == n_classes)
    best[rng.randint(n_classes, size=len(constant)), constant] *= -1.0
    return best


def _min_distance(codes: Array) -> float:
    """Return the Hamming distance of the two nearest codes."""
    products = codes @ codes.T
    np.fill_diagonal(products, -np.inf)
    return float(codes.shape[1] - products.max()) / 2


def _hadamard_codes(n_classes: int, n_bits: int, rng: np.random.RandomState) -> Array:
    """Draw rows and columns of Sylvester's matrix, H_ij = (-1)^|i & j|, and column signs."""
    order = 1 << max(n_classes, n_bits).bit_length()
    rows, columns = (
        1 + sample_without_replacement(order - 1, n, random_state=rng) for n in (n_classes, n_bits)
    )
    odd = np.bitwise_count(rows[:, None] & columns) % 2
    return (1.0 - 2.0 * odd) * (2.0 * rng.randint(2, size=n_bits) - 1.0)


def _random_codes(n_classes: int, n_bits: int, rng: np.random.RandomState) -> Array:
    n_distinct = min(n_bits, _DISTINCT_BITS)
    n_codes = min(n_classes, 2**n_distinct)
    drawn = sample_without_replacement(2**n_distinct, n_codes, random_state=rng)
    numbers = np.resize(rng.permutation(drawn), n_classes)
    bits = numbers[:, None] >> np.arange(n_distinct) & 1
    more = rng.randint(2, size=(n_classes, n_bits - n_distinct))
    return 2.0 * np.hstack([bits, more]) - 1.0
