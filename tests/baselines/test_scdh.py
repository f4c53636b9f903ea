"""SCDH against the public code, the constraints on Z, and descent of every step."""

import numpy as np
import pytest

from bridgehash import SCDH
from bridgehash._core.linalg import RidgeSolver
from bridgehash.baselines._kernel import with_constant
from bridgehash.baselines.scdh import code_step, completion, objective, relaxed_step
from bridgehash.codes import signs
from bridgehash.neighbors.graphs import label_graph
from tests.baselines.golden import BITS, assert_close, assert_same_bits
from tests.baselines.kernels import anchored, projector
from tests.cases import over_seeds

SEEDS = over_seeds(5)
WEIGHTS = {"lam": 3.0, "alpha": 0.4, "beta": 0.7}


def problem(seed, n=30, r=6, c=3, m=8):
    """φ, labels, their graph, codes, and a source of random columns."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n) % c)
    B = np.where(rng.random((n, r)) < 0.5, -1.0, 1.0)
    return rng.normal(size=(n, m)), y, label_graph(y, y), B, lambda *shape: rng.normal(size=shape)


def similarity(y):
    return np.where(y[:, None] == y, 1.0, -1.0)


@BITS
def test_the_stored_run_is_found_again(stored, digits, n_bits):
    run, y = stored("scdh", n_bits), digits.y_source
    kernel = anchored(run, digits.X_source, kernel="exponential")
    extra = (run.uniform(f"UY{i}") for i in range(1, 10))
    phi, B = with_constant(kernel, digits.X_source), signs(run.normal("Z0")).astype(float)
    model = SCDH(n_bits)
    P, B = model._alternate(phi, label_graph(y, y), B, lambda n, k: next(extra))
    assert_close(P, run["P"], 1e-6)  # distances of anchors to themselves are roots of rounding
    np.testing.assert_array_equal(B, run.signs("B"))
    assert_same_bits(run, digits, projector(kernel, P))
    assert model.n_iter_ < 10  # it settled, and the rounds left out would have changed nothing


@SEEDS
@pytest.mark.parametrize("r", [2, 6, 29])
def test_relaxed_codes_are_balanced_and_uncorrelated(seed, r):
    _, _, graph, B, draw = problem(seed, r=r)
    for codes in (B, np.where(graph @ B > 0, 1.0, -1.0)):  # of full rank, and one word a class
        Z = relaxed_step(graph, codes, 0.1, draw)
        np.testing.assert_allclose(Z.sum(axis=0), 0.0, atol=1e-9)
        np.testing.assert_allclose(Z.T @ Z, 30 * np.eye(r), atol=1e-9)


def test_relaxed_codes_as_many_as_rows_are_a_projection():
    _, _, graph, B, draw = problem(0, n=9, r=12)
    Z = relaxed_step(graph, B, 0.1, draw)
    np.testing.assert_allclose(Z.sum(axis=0), 0.0, atol=1e-9)
    G = Z.T @ Z / 9
    np.testing.assert_allclose(G @ G, G, atol=1e-9)
    np.testing.assert_allclose(np.trace(G), 8)


@SEEDS
@pytest.mark.parametrize("word_per_class", [False, True])
def test_relaxed_codes_are_the_best_of_their_kind(seed, word_per_class):
    _, y, graph, B, draw = problem(seed)
    if word_per_class:
        B = np.where(graph @ B > 0, 1.0, -1.0)
    E = 6 * similarity(y) @ B + 0.4 * B
    E -= E.mean(axis=0)
    found = np.vdot(relaxed_step(graph, B, 0.4, draw), E)
    np.testing.assert_allclose(found, np.sqrt(30) * np.linalg.norm(E, "nuc"))
    for _ in range(20):
        other = np.sqrt(30) * completion(np.empty((30, 0)), draw(30, 6))
        assert np.vdot(other, E) < found


def test_a_completion_is_orthonormal_balanced_and_apart():
    rng = np.random.default_rng(0)
    U = completion(np.empty((20, 0)), rng.normal(size=(20, 3)))
    Q = np.hstack([U, completion(U, rng.normal(size=(20, 16)))])
    np.testing.assert_allclose(Q.T @ Q, np.eye(19), atol=1e-12)
    np.testing.assert_allclose(Q.sum(axis=0), 0.0, atol=1e-12)
    almost_inside = U @ rng.normal(size=(3, 4)) + 1e-8 * rng.normal(size=(20, 4))
    np.testing.assert_allclose(U.T @ completion(U, almost_inside), 0.0, atol=1e-12)


@SEEDS
def test_the_objective_is_its_definition(seed):
    phi, y, graph, B, draw = problem(seed)
    Z, P = draw(30, 6), draw(8, 6)
    H = phi @ P
    expected = (
        ((6 * similarity(y) - B @ Z.T) ** 2).sum()
        + 3.0 * ((H - B) ** 2).sum()
        + 0.4 * ((B - Z) ** 2).sum()
        + 0.7 * (P**2).sum()
    )
    np.testing.assert_allclose(objective(graph, B, Z, H, P, **WEIGHTS), expected)


@SEEDS
def test_no_single_bit_would_be_better_flipped(seed):
    phi, _, graph, B, draw = problem(seed)
    P = draw(8, 6)
    H, Z = phi @ P, relaxed_step(graph, B, 0.4, draw)
    B = code_step(graph, Z, H, 3.0, 0.4)
    best = objective(graph, B, Z, H, P, **WEIGHTS)
    for i, k in np.ndindex(*B.shape):
        flipped = B.copy()
        flipped[i, k] *= -1
        assert objective(graph, flipped, Z, H, P, **WEIGHTS) >= best


@SEEDS
def test_no_step_raises_the_objective(seed):
    phi, _, graph, B, draw = problem(seed)
    regress, P = RidgeSolver(phi, 0.7 / 3.0), draw(8, 6)
    Z = np.sqrt(30) * completion(np.empty((30, 0)), draw(30, 6))

    def value():
        return objective(graph, B, Z, phi @ P, P, **WEIGHTS)

    values = [value()]
    for _ in range(3):
        P = regress(B)
        values.append(value())
        Z = relaxed_step(graph, B, 0.4, draw)
        values.append(value())
        B = code_step(graph, Z, phi @ P, 3.0, 0.4)
        values.append(value())
    assert (np.diff(values) <= 1e-9 * values[0]).all()


def test_the_rounds_take_these_steps_in_turn():
    phi, _, graph, B, _ = problem(0)
    model = SCDH(fit_weight=3.0, relaxed_weight=0.4, ridge=0.7, max_iter=2)
    draw = np.random.RandomState(1).standard_normal
    P, codes = model._alternate(phi, graph, B, lambda *shape: draw(shape))
    draw, regress = np.random.RandomState(1).standard_normal, RidgeSolver(phi, 0.7 / 3.0)
    for value in model.objective_:
        expected = regress(B)
        Z = relaxed_step(graph, B, 0.4, lambda *shape: draw(shape))
        B = code_step(graph, Z, phi @ expected, 3.0, 0.4)
        assert value == objective(graph, B, Z, phi @ expected, expected, **WEIGHTS)
    np.testing.assert_array_equal(codes, B)
    np.testing.assert_array_equal(P, expected)


@SEEDS
def test_the_recorded_objective_never_rises(seed):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(80, 5)), rng.integers(0, 4, 80)
    model = SCDH(9, n_anchors=20, fit_weight=1e4, random_state=seed).fit(X, y)
    found = model.objective_
    assert len(found) == model.n_iter_ > 1
    assert (np.diff(found) <= 1e-9 * found[0]).all()


def test_the_kernel_is_a_choice():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 5)), rng.integers(0, 4, 40)
    gaussian, exponential = (
        SCDH(9, kernel=kernel, random_state=0).fit(X, y).encoder_.maps[-1]
        for kernel in ("gaussian", "exponential")
    )
    np.testing.assert_allclose(
        np.log(gaussian.transform(X)), -0.32 * np.log(exponential.transform(X)) ** 2, atol=1e-6
    )
