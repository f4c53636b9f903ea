"""Minimisation over matrices with orthonormal columns: the Stiefel manifold.

A non-monotone line search with Barzilai-Borwein steps along a curve that is the Cayley transform of
a skew matrix (Wen & Yin, "A feasible method for optimization with orthogonality constraints",
Mathematical Programming 142, 2013).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .._core.linalg import Array

_FIRST_STEP = 1e-3
_DECREASE = 1e-4  # a step must lower the value by this share of the slope
_SHRINK = 0.2
_TRIALS = 5
_MEMORY = 0.85  # weight of earlier values in the level that a step must reach
_RECENT = 5  # steps whose mean change is tested
_TOO_EARLY = 2  # first steps, which never stop the search
_SHORTEST, _LONGEST = 1e-20, 1e20
_ORTHONORMAL = 1e-13

Objective = Callable[[Array], tuple[float, Array]]


def cayley_curve(W: Array, G: Array) -> Callable[[float], Array]:
    """Return τ ↦ (I + τ/2 A)⁻¹ (I - τ/2 A) W with A = G Wᵀ - W Gᵀ, for a gradient G at W.

    A is skew, so WᵀW is constant along the curve. At τ = 0 the objective falls with slope ½ ‖A‖².
    To rotate from the right, transpose: `cayley_curve(W.T, G.T)(tau).T` is W Q with Q orthogonal.
    The smaller of two linear systems is solved: A has rank 2k for k columns.

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
    """Minimise the objective from W on the manifold.

    A single step may raise the objective: a step must be below a weighted mean of all earlier
    values, and the last of five trials is accepted in any case.

    Parameters
    ----------
    objective : callable
        Returns value and gradient at a point.
    W : array of shape (d, r)
        The start, with orthonormal columns, or rows if r > d.
    max_iter : int
        Maximum number of steps.
    xtol, gtol, ftol : float
        Stop if the length of a step (norm / √d) is below `xtol` and the relative change of the
        value below `ftol`, or if the norm of the projected gradient is below `gtol`.
    """
    if W.shape[0] < W.shape[1]:

        def of_transpose(V: Array) -> tuple[float, Array]:
            value, G = objective(V.T)
            return value, G.T

        return minimise(of_transpose, W.T, max_iter=max_iter, xtol=xtol, gtol=gtol, ftol=ftol).T
    value, G = objective(W)
    slope = _projected(W, G)
    level, weight, tau = value, 1.0, _FIRST_STEP
    stopped = _StoppingTest(np.array([xtol, ftol]), gtol)
    for i in range(max_iter):
        W_before, value_before, slope_before = W, value, slope
        W, value, G = _search(objective, W, G, level, float(np.vdot(slope, slope)), tau)
        slope = _projected(W, G)
        S = W - W_before
        moved = float(np.linalg.norm(S)) / np.sqrt(len(W))
        changed = abs(value - value_before) / (abs(value_before) + 1)
        if stopped(moved, changed, float(np.linalg.norm(slope))):
            break
        tau = _barzilai_borwein(S, slope - slope_before, long=i % 2 == 1)
        level = (_MEMORY * weight * level + value) / (_MEMORY * weight + 1)
        weight = _MEMORY * weight + 1
    return _orthonormal(W)


class _StoppingTest:
    """Stop after a small step, or after five steps that are small on average.

    The first two steps never stop the search; a small one makes the tolerances stricter instead.
    Both rules follow the public solver, OptStiefelGBB.
    """

    def __init__(self, tolerances: Array, gtol: float) -> None:
        self._tolerances = tolerances  # for the step and for the value
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
    """Return the first point along the curve that is low enough, with its value and gradient."""
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
        return _FIRST_STEP  # the slope did not change
    return min(max(top / bottom, _SHORTEST), _LONGEST)


def _orthonormal(W: Array) -> Array:
    """Return W with rounding errors of many steps removed; columns keep their signs."""
    if np.linalg.norm(W.T @ W - np.eye(W.shape[1])) <= _ORTHONORMAL:
        return W
    Q, R = np.linalg.qr(W)
    return Q * np.where(np.diagonal(R) < 0, -1.0, 1.0)
