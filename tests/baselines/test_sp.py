"""SP against the public code, and its steps one by one."""

from math import ceil

import numpy as np
import pytest

from bridgehash import SP
from bridgehash._core.linalg import pca
from bridgehash.baselines.sp import largest_weights, sparse_projections
from bridgehash.codes import signs
from tests.baselines.golden import BITS, assert_close, assert_same_bits


def one_round(X, P, R, n_weights, beta):
    """The rows of R and Q are those of the paper; SVD and threshold spelled out."""
    T = (signs(X @ R) + beta * X @ R) / (1 + beta)
    U, _, Vt = np.linalg.svd((X @ P).T @ T, full_matrices=False)
    Q = P @ U @ Vt
    cut = np.sort(np.abs(Q), axis=None)[-n_weights]
    return np.where(np.abs(Q) >= cut, Q, 0.0), Q


@BITS
def test_the_stored_run_is_found_again(stored, digits, n_bits):
    run, digits = stored("sp", n_bits), digits.centred()
    X, R = digits.stacked, run.normal("randn_start").T
    R, Q, _ = sparse_projections(X, run["pc"], R, ceil(0.1 * R.size), beta=1.0, n_iter=51)
    assert_close(R.T, run["R"], 1e-12)
    assert_close(Q.T, run["Q"], 1e-12)
    assert_same_bits(run, digits, lambda X: X @ R)


@pytest.mark.parametrize("beta", [0.0, 0.3, 4.0])
@pytest.mark.parametrize("n_bits", [4, 6, 9])
def test_a_round_is_the_one_of_the_public_code(beta, n_bits):
    rng = np.random.default_rng(n_bits)
    X = rng.normal(size=(50, 6)) * [5, 4, 3, 2, 2, 1]
    X -= X.mean(axis=0)
    R0, P = rng.normal(size=(6, n_bits)), pca(X, n_bits)
    n_weights = 5 * n_bits
    R, Q, objective = sparse_projections(X, P, R0, n_weights, beta, n_iter=1)
    R_twin, Q_twin = one_round(X, P, R0, n_weights, beta)
    np.testing.assert_allclose(Q, Q_twin, atol=1e-12)
    np.testing.assert_allclose(R, R_twin, atol=1e-12)
    loss = ((X @ Q - signs(X @ Q)) ** 2).sum() + beta * ((X @ Q - X @ R) ** 2).sum()
    np.testing.assert_allclose(objective, [loss])


def test_beyond_the_features_q_is_the_solution_in_the_whole_space():
    rng = np.random.default_rng(0)
    X, R = rng.normal(size=(40, 5)), rng.normal(size=(5, 8))
    X -= X.mean(axis=0)
    _, Q, _ = sparse_projections(X, pca(X, 8), R, 40, beta=1.0, n_iter=1)
    U, _, Vt = np.linalg.svd(X.T @ (signs(X @ R) + X @ R), full_matrices=False)
    np.testing.assert_allclose(Q, U @ Vt, atol=1e-12)
    np.testing.assert_allclose(Q @ Q.T, np.eye(5), atol=1e-12)


@pytest.mark.parametrize("n_weights", [0, 1, 7, 12])
def test_the_largest_weights_stay_and_no_bit_is_without_one(n_weights):
    Q = np.random.default_rng(n_weights).normal(size=(4, 3))
    R = largest_weights(Q, n_weights)
    by_size = np.argsort(-np.abs(Q), axis=None)
    must_stay = set(by_size[:n_weights]) | {
        np.ravel_multi_index((i, j), Q.shape) for j, i in enumerate(np.abs(Q).argmax(axis=0))
    }
    assert set(np.flatnonzero(R)) == must_stay
    np.testing.assert_array_equal(R[R != 0], Q[R != 0])


@pytest.mark.parametrize(("sparsity", "n_weights"), [(0.0, 120), (0.5, 60), (0.9, 12)])
def test_sparsity_is_the_share_of_zeros(sparsity, n_weights):
    X = np.random.default_rng(0).normal(size=(60, 20))
    R = SP(6, sparsity=sparsity, random_state=0).fit(X).encoder_.projection_
    assert n_weights <= np.count_nonzero(R) <= n_weights + 6


def test_no_bit_is_constant_at_the_highest_sparsity():
    X = np.random.default_rng(0).normal(size=(60, 20))
    B = SP(6, sparsity=1.0, random_state=0).fit(X).transform(X)
    assert (np.abs(B.mean(axis=0)) < 1).all()
