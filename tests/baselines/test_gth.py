"""GTH against the public code, its steps against their definitions, and its descent."""

import numpy as np
import pytest

from bridgehash import GTH
from bridgehash._core.linalg import pca, random_orthonormal
from bridgehash.baselines.gth import (
    GTHDomain,
    code_step,
    first_projections,
    fixed_step,
    half_quadratic,
    loss,
    projection_step,
    random_signs,
    rotation_objective,
    safe_step,
    solve,
)
from bridgehash.baselines.shared import standardised
from tests.baselines.golden import BITS, assert_close, assert_same_bits
from tests.cases import over_seeds, two_domains


def sides(seed=0, d=7, r=4):
    rng = np.random.RandomState(seed)
    return [
        GTHDomain(
            rng.standard_normal((n, d)),
            random_orthonormal(d, r, rng),
            np.sign(rng.standard_normal((n, r))),
            lam,
        )
        for n, lam in ((30, 0.1), (40, 1.0))
    ]


def some_weights(seed=0, shape=(7, 4)):
    return np.random.default_rng(seed).uniform(size=shape)


@BITS
@pytest.mark.parametrize("variant", ["g", "h"])
def test_the_stored_run_is_found_again(stored, digits, n_bits, variant):
    run, digits = stored(f"gth_{variant}", n_bits), digits.centred()
    target = GTHDomain(digits.X_target, run["Wt0"], run.signs("Bt0"), 0.1)
    source = GTHDomain(digits.X_source, run["Ws0"], run.signs("Bs0"), 1.0)
    draws = iter(range(1, 6))

    def weights(gap):
        if variant == "g":
            return np.ones_like(gap)
        return half_quadratic(gap, run.uniform(f"Urand{next(draws)}"), 0.8)

    target, _, objective = solve(target, source, weights, fixed_step(0.1), 5, 5)
    assert_close(target.W, run["Wt"], 1e-8)
    assert_same_bits(run, digits, lambda X: X @ target.W)
    assert objective[-1] > objective[0]  # the fixed step is too long


@pytest.mark.parametrize("M2", [np.ones((7, 4)), some_weights()], ids=["g", "h"])
def test_the_rotation_objective_is_the_loss_up_to_a_constant(M2):
    target, source = sides()
    objective = rotation_objective(target, source.W, M2)
    Q = random_orthonormal(4, 4, np.random.RandomState(1))
    gained = objective(target.W @ Q)[0] - objective(target.W)[0]
    other = GTHDomain(target.X, target.W @ Q, target.B, target.lam)
    expected = loss(other, source, M2) - loss(target, source, M2)
    np.testing.assert_allclose(gained, expected, rtol=1e-10)


@pytest.mark.parametrize("M2", [np.ones((7, 4)), some_weights()], ids=["g", "h"])
def test_the_gradient_is_that_of_the_objective(M2):
    target, source = sides()
    objective, step = rotation_objective(target, source.W, M2), 1e-6
    G = objective(target.W)[1]
    for i, j in np.ndindex(G.shape):
        E = np.zeros_like(G)
        E[i, j] = step
        rise = objective(target.W + E)[0] - objective(target.W - E)[0]
        np.testing.assert_allclose(G[i, j], rise / (2 * step), rtol=1e-6, atol=1e-6)


def test_the_loss_is_its_definition():
    (target, source), M2 = sides(), some_weights()
    expected = sum(M2[i, j] * (target.W[i, j] - source.W[i, j]) ** 2 for i, j in np.ndindex(7, 4))
    for side in (target, source):
        for x, b in zip(side.X, side.B, strict=True):
            expected += side.lam * ((b - side.W.T @ x) ** 2).sum()
    np.testing.assert_allclose(loss(target, source, M2), expected)


@over_seeds(5)
@pytest.mark.parametrize("uniform", [True, False], ids=["g", "h"])
def test_no_safe_block_update_raises_the_loss(seed, uniform):
    target, source = sides(seed)
    for i in range(4):
        M2 = np.ones((7, 4)) if uniform else some_weights(10 * seed + i)
        values = [loss(target, source, M2)]
        target = projection_step(target, source.W, M2, safe_step, 5)
        values.append(loss(target, source, M2))
        source = projection_step(source, target.W, M2, safe_step, 5)
        values.append(loss(target, source, M2))
        target = code_step(target)
        values.append(loss(target, source, M2))
        source = code_step(source)
        values.append(loss(target, source, M2))
        assert (np.diff(values) <= 1e-10 * values[0]).all()
        assert values[-1] < values[0] or i > 0


def test_turns_stay_in_the_subspace_and_keep_orthonormal_columns():
    target, source = sides()
    W = projection_step(target, source.W, some_weights(), safe_step, 5).W
    assert np.abs(W - target.W).max() > 0.1
    np.testing.assert_allclose(W.T @ W, np.eye(4), atol=1e-12)
    np.testing.assert_allclose(W @ W.T, target.W @ target.W.T, atol=1e-12)


@pytest.mark.parametrize("quantile", [0.4, 0.8, 1.0])
def test_half_quadratic_weights_are_their_definition(quantile):
    rng = np.random.default_rng(2)
    gap, U = rng.normal(size=(5, 4)), rng.uniform(size=(5, 4))
    E = (U * gap) ** 2
    delta = np.sort(E.ravel())[int(np.ceil(quantile * 20)) - 1]
    expected = 1 / (1 + np.exp(10 / delta * (E - delta)))
    M2 = half_quadratic(gap, U, quantile)
    np.testing.assert_allclose(M2, expected)
    assert (M2 >= 0.5 - 1e-12).sum() == int(np.ceil(quantile * 20))


def test_equal_projections_have_weights_all_the_same():
    U = np.full((3, 2), 0.5)
    np.testing.assert_allclose(half_quadratic(np.zeros((3, 2)), U, 0.8), 1 / (1 + np.exp(-10)))
    nearly = np.zeros((3, 2))
    nearly[0, 0] = 1.0
    assert half_quadratic(nearly, U, 0.8)[0, 0] == 0.0


def test_long_codes_start_with_the_whole_space_of_each_domain_spread_alike():
    rng = np.random.RandomState(3)
    X_s, X_t = rng.standard_normal((20, 5)), rng.standard_normal((4, 5))
    W_s, W_t = first_projections(X_s, X_t, 9, rng)
    assert W_s.shape == W_t.shape == (5, 9)
    np.testing.assert_allclose(W_s @ W_s.T, np.eye(5), atol=1e-12)
    assert np.linalg.matrix_rank(W_t) == 4
    R = pca(X_s, 9).T @ W_s
    np.testing.assert_allclose(W_t, pca(X_t, 9) @ R[:4], atol=1e-12)


def test_short_codes_start_at_principal_directions():
    rng = np.random.RandomState(3)
    X_s, X_t = rng.standard_normal((20, 5)), rng.standard_normal((15, 5))
    W_s, W_t = first_projections(X_s, X_t, 5, rng)
    np.testing.assert_array_equal(W_s, pca(X_s, 5))
    np.testing.assert_array_equal(W_t, pca(X_t, 5))


def test_first_signs_follow_the_rows_not_their_order():
    X = np.random.default_rng(4).normal(size=(11, 3))
    order = np.random.default_rng(5).permutation(11)
    B = random_signs(X, 6, np.random.RandomState(0))
    np.testing.assert_array_equal(random_signs(X[order], 6, np.random.RandomState(0)), B[order])
    assert set(np.unique(B)) == {-1.0, 1.0}


@pytest.mark.parametrize("n_bits", [3, 12])
def test_the_objective_falls_round_by_round(n_bits):
    data = two_domains(d_t=7)
    model = GTH(n_bits, random_state=0).fit(data.X_source, data.X_target)
    assert model.objective_.shape == (model.n_iter_,) == (20,)
    assert (np.diff(model.objective_) <= 1e-10 * model.objective_[0]).all()
    assert model.objective_[-1] < 0.9 * model.objective_[0]


def test_one_function_encodes_both_domains():
    data = two_domains(d_t=7)
    model = GTH(6, random_state=0).fit(data.X_source, data.X_target)
    np.testing.assert_array_equal(
        model.transform(data.X_query, "source"), model.transform(data.X_query, "target")
    )
    X, _, _ = standardised(np.vstack([data.X_source, data.X_target]))
    W = model.target_encoder_.projection
    np.testing.assert_allclose(model.decision_function(data.X_source, "source"), X[:31] @ W)


def test_the_parameters_reach_the_solver():
    data = two_domains(d_t=7)
    default = GTH(6, random_state=0).fit(data.X_source, data.X_target)
    for changed in (
        {"weights": "half_quadratic"},
        {"step": "fixed"},
        {"lam_target": 3.0},
        {"lam_source": 0.01},
        {"max_iter": 3},
        {"inner_iter": 1},
        {"random_state": 1},
    ):
        model = GTH(**({"n_bits": 6, "random_state": 0} | changed))
        model.fit(data.X_source, data.X_target)
        gap = model.target_encoder_.projection - default.target_encoder_.projection
        assert np.abs(gap).max() > 1e-6, changed
    for start, changed in (
        ({"step": "fixed"}, {"tau": 0.01}),
        ({"weights": "half_quadratic"}, {"quantile": 0.3}),
    ):
        one, other = (
            GTH(6, random_state=0, **kind).fit(data.X_source, data.X_target).objective_
            for kind in (start, start | changed)
        )
        assert np.abs(one - other).max() > 1e-6
