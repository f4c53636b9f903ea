"""SDH against the public code, its steps against their definitions, and descent."""

import numpy as np
import pytest

from bridgehash import SDH
from bridgehash.baselines._kernel import with_constant
from bridgehash.baselines.sdh import ClassifierTerm, code_sweeps
from tests.baselines.golden import BITS, assert_close, assert_same_bits
from tests.baselines.kernels import anchored, projector
from tests.cases import over_seeds

SEEDS = over_seeds(5)


def problem(seed, n=40, r=7, c=4):
    rng = np.random.default_rng(seed)
    B = np.where(rng.random((n, r)) < 0.5, -1.0, 1.0)
    return B, rng.normal(size=(r, c)), rng.normal(size=(n, r)), rng.permutation(np.arange(n) % c)


@BITS
def test_the_stored_run_is_found_again(stored, digits, n_bits):
    run = stored("sdh", n_bits)
    kernel = anchored(run, digits.X_source)
    phi = with_constant(kernel, digits.X_source)
    P, W, B = SDH()._alternate(phi, run.signs("B0"), ClassifierTerm(digits.y_source, 1.0))
    assert_close(P, run["P"], 1e-9)
    assert_close(W, run["G"], 1e-9)
    np.testing.assert_array_equal(B, run.signs("B"))
    assert_same_bits(run, digits, projector(kernel, P))


@SEEDS
def test_a_sweep_is_the_rule_of_the_paper_bit_by_bit(seed):
    B, W, Q, _ = problem(seed)
    expected = B.copy()
    for k in range(B.shape[1]):
        others = [j for j in range(B.shape[1]) if j != k]
        v = Q[:, k] - expected[:, others] @ W[others] @ W[k]
        expected[:, k] = np.where(v > 0, 1.0, -1.0)
    before = B.copy()
    np.testing.assert_array_equal(code_sweeps(B, W @ W.T, Q, 1), expected)
    np.testing.assert_array_equal(B, before)


@SEEDS
def test_sweeps_end_where_no_single_bit_would_help(seed):
    B, W, Q, _ = problem(seed)
    B = code_sweeps(B, W @ W.T, Q, 1000)

    def value(B):
        return ((B @ W) ** 2).sum(axis=1) - 2 * (B * Q).sum(axis=1)

    for k in range(B.shape[1]):
        flipped = B.copy()
        flipped[:, k] *= -1
        assert (value(flipped) >= value(B) - 1e-9).all()


def test_more_sweeps_than_needed_change_nothing():
    B, W, Q, _ = problem(0)
    settled = code_sweeps(B, W @ W.T, Q, 1000)
    np.testing.assert_array_equal(code_sweeps(settled, W @ W.T, Q, 1), settled)


@SEEDS
def test_the_weights_are_a_ridge_regression_of_the_labels(seed):
    B, _, _, y = problem(seed)
    Y = np.eye(4)[y]
    expected = np.linalg.solve(B.T @ B + 0.3 * np.eye(7), B.T @ Y)
    W = ClassifierTerm(y, 0.3).weights(B)
    np.testing.assert_allclose(W, expected, atol=1e-12)
    loss = ((Y - B @ W) ** 2).sum() + 0.3 * (W**2).sum()
    np.testing.assert_allclose(ClassifierTerm(y, 0.3).loss(B, W), loss)


@SEEDS
@pytest.mark.parametrize("fit_weight", [1e-5, 0.1, 10.0])
def test_no_step_raises_the_objective(seed, fit_weight):
    B, W, H, y = problem(seed)
    term = ClassifierTerm(y, 1.0)

    def value(B, W):
        return term.loss(B, W) + fit_weight * ((B - H) ** 2).sum()

    values = [value(B, W)]
    for _ in range(3):
        B = term.codes(B, W, fit_weight * H)
        values.append(value(B, W))
        W = term.weights(B)
        values.append(value(B, W))
    assert (np.diff(values) <= 1e-9 * values[0]).all()


@SEEDS
def test_the_recorded_objective_never_rises(seed):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(80, 5)), rng.integers(0, 4, 80)
    model = SDH(9, n_anchors=20, fit_weight=0.05, max_iter=20, tol=0.0, random_state=seed)
    found = model.fit(X, y).objective_
    assert len(found) == model.n_iter_ > 1
    assert (np.diff(found) <= 1e-9 * found[0]).all()
