"""Choose the ridge of a fit with class words by leaving rows out, one at a time.

With fixed codes, the A-step is a ridge regression, and the projection of a row that was left out
has a closed form. Rows of a catalogue are encoded as learned; queries count as if they had not been
seen. Of two domains the source is the catalogue and the target has the queries, and both share one
ridge. Of more domains each is both, and has a ridge of its own. docs/maths.md has the formula.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.linalg import eigh

from .._core.arrays import take_rows, to_numpy
from .._core.linalg import Array
from ..streaming.operator import BlockRows
from .steps import Domain

RIDGES = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
_ROWS = 2000  # per domain that decide; the cost grows with their cube


def chosen_ridges(
    domains: Sequence[Domain],
    codes: Sequence[Any],
    rng: np.random.RandomState,
    centre: Array | None = None,
) -> list[float]:
    """Return the ridge with the fewest wrong bits, for each domain.

    Frozen domains do not count. `centre` is what codes and projections are relative to.
    """
    shift = np.zeros(1) if centre is None else centre
    several = len(domains) > 2
    wrong = np.zeros((len(domains), len(RIDGES)))
    for k, (domain, B) in enumerate(zip(domains, codes, strict=True)):
        if domain.frozen:
            continue
        for left_out in (False, True) if several else (k > 0,):
            wrong[k] += _wrong_bits(domain, B, shift, rng, left_out=left_out)
    if not several:
        wrong[:] = wrong.sum(axis=0)
    return [RIDGES[best] for best in wrong.argmin(axis=1)]


def _wrong_bits(
    domain: Domain, B: Any, shift: Array, rng: np.random.RandomState, *, left_out: bool
) -> Array:
    """Return the weighted share of wrong bits for each ridge."""
    assert domain.weights is not None
    rows = np.flatnonzero(domain.weights)
    if len(rows) > _ROWS:
        rows = np.sort(rng.choice(rows, _ROWS, replace=False))
    X = domain.X.take(rows) if isinstance(domain.X, BlockRows) else take_rows(domain.X, rows)
    X, B = to_numpy(X).astype(np.float64), to_numpy(take_rows(B, rows)).astype(np.float64)
    w = domain.weights[rows]
    centred = B - w @ B / w.sum()  # X is centred with the same weights
    path = ridge_path(X, centred, w, RIDGES, left_out)
    return np.array([w @ ((H + shift) * (B + shift) <= 0).mean(axis=1) / w.sum() for H in path])


def ridge_path(
    X: Array,
    B: Array,
    weights: Array,
    ridges: tuple[float, ...],
    left_out: bool,
    intercept: bool = False,
) -> list[Array]:
    """Return weighted ridge regressions of B on X for each ridge.

    With `left_out`, row i is predicted by the regression without row i. With `intercept`, X and B
    are centred with these weights, and the means are also those without row i. Otherwise a row
    that was left out is still known: it is the negative sum of the others.
    """
    root = np.sqrt(weights)[:, None]
    if len(X) < X.shape[1]:
        values, U = eigh(root * X @ (root * X).T, check_finite=False)
    else:
        values, V = eigh((root * X).T @ (root * X), check_finite=False)
        values = np.maximum(values, np.finfo(float).tiny)
        U = (root * X @ V) / np.sqrt(values)
    share, UB = np.maximum(values, 0.0), U.T @ (root * B)
    of_mean = weights / weights.sum() if intercept else 0.0
    path: list[Array] = []
    for ridge in ridges:
        kept = share / (share + ridge)
        fitted = U @ (kept[:, None] * UB)  # times the root of the weights
        if left_out:
            leverage = np.minimum(U**2 @ kept + of_mean, 1.0 - 1e-9)[:, None]
            fitted = (fitted - leverage * root * B) / (1.0 - leverage)
        path.append(fitted / root)
    return path
