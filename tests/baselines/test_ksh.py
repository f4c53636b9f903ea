"""KSH against the public code, its products and gradient against their definitions."""

import numpy as np
import pytest
from scipy.linalg import eigh
from scipy.optimize import approx_fprime

from bridgehash import KSH
from bridgehash.baselines.ksh import (
    Residual,
    greedy_bits,
    invertible,
    refine,
    smooth_loss,
    spectral_start,
)
from tests.baselines.golden import assert_close, assert_same_bits
from tests.baselines.kernels import anchored
from tests.cases import over_seeds

SEEDS = over_seeds(5)


def problem(seed, n=40, m=6, c=3, r=8, n_found=2):
    """Centred rows, their classes, the residual after some bits, and the same as a matrix."""
    rng = np.random.default_rng(seed)
    K, y = rng.normal(size=(n, m)), rng.permutation(np.arange(n) % c)
    R, dense = Residual(y, r), r * similarity(y)
    for _ in range(n_found):
        b = np.where(rng.random(n) < 0.5, -1.0, 1.0)
        R.subtract(b)
        dense -= np.outer(b, b)
    return K - K.mean(axis=0), y, R, dense


def similarity(y):
    return np.where(y[:, None] == y, 1.0, -1.0)


@pytest.mark.parametrize("n_bits", [16, pytest.param(64, marks=pytest.mark.slow)])
def test_the_stored_run_is_found_again(stored, digits, n_bits):
    run, X = stored("ksh", n_bits), digits.X_source
    kernel = anchored(run, X, 2 * float(run["sigma"]))
    K = kernel.transform(X)
    mean, rows = K.mean(axis=0), run["label_idx"]
    assert_close(mean, run["mvec"][0], 1e-12)
    A, *_ = greedy_bits(K[rows] - mean, digits.y_source[rows], n_bits, 500)
    A = A * np.sign((A * run["A"]).sum(axis=0))  # the sign of an eigenvector is free
    assert_close(A, run["A"], 1e-8)
    assert_same_bits(run, digits, lambda X: (kernel.transform(X) - mean) @ A)


def test_the_stored_width_is_the_mean_squared_distance(stored, digits):
    run = stored("ksh", 16)
    kernel = anchored(run, digits.X_source, "twice-mean")
    np.testing.assert_allclose(kernel._width(digits.X_source), 2 * run["sigma"], rtol=1e-12)


@SEEDS
def test_the_residual_is_the_matrix_that_it_stands_for(seed):
    _, _, R, dense = problem(seed)
    p = np.random.default_rng(seed).normal(size=40)
    np.testing.assert_allclose(R @ p, dense @ p, atol=1e-10)
    np.testing.assert_allclose(R.explained(p), p @ dense @ p)
    np.testing.assert_allclose(R.square, (dense**2).sum())


@SEEDS
def test_the_gradient_is_that_of_the_loss(seed):
    K, _, R, dense = problem(seed)
    a = np.random.default_rng(seed).normal(size=6)

    def loss(a):
        p = 2 / (1 + np.exp(-K @ a)) - 1
        return -p @ dense @ p

    g, slope = smooth_loss(R, K @ a)
    np.testing.assert_allclose(g, loss(a))
    np.testing.assert_allclose(K.T @ slope, approx_fprime(a, loss, 1e-7), rtol=1e-4, atol=1e-3)


def test_the_loss_is_finite_for_any_projection():
    _, _, R, _ = problem(0)
    g, slope = smooth_loss(R, np.linspace(-1e6, 1e6, 40))
    assert np.isfinite(g)
    assert np.isfinite(slope).all()


@SEEDS
def test_the_start_is_the_best_direction_without_the_sign(seed):
    K, _, _, dense = problem(seed)
    a = spectral_start(K, K.T @ dense @ K, invertible(K.T @ K))
    h = K @ a
    np.testing.assert_allclose(h @ h, 40)
    assert (h**3).sum() > 0
    other = spectral_start(-K, K.T @ dense @ K, invertible(K.T @ K))
    np.testing.assert_array_equal(other, -a)
    w = eigh(K.T @ dense @ K, K.T @ K, eigvals_only=True)
    np.testing.assert_allclose(h @ dense @ h / (h @ h), w[-1])


@SEEDS
def test_refinement_lowers_the_loss_and_stops(seed):
    K, _, R, _ = problem(seed)
    a = 0.3 * np.random.default_rng(seed).normal(size=6)
    refined, n_steps = refine(K, R, a, 500)
    assert 1 < n_steps <= 500
    assert smooth_loss(R, K @ refined)[0] < smooth_loss(R, K @ a)[0]
    np.testing.assert_array_equal(refine(K, R, a, 0)[0], a)


@SEEDS
def test_a_step_of_the_refinement_goes_down_the_gradient(seed):
    K, _, R, _ = problem(seed)
    a = np.random.default_rng(seed).normal(size=6)
    gradient = K.T @ smooth_loss(R, K @ a)[1]
    step = refine(K, R, a, 1)[0] - a
    np.testing.assert_allclose(step / -gradient, np.full(6, step[0] / -gradient[0]))
    assert step[0] / -gradient[0] > 0


@SEEDS
def test_the_recorded_objective_is_its_definition(seed):
    K, y, _, _ = problem(seed)
    A, found, _ = greedy_bits(K, y, 5, 50)
    B = np.where(K @ A > 0, 1.0, -1.0)
    for t, value in enumerate(found, start=1):
        expected = ((B[:, :t] @ B[:, :t].T / 5 - similarity(y)) ** 2).sum()
        np.testing.assert_allclose(value, expected)


@SEEDS
def test_a_refined_bit_is_kept_only_where_it_is_better(seed):
    K, y, _, _ = problem(seed)
    first = [greedy_bits(K, y, 5, max_iter)[1][0] for max_iter in (0, 1, 50)]
    assert max(first[1:]) <= first[0]


def test_a_ridge_is_added_to_singular_matrices_alone():
    C = np.diag([1.0, 2.0, 3.0])
    assert invertible(C) is C
    C[0, 0] = 0.0
    np.testing.assert_allclose(invertible(C), C + 5e-8 / 3 * np.eye(3))
    np.testing.assert_array_equal(invertible(np.zeros((2, 2))), np.eye(2))


def test_bits_are_signs_of_a_centred_kernel():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 5)), rng.integers(0, 3, 60)
    model = KSH(4, n_anchors=20, random_state=0).fit(X, y)
    K = model.encoder_.maps[0].transform(X)
    np.testing.assert_allclose(model.encoder_.mean, K.mean(axis=0))
    _, found, n_steps = greedy_bits(K - K.mean(axis=0), y, 4, 500)
    np.testing.assert_allclose(model.objective_, found)
    assert model.n_iter_ == n_steps
    B = model.transform(X).astype(float)
    np.testing.assert_allclose(found[-1], ((B @ B.T / 4 - similarity(y)) ** 2).sum())


def test_the_rows_for_similarities_are_drawn_or_all():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 5)), rng.integers(0, 3, 60)

    def projections(n_labelled):
        return KSH(4, n_labelled=n_labelled, random_state=0).fit(X, y).decision_function(X)

    np.testing.assert_array_equal(projections(60), projections(2000))
    assert np.abs(projections(59) - projections(60)).max() > 1e-3


def test_repeated_anchors_are_allowed():
    rng = np.random.default_rng(0)
    X, y = np.repeat(rng.normal(size=(12, 3)), 5, axis=0), np.repeat(np.arange(12) % 3, 5)
    B = KSH(8, random_state=0).fit(X, y).transform(X)
    inside = np.array([[(B[i] @ B[j]) for j in range(60)] for i in range(60)])
    assert inside[similarity(y) > 0].mean() > 4 > 0 > inside[similarity(y) < 0].mean()
