"""The problem that Algorithm 1 solves: first projections, graphs, codes, and the weight λ."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
from sklearn.base import clone

from .._core.arrays import column_means, like, take_rows
from .._core.errors import InputError
from .._core.linalg import Array, SPDSolver, product, rows_by_norm
from .._core.progress import progress
from ..models.training import Domains
from ..neighbors.graphs import Graph, NoGraph
from ..streaming.mappers import use_mapper
from .class_codes import BalancedCodes, Codes, limits
from .features import Features, centre_of, has_joint_mean, same_space
from .frozen import Frozen, FrozenCodes
from .presets import part
from .ridge import chosen_ridges
from .selection import FIRST_LAM, WEAK_LAM, CycleConsistency, best_lam
from .solver import Bridge, Solution, solve
from .starts import Known, Start, StartContext
from .steps import Domain, Objective

_NEAR = 1e-3  # ridge of the regression of earlier projections on rows of unit norm
_FIRST_RIDGE = 0.1  # of a start that needs one before ridge="auto" is decided


@dataclass(frozen=True)
class FirstProjections:
    """The first projections of all domains."""

    H: list[Array]
    A: list[Array | None]  # with H = X A, if the start is linear
    W: dict[tuple[int, int], Graph]  # first bipartite graphs, if they are known
    agreement: float | None = None


@dataclass(frozen=True)
class Problem:
    """All that Algorithm 1 needs."""

    ath: Any
    data: Domains
    features: Mapping[int, Features]  # of the domains that learn
    held: Mapping[int, Frozen]  # the others
    centre: Array | None  # of frozen projections
    hub: int | None
    start: FirstProjections
    rng: np.random.RandomState

    def solver(self, verbose: bool = False) -> Callable[[float], Solution]:
        """Build the graphs; return Algorithm 1 as a function of λ."""
        ath, data = self.ath, self.data
        n = len(data.X)
        alphas = [getattr(ath, f"alpha_{self._role(k)}") for k in range(n)]
        codes = part(ath, "codes").begin(data, ath.n_bits, alphas, self.rng)
        if self.centre is not None:
            codes = FrozenCodes(codes, data.codes, self.centre)
        domains = [self._domain(k, codes.weights[k]) for k in range(n)]
        bridges = [
            Bridge(i, j, self._bipartite(i, j).rule(data.two(i, j)), self.start.W.get((i, j)))
            for i, j in self._bridged()
        ]
        if ath.ridge_towards == "start":
            domains = [
                domain if domain.frozen else replace(domain, held=self._first_projection(k))
                for k, domain in enumerate(domains)
            ]
        ridges = self._automatic_ridges(codes, domains) if ath.ridge == "auto" else [ath.ridge] * n
        if ath.ridge_target is not None:
            ridges = [
                ridge if self._role(k) == "source" else ath.ridge_target
                for k, ridge in enumerate(ridges)
            ]
        settings = {name: getattr(ath, name) for name in ("step_order", "max_iter", "tol")}
        share = 1.0 if self.hub is not None else 1.0 / (n - 1)  # of λ in each bridge

        def run(lam: float) -> Solution:
            bar: AbstractContextManager[Callable[[str], None]] = nullcontext(lambda note: None)
            if verbose:
                bar = progress(f"ATH, λ = {lam:g}", ath.max_iter, visible=True)
            with bar as advance:

                def show(terms: Objective) -> None:
                    advance(f"objective {terms.total:.6g}")

                return solve(
                    domains,
                    bridges,
                    codes,
                    self.start.H,
                    lam=lam * share,
                    ridges=ridges,
                    **settings,
                    on_iteration=show,
                )

        return run

    def shift(self, k: int, A: Array) -> Array | None:
        """Return what is added to the projections of a domain that follows frozen codes.

        It is the centre of the frozen projections. For balanced codes it is what gives each bit the
        share of +1 that it has in the frozen codes.
        """
        if self.centre is None:
            return None
        rule = part(self.ath, "codes")
        if not isinstance(rule, BalancedCodes):
            return self.centre
        return -limits(product(self.features[k].Z, A), rule.shares(self.data))

    def may_abstain(self, i: int, j: int) -> bool:
        """Whether rows of two domains may abstain: only if their features mean the same."""
        ath, spaces = self.ath, self.data.spaces
        if not getattr(part(ath, "bipartite"), "abstaining", False):
            return False
        if ath.feature_space != "auto":
            return bool(ath.feature_space == "same")
        return not spaces or spaces[i] == spaces[j]

    def _bipartite(self, i: int, j: int) -> Any:
        bipartite = part(self.ath, "bipartite")
        if getattr(bipartite, "abstaining", False) and not self.may_abstain(i, j):
            return clone(bipartite).set_params(abstaining=False)
        return bipartite

    def _role(self, k: int) -> str:
        """Which parameters a domain has: those of the source, or those of the target."""
        return "source" if k == (self.hub or 0) else "target"

    def _bridged(self) -> list[tuple[int, int]]:
        """The domains that are bridged: each to each, or to the hub; frozen ones not among them."""
        return [
            (i, j)
            for i, j in combinations(range(len(self.data.X)), 2)
            if not (i in self.held and j in self.held) and self.hub in (None, i, j)
        ]

    def _first_projection(self, k: int) -> Array:
        """Return A of the start, of the rows of Z."""
        A = self.start.A[k]
        if A is None:
            raise InputError("'start' needs a linear start such as PairStart()", "ridge_towards")
        same = not self.held and same_space(self.ath, self.data)
        return self.features[k].inside(A) if same else A

    def _domain(self, k: int, row_weights: Array | None) -> Domain:
        if k in self.held:
            return Domain(self.start.H[k], NoGraph().build(self.start.H[k]), 0.0, 0.0, frozen=True)
        role, y = self._role(k), self.data.y[k]
        graph = part(self.ath, f"{role}_graph")
        if getattr(graph, "needs_labels", False):
            name = self.data.names[k]
            if y is None:
                raise InputError(f"missing; {role}_graph='labels' needs it", f"y_{name}")
            if len(np.unique(y[y >= 0])) < 2:
                raise InputError("fewer than two classes; at least two are needed", f"y_{name}")
        weights = getattr(self.ath, f"alpha_{role}"), getattr(self.ath, f"beta_{role}")
        rows = self.features[k]
        lower = rows.Z is not rows.X
        return Domain(rows.Z, graph.build(rows.Z, y), *weights, lower=lower, weights=row_weights)

    def _automatic_ridges(self, codes: Codes, domains: list[Domain]) -> list[float]:
        if codes.weights[0] is None:
            raise InputError("'auto' needs codes='classes'; give a number", "ridge")
        B = codes.first(self.start.H)
        return chosen_ridges(domains, B, self.rng, self.centre)


def comparable(ath: Any, data: Domains, held: Mapping[int, Frozen], i: int, j: int) -> bool:
    """Whether the given rows of two domains can be compared."""
    if not all(held[k].has_rows for k in (i, j) if k in held):
        return False
    return ath.feature_space != "separate" and data.alike(i, j)


def begun(
    ath: Any,
    data: Domains,
    features: Mapping[int, Features],
    held: Mapping[int, Frozen],
    hub: int | None,
    rng: np.random.RandomState,
    earlier: Mapping[int, Array] | None = None,
) -> Problem:
    """Return the problem with its first projections.

    Two domains begin together; further ones follow the hub. If a domain is frozen, all follow it.
    Domains with `earlier` projections begin there.
    """
    begin = _Beginning(ath, data, features, held, rng)
    if held:
        base = next(iter(held))
        centre = centre_of(ath, data, base, held[base].H)
        known: dict[int, Array] = {k: frozen.H - centre for k, frozen in held.items()}
        known |= {k: H - centre for k, H in (earlier or {}).items()}
        start = begin.after(base, known, begin.at(earlier or {}, centre))
        return Problem(ath, data, features, held, centre, hub, start, rng)
    if earlier:
        size = 1.0 if ath.start_scale is None else ath.start_scale
        known = {k: size * H for k, H in earlier.items()}
        start = begin.after(next(iter(known)), known, begin.at(known))
    else:
        start = begin.together(hub or 0)
    return Problem(ath, data, features, held, None, hub, start, rng)


@dataclass(frozen=True)
class _Beginning:
    """First projections from the start of a fit."""

    ath: Any
    data: Domains
    features: Mapping[int, Features]
    held: Mapping[int, Frozen]
    rng: np.random.RandomState

    def together(self, hub: int) -> FirstProjections:
        """Begin with the hub and the next domain; the others follow the hub."""
        n = len(self.data.X)
        i, j = (hub, int(hub == 0)) if n > 2 else (0, 1)
        start: Start = part(self.ath, "start").begin(self._context(i, j))
        start = start.scaled(self.ath.start_scale)
        first = FirstProjections([], [None] * n, {}, start.agreement)
        first.A[i], first.A[j] = start.A_s, start.A_t
        _note_graph(first, i, j, start.W)
        return self.after(i, {i: start.H_s, j: start.H_t}, first)

    def at(self, earlier: Mapping[int, Array], centre: Array | float = 0.0) -> FirstProjections:
        """Begin some domains at given projections; A is their regression on the features."""
        first = FirstProjections([], [None] * len(self.data.X), {})
        if self.ath.ridge_towards is not None:
            for k, H in earlier.items():
                Z = self.features[k].Z
                wanted = like(H, Z, Z.dtype) - centre
                A = SPDSolver(Z.T @ Z, _NEAR)(Z.T @ (wanted - column_means(wanted)))
                same = not self.held and same_space(self.ath, self.data)
                first.A[k] = self.features[k].back(A) if same else A
        return first

    def after(
        self, base: int, known: Mapping[int, Array], first: FirstProjections | None = None
    ) -> FirstProjections:
        """Let all domains without projections follow those of the base."""
        n = len(self.data.X)
        first = first or FirstProjections([], [None] * n, {})
        H, agreement = dict(known), first.agreement
        for k in range(n):
            if k in H:
                continue
            start = self._follow(base, k, known[base], first.A[base])
            H[k], first.A[k] = start.H_t, start.A_t
            _note_graph(first, base, k, start.W)
            if start.agreement is not None:
                agreement = min(start.agreement, 1.0 if agreement is None else agreement)
        return FirstProjections([H[k] for k in range(n)], first.A, first.W, agreement)

    def _follow(self, base: int, k: int, H: Array, A: Array | None) -> Start:
        start = part(self.ath, "start")
        if not hasattr(start, "follow"):
            raise InputError(
                f"{type(start).__name__} has no method `follow`, which frozen codes and a third "
                "domain need",
                "start",
            )
        context = self._context(base, k)
        known = Known(H)
        if base in self.held:
            frozen = self.held[base]
            known = replace(known, linear=frozen.linear)
            if comparable(self.ath, self.data, self.held, base, k):
                known = replace(known, of_target=partial(frozen.project, self.data.X[k]))
        elif A is not None:
            known = replace(known, linear=(partial(take_rows, context.X_s), A))
            if context.same_space:
                known = replace(known, of_target=partial(product, context.X_t, A))
        followed: Start = start.follow(context, known)
        return followed

    def _context(self, i: int, j: int) -> StartContext:
        """Return the inputs of a start for two domains, of which the first may be frozen."""
        data, ath = self.data, self.ath
        same = i not in self.held and same_space(ath, data, i, j)
        X_s: Any = None
        if i not in self.held:
            X_s = self.features[i].X if same else self.features[i].Z
        two = data.two(i, j)
        return StartContext(
            X_s,
            self.features[j].X if same else self.features[j].Z,
            two.y_source,
            two.y_target,
            same,
            ath.n_bits,
            _FIRST_RIDGE if ath.ridge == "auto" else ath.ridge,
            self.rng,
            (two.X_source, two.X_target),
            has_joint_mean(ath, data),
            two.pairs,
        )


def _note_graph(first: FirstProjections, i: int, j: int, W: Graph | None) -> None:
    if W is not None:
        first.W[min(i, j), max(i, j)] = W if i < j else W.T


# λ is chosen on a smaller problem, which has nearly the same best value.
_FEW_ROWS, _SHARE, _MANY_ROWS = 1000, 0.05, 2000  # per domain
_SOME_DIRECTIONS = 256


def chosen_lam(problem: Problem) -> float:
    """Choose λ by cycle consistency, or return a fixed value where that means nothing.

    With two feature spaces and no first graph, a bridge is as consistent as it is arbitrary, so it
    stays weak. Of more than two domains the first two decide.
    """
    ath, data, start = problem.ath, problem.data, problem.start
    same = all(
        comparable(ath, data, problem.held, 0, k) and ath.feature_map is None
        for k in range(1, len(data.X))
    )
    if not same and not start.W:
        return WEAK_LAM
    graphs = [part(ath, name) for name in ("source_graph", "target_graph", "bipartite")]
    given = not all(getattr(graph, "for_any_rows", False) for graph in graphs)
    if given or ath.ridge_towards is not None or problem.held:
        return FIRST_LAM
    rows = [
        rows_by_norm(
            problem.features[k].Z,
            int(np.clip(_SHARE * data.X[k].shape[0], _FEW_ROWS, _MANY_ROWS)),
        )
        for k in (0, 1)
    ]
    for graph, k in zip(graphs, (0, 1), strict=False):
        y = data.y[k]
        if y is None or not getattr(graph, "needs_labels", False):
            continue
        if len(set(y[rows[k]].tolist()) - {-1}) < 2:  # the few labels are outside the sample
            return FIRST_LAM
    few = {k: problem.features[k].reduced(rows[k], _SOME_DIRECTIONS) for k in (0, 1)}
    labels = [None if y is None else y[rows[k]] for k, y in enumerate(data.y[:2])]
    part_of_it = Domains(
        data.names[:2], (few[0].Z, few[1].Z), tuple(labels), data.two().pairs, data.classes
    )
    H = [take_rows(start.H[k], rows[k]) for k in (0, 1)]
    smaller = replace(
        problem,
        data=part_of_it,
        features=few,
        hub=None,
        start=FirstProjections(H, [None, None], {}),
    )
    with use_mapper(None):  # too small to be worth a cluster
        run = smaller.solver()
        consistency = CycleConsistency(few[0].Z, few[1].Z)

        def score(lam: float) -> float:
            A_s, A_t = run(lam).A
            return consistency(product(few[0].Z, A_s), product(few[1].Z, A_t))

        return best_lam(score)
