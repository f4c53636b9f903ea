"""Algorithm 1: alternate the A-, B- and W-steps until the objective converges.

The paper has two domains and one bipartite graph. Here the domains are any number, and each bridge
joins two of them; with two domains and one bridge this is the algorithm of the paper. A frozen
domain keeps its projections and codes: its steps are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from .._core.arrays import array_namespace, like
from .._core.linalg import Array, SPDSolver, product
from ..neighbors.graphs import Graph
from .bipartite import Rule
from .class_codes import Codes
from .steps import (
    Domain,
    Objective,
    normal_matrix,
    objective,
    projection_step,
    ridge_distance,
)


class Bridge(NamedTuple):
    """Two domains that are joined by a bipartite graph."""

    i: int
    j: int
    rule: Rule  # a function of H_i and H_j that returns W, learned or fixed
    first: Graph | None = None  # W before the first A-step, if it is known


@dataclass(frozen=True)
class Solution:
    """Result of the solver: projections, codes, the graphs, the objective per iteration."""

    A: list[Array | None]  # by domain; None for a frozen one
    B: list[Array]  # codes of the training rows
    W: list[Graph]  # by bridge
    lam: float
    ridges: Sequence[float]
    history: list[Objective]
    converged: bool


class _Projector:
    """The A-step of one domain; Φ is factored again only if the degrees of W have changed."""

    def __init__(self, domain: Domain, *, lam: float, ridge: float) -> None:
        self.domain, self.lam, self.ridge = domain, lam, ridge
        self._degrees: Array | None = None

    def __call__(self, B: Array, bridges: Sequence[tuple[Graph, Array]]) -> Array:
        degrees = sum(like(W.degrees, B, B.dtype) for W, _ in bridges)
        if self._degrees is None or not bool(
            array_namespace(degrees).all(degrees == self._degrees)
        ):
            Phi = normal_matrix(self.domain, degrees, lam=self.lam)
            self._solver = SPDSolver(Phi, self.ridge)
            self._degrees = degrees
        weights = {"lam": self.lam, "ridge": self.ridge}
        return projection_step(self.domain, self._solver, B, bridges, **weights)


def solve(
    domains: Sequence[Domain],
    bridges: Sequence[Bridge],
    codes: Codes,
    start: Sequence[Array],
    *,
    lam: float,
    ridges: Sequence[float],
    step_order: Literal["ABW", "BWA"] = "ABW",
    max_iter: int,
    tol: float,
    on_iteration: Callable[[Objective], None] = lambda terms: None,
) -> Solution:
    """Run Algorithm 1 from the first projections of each domain.

    Parameters
    ----------
    domains : sequence of Domain
    bridges : sequence of Bridge
        Every domain that is not frozen takes part in at least one.
    codes : Codes
        Returns the codes of all domains.
    start : sequence of arrays of shape (n, n_bits)
        First projections; of a frozen domain, those it keeps.
    lam : float
        Weight of T2.
    ridges : sequence of float
        Of each domain.
    step_order : "ABW" or "BWA"
        Order in an iteration: as printed, or as in the script of the authors.
    max_iter, tol
        Stop when the relative change of the objective is below `tol`, or after `max_iter`
        iterations.
    on_iteration : callable
        Called with the objective after each iteration.
    """
    projectors = [
        _Projector(domain, lam=lam, ridge=ridge)
        for domain, ridge in zip(domains, ridges, strict=True)
    ]
    A: list[Array | None] = [None] * len(domains)
    H = list(start)
    B = codes.first(H)
    history: list[Objective] = []
    converged = False

    def learned() -> list[Graph]:
        return [bridge.rule(H[bridge.i], H[bridge.j]) for bridge in bridges]

    W = [
        bridge.rule(H[bridge.i], H[bridge.j]) if bridge.first is None else bridge.first
        for bridge in bridges
    ]
    for _ in range(max_iter):
        if step_order == "BWA":
            B = codes.step(H)
            W = learned() if history else W  # the first is that of the start
        for k, domain in enumerate(domains):
            if not domain.frozen:
                A[k] = projectors[k](B[k], _seen_from(k, bridges, W, H))
                H[k] = product(domain.X, A[k])
        if step_order == "ABW":
            B, W = codes.step(H), learned()
        joined = [(bridge.i, bridge.j, graph) for bridge, graph in zip(bridges, W, strict=True)]
        terms = objective(domains, H, B, joined, lam=lam)
        penalty = sum(
            ridge * ridge_distance(domain, A_k)
            for domain, ridge, A_k in zip(domains, ridges, A, strict=True)
            if A_k is not None
        )
        history.append(Objective(*terms, penalty))
        on_iteration(history[-1])
        if len(history) > 1:
            before, now = history[-2].total, history[-1].total
            converged = abs(before - now) <= tol * abs(before)
        if converged:
            break
    return Solution(A, B, W, lam, ridges, history, converged)


def _seen_from(
    k: int, bridges: Sequence[Bridge], W: Sequence[Graph], H: Sequence[Array]
) -> list[tuple[Graph, Array]]:
    """Return the bridges of a domain: graphs with its rows first, and the other projections."""
    seen = []
    for bridge, graph in zip(bridges, W, strict=True):
        if bridge.i == k:
            seen.append((graph, H[bridge.j]))
        elif bridge.j == k:
            seen.append((graph.T, H[bridge.i]))
    return seen
