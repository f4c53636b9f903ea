"""Algorithm 1: alternate the A-, B- and W-steps until the objective settles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .._xp import array_namespace, like
from ..codes import signs
from ..graphs import Graph
from ..linalg import Array, SPDSolver, product
from .bipartite import Rule
from .starts import Start
from .steps import (
    Domain,
    Objective,
    code_step,
    departure,
    normal_matrix,
    objective,
    projection_step,
)


@dataclass(frozen=True)
class Solution:
    """What the solver leaves: two projections, the graph, the record of the way."""

    A_s: Array
    A_t: Array
    W: Graph
    history: list[Objective]
    converged: bool


class _Projector:
    """The A-step of one domain; Φ is factored anew only when the degrees of W have changed."""

    def __init__(self, domain: Domain, *, lam: float, ridge: float) -> None:
        self.domain, self.lam, self.ridge = domain, lam, ridge
        self._degrees: Array | None = None

    def __call__(self, B: Array, W: Graph, H_other: Array) -> Array:
        degrees = like(W.degrees, B, B.dtype)
        if self._degrees is None or not bool(
            array_namespace(degrees).all(degrees == self._degrees)
        ):
            Phi = normal_matrix(self.domain, degrees, lam=self.lam)
            self._solver = SPDSolver(Phi, self.ridge)
            self._degrees = degrees
        weights = {"lam": self.lam, "ridge": self.ridge}
        return projection_step(self.domain, self._solver, B, W, H_other, **weights)


def solve(
    source: Domain,
    target: Domain,
    bipartite: Rule,
    start: Start,
    *,
    lam: float,
    ridge: float,
    max_iter: int,
    tol: float,
    on_iteration: Callable[[Objective], None] = lambda terms: None,
) -> Solution:
    """Algorithm 1. `bipartite(H_s, H_t)` returns W: learned, or fixed beforehand.

    Stops when the objective changes by less than `tol` of itself, or after `max_iter` rounds.
    """
    project_s = _Projector(source, lam=lam, ridge=ridge)
    project_t = _Projector(target, lam=lam, ridge=ridge)
    H_s, H_t = start.H_s, start.H_t
    xp = array_namespace(H_s, H_t)
    B_s, B_t = xp.astype(signs(H_s), H_s.dtype), xp.astype(signs(H_t), H_t.dtype)
    W = bipartite(H_s, H_t) if start.W is None else start.W
    history: list[Objective] = []
    converged = False
    for _ in range(max_iter):
        A_s = project_s(B_s, W, H_t)
        H_s = product(source.X, A_s)
        A_t = project_t(B_t, W.T, H_s)
        H_t = product(target.X, A_t)
        B_s, B_t = code_step(H_s), code_step(H_t)
        W = bipartite(H_s, H_t)
        terms = objective(source, target, (H_s, H_t), (B_s, B_t), W, lam=lam)
        apart = departure(source, A_s) + departure(target, A_t)
        history.append(Objective(*terms, ridge * apart))
        on_iteration(history[-1])
        converged = len(history) > 1 and _settled(history, tol)
        if converged:
            break
    return Solution(A_s, A_t, W, history, converged)


def _settled(history: list[Objective], tol: float) -> bool:
    before, now = history[-2].total, history[-1].total
    return abs(before - now) <= tol * abs(before)
