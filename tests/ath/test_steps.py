"""Each step of Algorithm 1 against the paper's equation, and against everything it could be."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from bridgehash._core.linalg import SPDSolver, row_space
from bridgehash.ath.steps import (
    Domain,
    Objective,
    code_step,
    decorrelated,
    graph_gamma,
    graph_step,
    normal_matrix,
    objective,
    projection_step,
    simplex_projection,
)
from bridgehash.neighbors.graphs import KNNGraph, SparseGraph, label_graph
from tests import reference

SEEDS = st.integers(0, 2**32 - 1)
R, ETA = 3, 2
DOMAINS = ("source", "target")


@dataclass(frozen=True)
class Side:
    """One domain in the middle of a run: what is fixed, and the current A and B."""

    domain: Domain
    A: np.ndarray
    B: np.ndarray

    @property
    def H(self):
        return self.domain.X @ self.A


@dataclass(frozen=True)
class State:
    """The whole of a run at some moment; every update returns the state after it."""

    source: Side
    target: Side
    W: object  # a graph
    gamma: np.ndarray  # γ_i, held fixed
    lam: float
    ridge: float

    def total(self):
        """The objective as the product counts it, with the ridge of both A-steps."""
        sides = (self.source, self.target)
        terms = objective(
            (self.source.domain, self.target.domain),
            (self.source.H, self.target.H),
            (self.source.B, self.target.B),
            [(0, 1, self.W)],
            lam=self.lam,
        )
        ridge = self.ridge * sum(np.linalg.norm(side.A) ** 2 for side in sides)
        return Objective(*terms, ridge).total

    def seen_from(self, name):
        """The side itself, the graph as it sees it, and the projections across."""
        if name == "source":
            return self.source, self.W, self.target.H
        return self.target, self.W.T, self.source.H

    def after_projection_step(self, name):
        side, W, H_other = self.seen_from(name)
        Phi = normal_matrix(side.domain, W.degrees, lam=self.lam)
        solver = SPDSolver(Phi, self.ridge)
        A = projection_step(side.domain, solver, side.B, [(W, H_other)], lam=self.lam)
        return replace(self, **{name: replace(side, A=A)})

    def after_code_step(self, name):
        side = getattr(self, name)
        return replace(self, **{name: replace(side, B=code_step(side.H))})

    def after_graph_step(self):
        """γ_i follows from the current distances; before and after are compared with the same."""
        F = distances(self)
        order = np.argsort(F, axis=1)
        F_sorted = np.take_along_axis(F, order[:, : ETA + 1], axis=1)
        W = np.zeros_like(F)
        np.put_along_axis(W, order[:, :ETA], graph_step(F_sorted), axis=1)
        gamma = self.lam * graph_gamma(F_sorted)
        before = weighted(dense(self.W), gamma, self.lam)
        after = weighted(W, gamma, self.lam)
        return replace(self, W=before, gamma=gamma), replace(self, W=after, gamma=gamma)


def dense(W):
    return W @ np.eye(W.shape[1])


def distances(state):
    return reference.distances(state.source.H.T, state.target.H.T)


def weighted(W, gamma, lam):
    """A learned graph with its part of the objective, Σ γ_i ‖w_i‖² / λ."""
    return SparseGraph(csr_array(W), penalty=float(gamma @ (W**2).sum(axis=1)) / lam)


def balanced_codes(rng, n):
    B = -np.ones((n, R))
    B[: n // 2] = 1.0
    return rng.permuted(B, axis=0)


def random_state(seed, n_s=9, n_t=7, labelled=False):
    """Random A, balanced B, W on the simplex (or by labels) between domains of widths 4 and 5."""
    rng = np.random.default_rng(seed)

    def side(n, d):
        X = rng.normal(size=(n, d))
        y = rng.integers(-1, 2, n)
        graph = label_graph(y, y) if labelled else KNNGraph(2).build(X)
        alpha, beta = 10.0 ** rng.uniform(-1, 1, 2)
        domain = Domain(X - X.mean(axis=0), graph, alpha, beta)
        return Side(domain, rng.normal(size=(d, R)), balanced_codes(rng, n)), y

    (source, y_s), (target, y_t) = side(n_s, 4), side(n_t, 5)
    lam, ridge = 10.0 ** rng.uniform(-1, 1, 2)
    gamma = np.zeros(n_s) if labelled else rng.random(n_s)
    if labelled:
        W = label_graph(y_s, y_t)
    else:
        W = weighted(rng.dirichlet(np.ones(n_t), n_s), gamma, lam)
    return State(source, target, W, gamma, float(lam), float(ridge))


def twin_objective(state):
    """Eqs. 4, 6, 9 and the ridge, term by term, on columns and full matrices."""
    parts = [(side.domain, side.A, side.B.T, side.domain.X.T) for side in sides(state)]
    (_, A_s, _, X_s), (_, A_t, _, X_t) = parts
    return Objective(
        sum(reference.quantisation(d.alpha, B, A, X) for d, A, B, X in parts),
        reference.bridge(state.lam, dense(state.W), state.gamma, A_s, X_s, A_t, X_t),
        sum(reference.structure(d.beta, dense(d.graph), A, X) for d, A, _, X in parts),
        state.ridge * ((A_s**2).sum() + (A_t**2).sum()),
    )


def sides(state):
    return state.source, state.target


STATES = st.builds(
    random_state,
    SEEDS,
    n_s=st.integers(4, 9),
    n_t=st.integers(4, 9),
    labelled=st.booleans(),
)


# --- the objective


@given(state=STATES)
@settings(max_examples=25)
def test_objective_is_the_sum_over_all_pairs(state):
    terms = objective(
        (state.source.domain, state.target.domain),
        (state.source.H, state.target.H),
        (state.source.B, state.target.B),
        [(0, 1, state.W)],
        lam=state.lam,
    )
    np.testing.assert_allclose(terms, twin_objective(state)[:3], rtol=1e-9, atol=1e-9)


def test_total_adds_every_term():
    assert Objective(1.0, 20.0, 300.0, 4000.0).total == 4321.0


# --- the A-step


@pytest.mark.parametrize("name", DOMAINS)
@given(state=STATES)
@settings(max_examples=25)
def test_projection_step_is_eq_17(name, state):
    side, W, H_other = state.seen_from(name)
    d = side.domain
    expected = reference.projection(
        d.X.T,
        dense(d.graph),
        side.B.T,
        dense(W),
        H_other.T,
        alpha=d.alpha,
        beta=d.beta,
        lam=state.lam,
        ridge=state.ridge,
    )
    A = getattr(state.after_projection_step(name), name).A
    np.testing.assert_allclose(A, expected, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("labelled", [False, True])
@pytest.mark.parametrize("name", DOMAINS)
def test_projection_step_is_stationary(name, labelled):
    state = random_state(0, labelled=labelled)
    before, after = state, state.after_projection_step(name)
    assert np.abs(gradient(before, name)).max() > 1.0
    np.testing.assert_allclose(gradient(after, name), 0.0, atol=1e-6)


def gradient(state, name, step=1e-3):
    """Central differences of the written-out objective; exact for a quadratic, up to rounding."""
    side = getattr(state, name)
    G = np.zeros_like(side.A)
    for index in np.ndindex(*G.shape):
        values = []
        for sign in (1, -1):
            A = side.A.copy()
            A[index] += sign * step
            values.append(twin_objective(replace(state, **{name: replace(side, A=A)})).total)
        G[index] = (values[0] - values[1]) / (2 * step)
    return G


@pytest.mark.parametrize("labelled", [False, True])
def test_normal_matrix_is_that_of_eq_17(labelled):
    state = random_state(1, labelled=labelled)
    for name in DOMAINS:
        side, W, _ = state.seen_from(name)
        d, X = side.domain, side.domain.X
        L, D = reference.laplacian(dense(d.graph)), np.diag(dense(W).sum(axis=1))
        Phi = X.T @ (d.alpha * np.eye(len(X)) + d.beta * L + state.lam * D) @ X
        np.testing.assert_allclose(normal_matrix(d, W.degrees, lam=state.lam), Phi, atol=1e-10)


def test_no_structure_weight_needs_no_graph():
    domain = random_state(0).source.domain
    without = Domain(domain.X, None, domain.alpha, 0.0)
    degrees = np.arange(len(domain.X), dtype=float)
    Phi = normal_matrix(without, degrees, lam=0.5)
    weights = domain.alpha + 0.5 * degrees
    np.testing.assert_allclose(Phi, domain.X.T @ (weights[:, None] * domain.X))


@pytest.mark.parametrize("labelled", [False, True])
def test_solving_in_the_row_space_changes_nothing(labelled):
    rng = np.random.default_rng(0)
    n, n_other, d = 8, 6, 40
    X = rng.normal(size=(n, d))
    X -= X.mean(axis=0)  # rank n - 1: the dual, too, is singular but for the ridge
    y, y_other = rng.integers(0, 3, n), rng.integers(0, 3, n_other)
    W = label_graph(y, y_other) if labelled else SparseGraph(csr_array(rng.random((n, n_other))))
    B, H_other = balanced_codes(rng, n), rng.normal(size=(n_other, R))

    def solved(rows):
        graph = label_graph(y, y) if labelled else KNNGraph(3).build(rows)
        domain = Domain(rows, graph, alpha=0.3, beta=0.2, lower=rows is not X)
        solver = SPDSolver(normal_matrix(domain, W.degrees, lam=0.7), 1e-2)
        return projection_step(domain, solver, B, [(W, H_other)], lam=0.7)

    Z, back = row_space(X)
    assert Z.shape == (n, n - 1)
    direct, dual = solved(X), back(solved(Z))
    np.testing.assert_allclose(dual, direct, rtol=0, atol=1e-8 * np.abs(direct).max())


# --- the B-step


@given(seed=SEEDS, n=st.integers(1, 7))
@example(seed=0, n=6)
@example(seed=0, n=7)
def test_code_step_is_the_best_of_all_balanced_patterns(seed, n):
    H = np.random.default_rng(seed).normal(size=(n, R)) + 0.5  # not centred: signs would differ
    np.testing.assert_array_equal(code_step(H).T, reference.best_codes(H.T))


@pytest.mark.parametrize("n", [2, 7, 10])
def test_codes_are_balanced_with_one_more_negative_for_odd_n(n):
    B = code_step(np.random.default_rng(0).normal(size=(n, 4)))
    np.testing.assert_array_equal(B.sum(axis=0), -(n % 2))
    assert set(B.ravel()) == {-1.0, 1.0}


def test_tied_projections_go_by_position():
    np.testing.assert_array_equal(code_step(np.zeros((5, 1))).ravel(), [-1, -1, -1, 1, 1])
    many = np.tile([0.0, 1.0, 0.0], 400)  # all 400 ones, and the last 200 of the zeros
    expected = np.where(many > 0, 1.0, -1.0)
    expected[np.flatnonzero(many == 0)[-200:]] = 1.0
    np.testing.assert_array_equal(code_step(many[:, None]).ravel(), expected)


def test_code_step_keeps_the_input_and_its_type():
    H = np.random.default_rng(0).normal(size=(6, 2)).astype(np.float32)
    kept = H.copy()
    assert code_step(H).dtype == np.float32
    np.testing.assert_array_equal(H, kept)


@pytest.mark.parametrize("strength", [0.15, 0.5])
def test_decorrelation_raises_weak_directions_by_the_stated_power(strength):
    rng = np.random.default_rng(0)
    Q = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    U = np.linalg.qr(rng.normal(size=(50, 3)))[0]
    sizes = np.array([1.0, 0.5, 0.01])  # squares: 1, 0.25 and, below the least one, 0.0001
    expected = U * sizes * np.array([1.0, 0.25**-strength, 0.1**-strength]) @ Q.T
    np.testing.assert_allclose(decorrelated(U * sizes @ Q.T, strength), expected, atol=1e-12)


def test_decorrelation_of_zeros_is_zero():
    np.testing.assert_array_equal(decorrelated(np.zeros((4, 2)), 0.15), 0.0)


def test_without_decorrelation_the_code_step_is_that_of_the_paper():
    H = np.random.default_rng(0).normal(size=(20, 3)) @ np.diag([9.0, 1.0, 0.1])
    np.testing.assert_array_equal(code_step(H, 0.0), code_step(H))
    mixed = H @ np.linalg.qr(np.random.default_rng(1).normal(size=(3, 3)))[0]
    assert (code_step(mixed, 0.5) != code_step(mixed)).any()


# --- the W-step


@given(seed=SEEDS, n_t=st.integers(3, 9), eta=st.integers(1, 8), lam=st.floats(0.01, 100))
def test_graph_step_is_eq_21_with_gamma_of_eq_28(seed, n_t, eta, lam):
    eta = min(eta, n_t - 1)
    F = np.random.default_rng(seed).exponential(size=(4, n_t))
    F_sorted = np.sort(F, axis=1)[:, : eta + 1]
    weights, gamma = graph_step(F_sorted), graph_gamma(F_sorted)
    for i, row in enumerate(F):
        gamma_i = reference.row_gamma(row, eta, lam)
        np.testing.assert_allclose(lam * gamma[i], gamma_i, rtol=1e-9)
        expected = reference.graph_row(row, gamma_i, eta, lam)
        nearest_first = expected[np.argsort(row)]
        np.testing.assert_allclose(weights[i], nearest_first[:eta], atol=1e-9)
        np.testing.assert_allclose(nearest_first[eta:], 0.0, atol=1e-9)


@given(seed=SEEDS, eta=st.integers(1, 6), lam=st.floats(0.01, 100))
def test_graph_step_is_the_projection_onto_the_simplex(seed, eta, lam):
    F = np.random.default_rng(seed).exponential(size=8)
    F_sorted = np.sort(F)[None, : eta + 1]
    gamma_i = lam * graph_gamma(F_sorted)[0]
    expected = reference.simplex_point(-lam / (2 * gamma_i) * np.sort(F))  # all eight targets
    np.testing.assert_allclose(graph_step(F_sorted)[0], expected[:eta], atol=1e-9)
    np.testing.assert_allclose(expected[eta:], 0.0, atol=1e-9)


@given(seed=SEEDS, eta=st.integers(1, 6), scale=st.sampled_from([1e-12, 1.0, 1e12]))
def test_weights_are_positive_fall_with_distance_and_sum_to_one(seed, eta, scale):
    F_sorted = np.sort(np.random.default_rng(seed).exponential(size=(5, eta + 1)), axis=1)
    weights = graph_step(scale * F_sorted)
    assert weights.shape == (5, eta)
    np.testing.assert_allclose(weights.sum(axis=1), 1.0)
    assert (weights > 0).all()
    assert (np.diff(weights, axis=1) < 0).all()
    np.testing.assert_allclose(weights, graph_step(F_sorted), rtol=1e-9)


@pytest.mark.parametrize("value", [0.0, 2.5])
def test_equally_far_targets_share_evenly(value):
    F_sorted = np.array([[value] * 4, [value, value, value, value + 1]])
    np.testing.assert_allclose(graph_step(F_sorted), 1 / 3)
    np.testing.assert_allclose(graph_gamma(F_sorted), [0.0, 1.5])


@given(seed=SEEDS, k=st.integers(1, 7), scale=st.sampled_from([0.1, 1.0, 10.0]))
def test_simplex_projection_is_the_closest_point(seed, k, scale):
    V = scale * np.random.default_rng(seed).normal(size=(3, k))
    expected = np.array([reference.simplex_point(v) for v in V])
    np.testing.assert_allclose(simplex_projection(V), expected, atol=1e-10)


def test_simplex_projection_leaves_its_points_alone():
    V = np.random.default_rng(0).dirichlet(np.ones(5), 4)
    np.testing.assert_allclose(simplex_projection(V), V, atol=1e-12)
    np.testing.assert_array_equal(simplex_projection(np.array([[9.0, 0.0]])), [[1.0, 0.0]])


# --- descent


@pytest.mark.parametrize("name", DOMAINS)
@given(state=STATES)
@settings(max_examples=30)
def test_projection_step_never_raises_the_objective(name, state):
    after = state.after_projection_step(name)
    assert after.total() <= state.total() * (1 + 1e-12)
    again = after.after_projection_step(name)
    np.testing.assert_allclose(again.total(), after.total(), rtol=1e-9)


@pytest.mark.parametrize("name", DOMAINS)
@given(state=STATES)
@settings(max_examples=30)
def test_code_step_never_raises_the_objective(name, state):
    assert state.after_code_step(name).total() <= state.total() * (1 + 1e-12)


@given(state=STATES.filter(lambda state: isinstance(state.W, SparseGraph)))
@settings(max_examples=30)
def test_graph_step_never_raises_the_objective_with_gamma_held(state):
    before, after = state.after_graph_step()
    assert after.total() <= before.total() * (1 + 1e-12)


@given(state=STATES.filter(lambda state: isinstance(state.W, SparseGraph)))
@settings(max_examples=30)
def test_no_move_along_the_simplex_lowers_the_objective(state):
    _, best = state.after_graph_step()
    W = dense(best.W)
    for i in range(W.shape[0]):
        for j in range(W.shape[1]):
            moved = 0.999 * W
            moved[i, j] += 0.001
            moved[np.arange(len(W)) != i] = W[np.arange(len(W)) != i]
            rival = replace(best, W=weighted(moved, best.gamma, best.lam))
            assert rival.total() >= best.total() * (1 - 1e-12)
