"""A ridge that pulls the projections towards the start."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from bridgehash import ATH, NoGraph, PairStart
from bridgehash._core.linalg import SPDSolver
from bridgehash.ath.features import Features
from bridgehash.ath.steps import Domain, normal_matrix, projection_step, ridge_distance
from bridgehash.neighbors.graphs import SparseGraph, laplacian


def rows(seed=0, n=40, d=6):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) + 3.0 * rng.normal(size=(4, d))[np.arange(n) % 4]
    return X - X.mean(axis=0)


def test_the_step_is_stationary_where_the_ridge_pulls_to_a_projection():
    rng = np.random.default_rng(2)
    X, held = rows(), rng.normal(size=(6, 3))
    B, H_other = np.sign(rng.normal(size=(40, 3))), rng.normal(size=(40, 3))
    W = SparseGraph(csr_array(np.eye(40)))
    domain = Domain(X, NoGraph().build(X), 0.7, 0.0, held)
    solver = SPDSolver(normal_matrix(domain, W.degrees, lam=0.4), 2.5)
    A = projection_step(domain, solver, B, [(W, H_other)], lam=0.4, ridge=2.5)

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


@pytest.mark.filterwarnings("ignore::bridgehash.PairsWarning")
@pytest.mark.parametrize("feature_space", ["same", "separate"])
@pytest.mark.parametrize("n", [40, 5])  # fewer rows than features: the solver uses their span
def test_a_heavy_ridge_keeps_the_start(feature_space, n):
    X_s, X_t = rows(0, n=n), rows(1, n=n)
    pairs = np.column_stack([np.arange(n)] * 2)
    parameters = {"start": PairStart(), "ridge_towards": "start", "feature_space": feature_space}
    codes = [
        ATH(8, ridge=ridge, max_iter=4, tol=0.0, random_state=0, **parameters)
        .fit(X_s, X_t, pairs=pairs)
        .decision_function(X_s, "source")
        for ridge in (1e9, 1e7, 1.0)
    ]
    np.testing.assert_allclose(codes[0], codes[1], atol=1e-4)
    assert np.abs(codes[0] - codes[2]).max() > 1e-2


def test_no_graph_has_no_structure():
    X = rows()
    assert not laplacian(NoGraph().build(X), X).any()
