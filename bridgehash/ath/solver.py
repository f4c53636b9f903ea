"""Algorithm 1: alternate the A-, B- and W-steps until the objective converges."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from .._core.arrays import array_namespace, like
from .._core.linalg import Array, SPDSolver, product
from ..neighbors.graphs import Graph
from .bipartite import Rule
from .class_codes import Codes
from .starts import Start
from .steps import (
    Domain,
    Objective,
    normal_matrix,
    objective,
    projection_step,
    ridge_distance,
)


@dataclass(frozen=True)
class Solution:
    """Result of the solver: projections, codes, the graph, the objective per iteration."""

    A_s: Array
    A_t: Array
    B_s: Array  # codes of the training rows
    B_t: Array
    W: Graph
    lam: float
    ridge: float  # of the source
    history: list[Objective]
    converged: bool


class _Projector:
    """The A-step of one domain; Φ is factored again only if the degrees of W have changed."""

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
    codes: Codes,
    start: Start,
    *,
    lam: float,
    ridge: float,
    ridge_target: float | None = None,
    step_order: Literal["ABW", "BWA"] = "ABW",
    max_iter: int,
    tol: float,
    on_iteration: Callable[[Objective], None] = lambda terms: None,
) -> Solution:
    """Run Algorithm 1. `bipartite(H_s, H_t)` returns W, learned or fixed; `codes` returns B_s, B_t.

    `step_order` is that of an iteration: "ABW" as printed, "BWA" as in the script of the authors.
    The ridge of the target is that of the source unless it is given.

    Stops when the relative change of the objective is below `tol`, or after `max_iter` iterations.
    """
    ridges = ridge, ridge if ridge_target is None else ridge_target
    project_s = _Projector(source, lam=lam, ridge=ridges[0])
    project_t = _Projector(target, lam=lam, ridge=ridges[1])
    H_s, H_t = start.H_s, start.H_t
    B_s, B_t = codes.first(H_s, H_t)
    W = bipartite(H_s, H_t) if start.W is None else start.W
    history: list[Objective] = []
    converged = False
    for _ in range(max_iter):
        if step_order == "BWA":
            B_s, B_t = codes.step(H_s, H_t)
            W = bipartite(H_s, H_t) if history else W  # the first is that of the start
        A_s = project_s(B_s, W, H_t)
        H_s = product(source.X, A_s)
        A_t = project_t(B_t, W.T, H_s)
        H_t = product(target.X, A_t)
        if step_order == "ABW":
            B_s, B_t = codes.step(H_s, H_t)
            W = bipartite(H_s, H_t)
        terms = objective(source, target, (H_s, H_t), (B_s, B_t), W, lam=lam)
        distances = ridge_distance(source, A_s), ridge_distance(target, A_t)
        history.append(Objective(*terms, ridges[0] * distances[0] + ridges[1] * distances[1]))
        on_iteration(history[-1])
        if len(history) > 1:
            before, now = history[-2].total, history[-1].total
            converged = abs(before - now) <= tol * abs(before)
        if converged:
            break
    return Solution(A_s, A_t, B_s, B_t, W, lam, ridge, history, converged)
