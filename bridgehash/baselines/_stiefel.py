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
_SHORT = 1e-5  # a small step: its norm / √d
_SAME = 1e-8  # a small step: relative change of the value
_FLAT = 1e-5  # norm of a small projected gradient
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


def minimise(objective: Objective, W: Array, *, max_iter: int) -> Array:
    """Minimise the objective from W on the manifold, in at most `max_iter` steps.

    W of shape (d, r) has orthonormal columns, or rows if r > d. A single step may raise the
    objective: a step must be below a weighted mean of all earlier values, and the last of five
    trials is accepted in any case.

    The search stops after a small step, after five steps that are small on average, or at a small
    projected gradient. The first two steps never stop it; a small one makes the tolerances stricter
    instead. These rules follow the public solver, OptStiefelGBB.
    """
    if W.shape[0] < W.shape[1]:

        def of_transpose(V: Array) -> tuple[float, Array]:
            value, G = objective(V.T)
            return value, G.T

        return minimise(of_transpose, W.T, max_iter=max_iter).T
    value, G = objective(W)
    slope = _projected(W, G)
    level, weight, tau = value, 1.0, _FIRST_STEP
    tolerances, flat = np.array([_SHORT, _SAME]), _FLAT
    recent: list[tuple[float, float]] = []
    for i in range(max_iter):
        W_before, value_before, slope_before = W, value, slope
        W, value, G = _search(objective, W, G, level, float(np.vdot(slope, slope)), tau)
        slope = _projected(W, G)
        S = W - W_before
        moved = float(np.linalg.norm(S)) / np.sqrt(len(W))
        changed = abs(value - value_before) / (abs(value_before) + 1)
        recent = [*recent[1 - _RECENT :], (moved, changed)]
        if (
            (recent[-1] < tolerances).all()
            or np.linalg.norm(slope) < flat
            or (np.mean(recent, axis=0) < 10 * tolerances).all()
        ):
            if i >= _TOO_EARLY:
                break
            tolerances, flat = tolerances / 10, flat / 10
        tau = _barzilai_borwein(S, slope - slope_before, long=i % 2 == 1)
        level = (_MEMORY * weight * level + value) / (_MEMORY * weight + 1)
        weight = _MEMORY * weight + 1
    if np.linalg.norm(W.T @ W - np.eye(W.shape[1])) <= _ORTHONORMAL:
        return W
    Q, R = np.linalg.qr(W)  # removes the rounding errors of many steps; columns keep their signs
    return Q * np.where(np.diagonal(R) < 0, -1.0, 1.0)


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
