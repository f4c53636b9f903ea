"""PSCA: every step is the best one, and prototypes never move; published level on digits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from bridgehash import PSCA
from bridgehash._core.linalg import procrustes, random_orthonormal
from bridgehash.baselines.psca import (
    AlignmentProblem,
    consistency,
    membership_step,
    objective,
    projection_step,
    prototype_distances,
    quantise,
)
from bridgehash.codes import signs
from tests.cases import over_seeds

SEEDS = over_seeds(4)


def state(seed, c=3):
    rng = np.random.default_rng(seed)
    y_s = rng.permutation(np.arange(20) % c)
    X_s, X_t = rng.normal(size=(20, 5)) + y_s[:, None], rng.normal(size=(14, 5)) + 1.0
    problem = AlignmentProblem(X_s, y_s, X_t, lam_means=3.0, lam_sparse=0.7)
    R = rng.dirichlet(np.ones(c), size=14)
    psi = np.zeros_like(R)
    psi[np.arange(14), rng.integers(0, c, 14)] = rng.random(14)
    return problem, R, psi


def test_distances_are_those_to_the_unit_vectors():
    H = np.random.default_rng(0).normal(size=(6, 4))
    expected = ((H[:, None] - np.eye(4)) ** 2).sum(axis=2)
    np.testing.assert_allclose(prototype_distances(H), expected)


@SEEDS
def test_the_projection_step_never_raises_the_objective(seed):
    problem, R, psi = state(seed)
    P = projection_step(problem, R, None)
    for _ in range(6):
        better = projection_step(problem, R, P)
        before, after = (objective(problem, Q, R, psi) for Q in (P, better))
        assert after <= before + 1e-9 * abs(before)
        P = better


@SEEDS
def test_the_projection_step_converges_to_a_stationary_point(seed):
    problem, R, psi = state(seed)
    P = projection_step(problem, R, None)
    for _ in range(400):
        P = projection_step(problem, R, P)
    alive = np.linalg.norm(P, axis=1) > 1e-6
    for i in np.flatnonzero(alive):
        for j in range(P.shape[1]):
            step = np.zeros_like(P)
            step[i, j] = 1e-5
            slope = (
                objective(problem, P + step, R, psi) - objective(problem, P - step, R, psi)
            ) / 2e-5
            assert abs(slope) < 1e-3


@given(st.integers(0, 10_000), st.integers(2, 6))
def test_the_membership_step_is_the_best_on_the_simplex(seed, c):
    rng = np.random.default_rng(seed)
    F = rng.exponential(size=(5, c))
    psi = np.zeros_like(F)
    psi[np.arange(5), rng.integers(0, c, 5)] = rng.exponential(size=5) * rng.choice([0.1, 1.0])
    R = membership_step(F, psi)
    assert (R >= 0).all()
    np.testing.assert_allclose(R.sum(axis=1), 1.0)

    def value(rows):
        return (rows**2 * F).sum(axis=1) - (psi * np.log(np.maximum(rows, 1e-300))).sum(axis=1)

    for other in (rng.dirichlet(np.ones(c), size=5), np.full((5, c), 1 / c)):
        for t in (1e-3, 0.1, 1.0):
            assert (value(R) <= value((1 - t) * R + t * other) + 1e-9).all()


def test_the_membership_step_agrees_with_a_solver():
    F, psi = np.array([[0.5, 0.2, 0.9]]), np.array([[0.0, 0.0, 0.3]])
    found = minimize(
        lambda r: (r**2 * F[0]).sum() - (psi[0] * np.log(r)).sum(),
        x0=np.full(3, 1 / 3),
        bounds=[(1e-9, 1)] * 3,
        constraints={"type": "eq", "fun": lambda r: r.sum() - 1},
        tol=1e-12,
    )
    np.testing.assert_allclose(membership_step(F, psi)[0], found.x, atol=1e-4)


def test_a_strong_pseudo_label_takes_all():
    R = membership_step(np.array([[0.5, 0.2]]), np.array([[2.0, 0.0]]))
    np.testing.assert_array_equal(R, [[1.0, 0.0]])


def test_consistency_by_hand():
    F = np.array([[0.1, 0.5, 0.9], [0.4, 0.2, 0.8]])
    probabilities = np.array([[0.6, 0.3, 0.1], [0.7, 0.2, 0.1]])
    psi = consistency(F, probabilities)
    np.testing.assert_allclose(psi[0], [0.3 / 0.4, 0, 0])  # both say class 0
    np.testing.assert_allclose(psi[1], [0.7 * (1 - 0.5), 0, 0])  # place says 1, label says 0


@SEEDS
def test_at_the_best_projection_the_prototypes_stay_where_they_are(seed):
    """O = procrustes(PᵀXᵀW) gives O back, whatever O is: it need not be learned."""
    problem, R, _ = state(seed)
    M = projection_step(problem, R, None)
    prototypes = random_orthonormal(7, 3, np.random.RandomState(seed))
    W = np.vstack([np.eye(3)[problem.y_s], R**2])
    X = np.vstack([problem.X_s, problem.X_t])
    P = M @ prototypes.T
    np.testing.assert_allclose(procrustes(P.T @ X.T @ W), prototypes, atol=1e-8)


@SEEDS
@pytest.mark.parametrize(("width", "n_bits"), [(4, 4), (3, 8)])
def test_quantising_never_loses_more(seed, width, n_bits):
    rng = np.random.default_rng(seed)
    D_s, D_t = rng.normal(size=(30, width)), rng.normal(size=(20, width))
    W = random_orthonormal(width, n_bits, np.random.RandomState(seed))
    lam, W_s, W_t, losses = 5.0, W, W, []
    for _ in range(8):  # the loop of `quantise`, with a look at the loss after every step
        B_s, B_t = signs(D_s @ W_s).astype(float), signs(D_t @ W_t).astype(float)

        def loss(V_s, V_t, B_s=B_s, B_t=B_t):
            agree = lam * ((V_s - V_t) ** 2).sum()
            return ((D_s @ V_s - B_s) ** 2).sum() + ((D_t @ V_t - B_t) ** 2).sum() + agree

        losses.append(loss(W_s, W_t))
        W_s = procrustes(D_s.T @ B_s + lam * W_t)
        losses.append(loss(W_s, W_t))
        W_t = procrustes(D_t.T @ B_t + lam * W_s)
        losses.append(loss(W_s, W_t))
    assert (np.diff(losses) <= 1e-9).all()
    B_s, B_t = quantise(D_s, D_t, W, lam, 8)
    np.testing.assert_array_equal(B_s, signs(D_s @ W_s))
    np.testing.assert_array_equal(B_t, signs(D_t @ W_t))


def test_digits_reach_the_published_level(digits):
    """Published: 87.4 across; one stored split, 64 bits. The linear function stays below."""
    from bridgehash.datasets import TransferTask
    from bridgehash.metrics.evaluate import evaluate

    task = TransferTask(
        digits.X_source,
        digits.X_target,
        digits.X_query,
        digits.y_source,
        digits.y_target,
        digits.y_query,
    )

    def area(**parameters):
        model = PSCA(64, random_state=0, **parameters)
        model.fit(task.X_source, task.X_target, y_source=task.y_source)
        assert (model.memberships_.argmax(axis=1) == task.y_target).mean() > 0.75
        return evaluate(model, task).cross.radius_pr_area

    assert area() > 0.84
    assert 0.70 < area(out_of_sample="linear") < 0.84
