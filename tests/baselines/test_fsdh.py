"""FSDH against the public port, its steps against their definitions, and the codes of classes."""

import numpy as np

from bridgehash import FSDH
from bridgehash.baselines._kernel import with_constant
from bridgehash.baselines.fsdh import ClassCodeTerm
from tests.baselines.golden import BITS, assert_close, assert_same_bits
from tests.baselines.kernels import anchored, projector
from tests.cases import over_seeds

SEEDS = over_seeds(5)


def problem(seed, n=40, r=7, c=4):
    rng = np.random.default_rng(seed)
    B = np.where(rng.random((n, r)) < 0.5, -1.0, 1.0)
    return B, rng.normal(size=(c, r)), rng.normal(size=(n, r)), rng.permutation(np.arange(n) % c)


@BITS
def test_the_stored_run_is_found_again(stored, digits, n_bits):
    run = stored("fsdh", n_bits)
    kernel = anchored(run, digits.X_source)
    phi = with_constant(kernel, digits.X_source)
    P, W, B = FSDH()._alternate(phi, run.signs("B0"), ClassCodeTerm(digits.y_source, 1.0))
    assert_close(P, run["P"], 1e-9)
    assert_close(W, run["G"], 1e-9)
    np.testing.assert_array_equal(B, run.signs("B"))
    assert_same_bits(run, digits, projector(kernel, P))


@SEEDS
def test_the_weights_are_a_ridge_regression_of_the_codes(seed):
    B, _, _, y = problem(seed)
    Y = np.eye(4)[y]
    expected = np.linalg.solve(Y.T @ Y + 0.3 * np.eye(4), Y.T @ B)
    W = ClassCodeTerm(y, 0.3).weights(B)
    np.testing.assert_allclose(W, expected, atol=1e-12)
    loss = ((B - Y @ W) ** 2).sum() + 0.3 * (W**2).sum()
    np.testing.assert_allclose(ClassCodeTerm(y, 0.3).loss(B, W), loss)


@SEEDS
def test_no_other_codes_are_better_than_those_of_one_step(seed):
    B, W, H, y = problem(seed)
    codes = ClassCodeTerm(y, 1.0).codes(B, W, 0.5 * H)

    def values(B):
        return (B - W[y]) ** 2 + 0.5 * (B - H) ** 2

    assert (values(codes) <= values(-codes)).all()
    assert set(np.unique(codes)) == {-1.0, 1.0}


@SEEDS
def test_no_step_raises_the_objective(seed):
    B, W, H, y = problem(seed)
    term = ClassCodeTerm(y, 1.0)

    def value(B, W):
        return term.loss(B, W) + 0.5 * ((B - H) ** 2).sum()

    values = [value(B, W)]
    for _ in range(3):
        B = term.codes(B, W, 0.5 * H)
        values.append(value(B, W))
        W = term.weights(B)
        values.append(value(B, W))
    assert (np.diff(values) <= 1e-9 * values[0]).all()


@SEEDS
def test_the_recorded_objective_never_rises(seed):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(80, 5)), rng.integers(0, 4, 80)
    model = FSDH(9, n_anchors=20, fit_weight=5.0, max_iter=20, tol=0.0, random_state=seed)
    found = model.fit(X, y).objective_
    assert len(found) == model.n_iter_ > 1
    assert (np.diff(found) <= 1e-9 * found[0]).all()


def test_from_random_rows_the_majority_is_the_code_of_a_class():
    rng = np.random.default_rng(0)
    y, B = (
        np.arange(63) % 3,
        np.where(rng.random((63, 8)) < 0.5, -1.0, 1.0),
    )  # 21 per class: no ties
    term = ClassCodeTerm(y, 1.0)
    codes = term.codes(B, term.weights(B), np.zeros_like(B))
    for c in range(3):
        majority = np.sign(B[y == c].sum(axis=0))
        np.testing.assert_array_equal(codes[y == c], np.tile(majority, (21, 1)))
