"""Directions in which neighbours agree, and a ridge that pulls to where the solver began."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from bridgehash import ATH, LocalStart, NoGraph
from bridgehash._core.linalg import SPDSolver
from bridgehash.ath.fit import Features
from bridgehash.ath.starts import StartContext, local_directions
from bridgehash.ath.steps import Domain, normal_matrix, projection_step, ridge_distance
from bridgehash.neighbors.graphs import SparseGraph, laplacian


def rows(seed=0, n=40, d=6):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) + 3.0 * rng.normal(size=(4, d))[np.arange(n) % 4]
    return X - X.mean(axis=0)


def agreement(X, k):
    """Xᵀ(S + Sᵀ)X / 2n with loops; row i of S is even over the k nearest others of i."""
    S = np.zeros((len(X), len(X)))
    for i, x in enumerate(X):
        distances = ((X - x) ** 2).sum(axis=1)
        distances[i] = np.inf
        S[i, np.argsort(distances)[:k]] = 1.0 / k
    return X.T @ (S + S.T) @ X / (2 * len(X))


def test_directions_are_the_leading_ones_of_the_agreement_of_neighbours():
    X = rows()
    C, P = agreement(X, 5), local_directions(X, 3, 5)
    np.testing.assert_allclose(P.T @ P, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(P.T @ C @ P, np.diag(np.linalg.eigvalsh(C)[:-4:-1]), atol=1e-10)


def test_flattening_divides_variances_by_a_power_of_the_agreement():
    X = rows()
    plain, flat = local_directions(X, 3, 5), local_directions(X, 3, 5, flatten=0.4)
    values = np.linalg.eigvalsh(agreement(X, 5))[:-4:-1]
    np.testing.assert_allclose(flat, plain * values**-0.2, atol=1e-10)


def test_noise_of_single_rows_is_left_out():
    rng = np.random.default_rng(1)
    X = np.column_stack([np.repeat([-1.0, 1.0], 50), 1.5 * rng.choice([-1.0, 1.0], 100)])
    X[:, 1] -= X[:, 1].mean()
    X = np.column_stack([X, 0.01 * rng.normal(size=(100, 2))])
    X = np.column_stack([X, rng.normal(size=(100, 30))])  # neighbours share little of these
    P = local_directions(X - X.mean(axis=0), 1, 10)
    assert np.abs(P[:2]).max() > np.abs(P[4:]).max()


def test_two_rows_are_enough():
    X = np.array([[1.0, 2.0], [-1.0, -2.0]])
    assert local_directions(X, 4, 10).shape == (2, 1)


def test_a_start_has_one_projection_for_both_domains():
    X = rows()
    context = StartContext(X, X[:9] + 0.1, None, None, True, 8, 1.0, np.random.RandomState(0))
    start = LocalStart(directions=0.5).begin(context).scaled(2.0)
    np.testing.assert_allclose(start.H_s, X @ start.A_s)
    np.testing.assert_allclose(start.H_t, (X[:9] + 0.1) @ start.A_t)
    np.testing.assert_allclose(np.abs(start.H_s).mean(), 2.0)
    assert np.linalg.matrix_rank(start.A_s) <= 4


def test_a_start_of_two_spaces_is_refused():
    with pytest.raises(ValueError, match="one feature space"):
        ATH(8, start=LocalStart()).fit(rows(d=6), rows(d=5))


def test_the_step_is_stationary_where_the_ridge_pulls_to_a_projection():
    rng = np.random.default_rng(2)
    X, held = rows(), rng.normal(size=(6, 3))
    B, H_other = np.sign(rng.normal(size=(40, 3))), rng.normal(size=(40, 3))
    W = SparseGraph(csr_array(np.eye(40)))
    domain = Domain(X, NoGraph().build(X), 0.7, 0.0, held)
    solver = SPDSolver(normal_matrix(domain, W.degrees, lam=0.4), 2.5)
    A = projection_step(domain, solver, B, W, H_other, lam=0.4, ridge=2.5)

    def value(A):
        H = X @ A
        fit = 0.7 * ((B - H) ** 2).sum() + 0.4 * ((H - H_other) ** 2).sum()
        return fit + 2.5 * ridge_distance(domain, A)

    for step in rng.normal(size=(10, 6, 3)):
        assert abs(value(A + 1e-5 * step) - value(A - 1e-5 * step)) < 1e-7


@pytest.mark.parametrize(("n", "d"), [(40, 6), (8, 20)])
def test_a_projection_goes_into_the_space_of_the_rows_and_back(n, d):
    X = rows(n=n, d=d)
    features = Features.standardised(X, X.mean(axis=0), [], "X")
    A = np.random.default_rng(3).normal(size=(d, 4))
    np.testing.assert_allclose(features.Z @ features.inside(A), features.X @ A, atol=1e-10)


def test_a_heavy_ridge_keeps_the_start():
    X_s, X_t = rows(0), rows(1)
    parameters = {"start": LocalStart(), "ridge_towards": "start", "max_iter": 4, "tol": 0.0}
    held = ATH(8, ridge=1e9, random_state=0, **parameters).fit(X_s, X_t)
    np.testing.assert_allclose(
        held.decision_function(X_s, "source").std(axis=0).sum(),
        ATH(8, ridge=1e7, random_state=0, **parameters)
        .fit(X_s, X_t)
        .decision_function(X_s, "source")
        .std(axis=0)
        .sum(),
        rtol=1e-4,
    )
    assert held.objective_["ridge"].max() < 1e-2


def test_no_graph_has_no_structure():
    X = rows()
    assert not laplacian(NoGraph().build(X), X).any()
