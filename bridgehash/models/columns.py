"""Do the columns of two domains of equal width mean the same?

One model gives its columns similar correlations in any domain. The columns of two models have
nothing to do with each other: exchanging those of one domain then makes no difference.
docs/maths.md has the formula.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._core.arrays import is_foreign, take_rows, to_numpy
from .._core.linalg import Array, unit_rows
from ..streaming.blocks import Blocks

_LEAST_ROWS = 80
_MOST = (2000, 512)  # rows and columns
_PERMUTATIONS = 20
_CORRESPOND = 5.0  # z from which the columns of two domains are taken for the same
_TELLING = 12.0  # z between halves of a domain from which its columns can be told apart


def columns_correspond(X: Any, Y: Any) -> bool:
    """Whether two domains of equal width may have the same columns; True if rows cannot tell."""
    if min(X.shape[0], Y.shape[0]) < _LEAST_ROWS:
        return True
    X, Y = _sample(X), _sample(Y)
    rng = np.random.default_rng(0)
    if _likeness(X, Y, rng) >= _CORRESPOND:
        return True
    return min(_likeness(Z[::2], Z[1::2], rng) for Z in (X, Y)) < _TELLING


def _sample(X: Any) -> Array:
    """Return unit rows, at most 2,000 of at most 512 columns, evenly spaced."""
    rows, columns = (_even(n, most) for n, most in zip(X.shape, _MOST, strict=True))
    if isinstance(X, Blocks):
        Z = X.take(rows)
    else:
        Z = to_numpy(take_rows(X if is_foreign(X) else np.asarray(X), rows))
    return unit_rows(Z.astype(np.float64))[:, columns]


def _even(n: int, most: int) -> NDArray[np.intp]:
    return np.linspace(0, n - 1, min(n, most)).astype(np.intp)


def _likeness(X: Array, Y: Array, rng: np.random.Generator) -> float:
    """Return how much the correlations of columns agree, in deviations from exchanged columns."""
    C, D = _correlations(X), _correlations(Y)
    exchanged = []
    for _ in range(_PERMUTATIONS):
        order = rng.permutation(len(D))
        exchanged.append(float(np.vdot(C, D[np.ix_(order, order)])))
    spread = max(float(np.std(exchanged)), np.finfo(float).tiny)
    return (float(np.vdot(C, D)) - float(np.mean(exchanged))) / spread


def _correlations(X: Array) -> Array:
    """Return the correlations of different columns, centred; 0 for constant columns."""
    X = X - X.mean(axis=0)
    size = np.sqrt((X**2).sum(axis=0))
    X = X / np.where(size > 1e-9 * size.max(initial=0.0), size, np.inf)
    C = X.T @ X
    others = 1.0 - np.eye(len(C))
    return others * (C - (others * C).sum() / max(others.sum(), 1.0))
