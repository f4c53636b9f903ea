"""Minimisation over matrices with orthonormal columns: the Stiefel manifold.

The curve is the Cayley transform of a skew matrix, the search along it the non-monotone one with
Barzilai-Borwein steps (Wen & Yin, "A feasible method for optimization with orthogonality
constraints", Mathematical Programming 142, 2013).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .._core.linalg import Array

_FIRST_STEP = 1e-3
_DECREASE = 1e-4  # share of the slope that a step has to gain
_SHRINK = 0.2
_TRIALS = 5
_MEMORY = 0.85  # of earlier values in the level to be undercut
_RECENT = 5  # steps whose mean change is looked at
_TOO_EARLY = 2  # steps in which a standstill is not believed
_SHORTEST, _LONGEST = 1e-20, 1e20
_ORTHONORMAL = 1e-13

Objective = Callable[[Array], tuple[float, Array]]


def cayley_curve(W: Array, G: Array) -> Callable[[float], Array]:
    """τ ↦ (I + τ/2 A)⁻¹ (I - τ/2 A) W with A = G Wᵀ - W Gᵀ, for a gradient G at W.

    A is skew, so WᵀW is the same all along, whatever it is; the objective falls with slope
    ½ ‖A‖² at τ = 0. Wide matrices turn from the right: `cayley_curve(W.T, G.T)(tau).T` is W Q
    with Q orthogonal. The smaller of two linear systems is solved: A has rank 2k for k columns.

    >>> curve = cayley_curve(np.array([[1.0], [0.0]]), np.array([[0.0], [1.0]]))
    >>> curve(2.0)
    array([[ 0.],
           [-1.]])
    """
    n, k = W.shape
    if 2 * k >= n:
        A = G @ W.T
        A = A - A.T
        return lambda tau: 2.0 * np.linalg.solve(np.eye(n, dtype=W.dtype) + tau / 2 * A, W) - W
    U, V = np.hstack([G, W]), np.hstack([W, -G])
    VU, VW = V.T @ U, V.T @ W
    return lambda tau: (
        W - U @ np.linalg.solve(np.eye(2 * k, dtype=W.dtype) + tau / 2 * VU, tau * VW)
    )


def minimise(
    objective: Objective,
    W: Array,
    *,
    max_iter: int,
    xtol: float = 1e-5,
    gtol: float = 1e-5,
    ftol: float = 1e-8,
) -> Array:
    """A point with a low objective, found from W without leaving the manifold.

    Single steps may climb: a step has to undercut a weighted mean of all values so far, and the
    last of five trials is taken as it is.

    Parameters
    ----------
    objective : callable
        Value and gradient at a point.
    W : array of shape (d, r)
        The start; columns are orthonormal, or rows where r > d.
    max_iter : int
        Steps at most.
    xtol, gtol, ftol : float
        The search ends when a step (its norm over √d) is below the first and its relative change of
        the value below the last, or when the norm of the projected gradient is below the second.
    """
    if W.shape[0] < W.shape[1]:
        tall = _transposed(objective)
        return minimise(tall, W.T, max_iter=max_iter, xtol=xtol, gtol=gtol, ftol=ftol).T
    value, G = objective(W)
    slope = _projected(W, G)
    level, weight, tau = value, 1.0, _FIRST_STEP
    ended = _Standstill(np.array([xtol, ftol]), gtol)
    for i in range(max_iter):
        W_before, value_before, slope_before = W, value, slope
        W, value, G = _search(objective, W, G, level, float(np.vdot(slope, slope)), tau)
        slope = _projected(W, G)
        S = W - W_before
        moved = float(np.linalg.norm(S)) / np.sqrt(len(W))
        changed = abs(value - value_before) / (abs(value_before) + 1)
        if ended(moved, changed, float(np.linalg.norm(slope))):
            break
        tau = _barzilai_borwein(S, slope - slope_before, long=i % 2 == 1)
        level = (_MEMORY * weight * level + value) / (_MEMORY * weight + 1)
        weight = _MEMORY * weight + 1
    return _orthonormal(W)


def _transposed(objective: Objective) -> Objective:
    def of_transpose(V: Array) -> tuple[float, Array]:
        value, G = objective(V.T)
        return value, G.T

    return of_transpose


class _Standstill:
    """Tells when the search may end: after a small step, or five that are so on average.

    In the first two steps nothing ends; what looks like an end makes the tolerances stricter. That
    rule and the one on five steps are those of the public solver, OptStiefelGBB.
    """

    def __init__(self, tolerances: Array, gtol: float) -> None:
        self._tolerances = tolerances  # of a step and of the value
        self._gtol = gtol
        self._recent: list[tuple[float, float]] = []
        self._n_steps = 0

    def __call__(self, moved: float, changed: float, slope: float) -> bool:
        self._n_steps += 1
        self._recent = [*self._recent[1 - _RECENT :], (moved, changed)]
        still = (
            bool((self._recent[-1] < self._tolerances).all())
            or slope < self._gtol
            or bool((np.mean(self._recent, axis=0) < 10 * self._tolerances).all())
        )
        if still and self._n_steps <= _TOO_EARLY:
            self._tolerances = self._tolerances / 10
            self._gtol /= 10
            return False
        return still


def _search(
    objective: Objective, W: Array, G: Array, level: float, slope: float, tau: float
) -> tuple[Array, float, Array]:
    """The first point along the curve that is low enough, with its value and gradient."""
    curve = cayley_curve(W, G)
    for trial in range(_TRIALS):
        step = tau * _SHRINK**trial
        W = curve(step)
        value, G = objective(W)
        if value <= level - _DECREASE * step * slope:
            break
    return W, value, G


def _projected(W: Array, G: Array) -> Array:
    return G - W @ (G.T @ W)


def _barzilai_borwein(S: Array, Y: Array, *, long: bool) -> float:
    SY = abs(float(np.vdot(S, Y)))
    top, bottom = (float(np.vdot(S, S)), SY) if long else (SY, float(np.vdot(Y, Y)))
    if bottom == 0.0:
        return _FIRST_STEP  # no change of slope was seen to judge a step by
    return min(max(top / bottom, _SHORTEST), _LONGEST)


def _orthonormal(W: Array) -> Array:
    """W itself, or with the rounding of many steps removed; columns keep their signs."""
    if np.linalg.norm(W.T @ W - np.eye(W.shape[1])) <= _ORTHONORMAL:
        return W
    Q, R = np.linalg.qr(W)
    return Q * np.where(np.diagonal(R) < 0, -1.0, 1.0)
