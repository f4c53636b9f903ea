"""The common algebra: what it promises, and that neither order nor rotation shows in it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ortho_group

from bridgehash._core.linalg import (
    SPDSolver,
    itq_rotation,
    pca,
    procrustes,
    product,
    random_orthonormal,
    row_space,
    symmetric_product,
)
from bridgehash.codes import signs

SEEDS = st.integers(0, 2**32 - 1)
SHAPES = [(40, 6), (40, 40), (8, 30)]  # tall, square, wide


def centred(shape, seed=0):
    """Skewed samples with distinct variances: every direction has a sign and a place."""
    rng = np.random.default_rng(seed)
    X = rng.exponential(size=shape) * np.linspace(3.0, 1.0, shape[1])
    return X - X.mean(axis=0)


def itq_loss(V, R):
    return np.linalg.norm(signs(V @ R) - V @ R) ** 2


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("k", [1, 5])
def test_pca_directions_are_orthonormal_and_by_variance(shape, k):
    X = centred(shape)
    P = pca(X, k)
    assert P.shape == (shape[1], k)
    np.testing.assert_allclose(P.T @ P, np.eye(k), atol=1e-10)
    singular = np.linalg.svd(X, compute_uv=False)[:k]
    np.testing.assert_allclose(np.linalg.norm(X @ P, axis=0), singular, rtol=1e-9)


@pytest.mark.parametrize("shape", SHAPES)
def test_pca_directions_are_eigenvectors(shape):
    X = centred(shape)
    P = pca(X, 4)
    residual = X.T @ (X @ P) - P * np.linalg.norm(X @ P, axis=0) ** 2
    assert np.abs(residual).max() < 1e-9 * np.linalg.norm(X) ** 2


@pytest.mark.parametrize("shape", SHAPES)
def test_pca_projections_lean_to_the_positive_side(shape):
    X = centred(shape)
    for flipped in (X, -X):
        assert (((flipped @ pca(flipped, 5)) ** 3).sum(axis=0) > 0).all()


@pytest.mark.parametrize("shape", SHAPES)
def test_pca_turns_with_the_features(shape):
    X = centred(shape)
    Q = ortho_group.rvs(shape[1], random_state=0)
    np.testing.assert_allclose(pca(X @ Q, 4), Q.T @ pca(X, 4), atol=1e-9)


@pytest.mark.parametrize("shape", SHAPES)
def test_pca_does_not_see_the_order_of_samples(shape):
    X = centred(shape)
    order = np.random.default_rng(0).permutation(len(X))
    np.testing.assert_allclose(pca(X[order], 4), pca(X, 4), atol=1e-9)


@pytest.mark.parametrize("shape", [(40, 12), (12, 40)])
def test_pca_never_returns_more_than_the_rank(shape):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(shape[0], 3)) @ rng.normal(size=(3, shape[1]))
    X -= X.mean(axis=0)
    P = pca(X, 10)
    assert P.shape == (shape[1], 3)
    np.testing.assert_allclose(X @ P @ P.T, X, atol=1e-9)


def test_pca_of_equal_rows_is_empty():
    assert pca(np.zeros((5, 3)), 2).shape == (3, 0)


def test_pca_of_a_few_directions_is_the_start_of_all():
    X = centred((60, 30))  # one or seven of thirty: either way of decomposing
    everything = pca(X, 30)
    for k in (1, 7):
        np.testing.assert_allclose(pca(X, k), everything[:, :k], atol=1e-8)


@pytest.mark.parametrize("shape", SHAPES)
def test_pca_keeps_float32(shape):
    X = centred(shape)
    P = pca(X.astype(np.float32), 3)
    assert P.dtype == np.float32
    np.testing.assert_allclose(P, pca(X, 3), atol=1e-3)


@pytest.mark.parametrize(("p", "r"), [(5, 5), (6, 3), (3, 6)])
def test_random_orthonormal_has_orthonormal_columns_or_rows(p, r):
    Q = random_orthonormal(p, r, np.random.RandomState(0))
    assert Q.shape == (p, r)
    G = Q.T @ Q if p >= r else Q @ Q.T
    np.testing.assert_allclose(G, np.eye(min(p, r)), atol=1e-12)
    again, other = (random_orthonormal(p, r, np.random.RandomState(seed)) for seed in (0, 1))
    np.testing.assert_array_equal(Q, again)
    assert np.abs(Q - other).max() > 0.1


def test_random_orthonormal_favours_no_sign():
    rng = np.random.RandomState(0)
    corner = np.array([random_orthonormal(3, 3, rng)[0, 0] for _ in range(2000)])
    assert abs(corner.mean()) < 0.05  # a QR without the sign of R gives -0.5
    assert abs((corner**2).mean() - 1 / 3) < 0.05


@pytest.mark.parametrize(("p", "r"), [(4, 4), (6, 3), (3, 6)])
def test_procrustes_is_the_closest_orthonormal_matrix(p, r):
    rng = np.random.RandomState(0)
    C = rng.standard_normal((p, r))
    Q = procrustes(C)
    G = Q.T @ Q if p >= r else Q @ Q.T
    np.testing.assert_allclose(G, np.eye(min(p, r)), atol=1e-12)
    rivals = [random_orthonormal(p, r, rng) for _ in range(200)]
    assert np.vdot(Q, C) > max(np.vdot(rival, C) for rival in rivals)
    np.testing.assert_allclose(np.vdot(Q, C), np.linalg.svd(C, compute_uv=False).sum())


def test_procrustes_finds_a_rotation_again():
    Q = ortho_group.rvs(5, random_state=0)
    X = centred((20, 5))
    np.testing.assert_allclose(procrustes(X.T @ (X @ Q)), Q, atol=1e-10)


@given(p=st.integers(1, 6), r=st.integers(1, 6), seed=SEEDS)
def test_itq_never_raises_its_loss(p, r, seed):
    r = max(p, r)
    V = centred((15, p), seed)
    R = random_orthonormal(p, r, np.random.RandomState(seed))
    before = itq_loss(V, R)
    for _ in range(4):
        R = itq_rotation(V, R, n_iter=1)
        np.testing.assert_allclose(R @ R.T, np.eye(p), atol=1e-10)
        after = itq_loss(V, R)
        assert after <= before * (1 + 1e-12)
        before = after


def test_itq_rounds_are_one_after_the_other():
    V, R = centred((30, 4)), ortho_group.rvs(4, random_state=0)
    np.testing.assert_array_equal(itq_rotation(V, R, n_iter=0), R)
    np.testing.assert_allclose(
        itq_rotation(V, R, n_iter=3), itq_rotation(V, itq_rotation(V, R, n_iter=2), n_iter=1)
    )


def test_itq_ends_where_it_stays():
    V, R = centred((30, 4)), ortho_group.rvs(4, random_state=0)
    best = itq_rotation(V, R, n_iter=100)
    np.testing.assert_allclose(itq_rotation(V, best, n_iter=1), best, atol=1e-10)


def test_itq_lowers_the_loss_where_there_is_room():
    V = centred((50, 6)) @ ortho_group.rvs(6, random_state=1)
    R = ortho_group.rvs(6, random_state=0)
    assert itq_loss(V, itq_rotation(V, R)) < 0.97 * itq_loss(V, R)


def ridge_solution(X, R):
    return np.linalg.solve(X.T @ X + 0.1 * np.eye(X.shape[1]), X.T @ R)


@pytest.mark.parametrize("shape", [(5, 9), (9, 9), (9, 5)])
@pytest.mark.parametrize("shift", [0.0, 0.5])  # rows that sum to zero, and others
def test_row_space_holds_the_same_rows_and_leads_back(shape, shift):
    X = centred(shape) + shift
    Z, back = row_space(X)
    assert Z.shape[1] == min(shape) or Z.shape[1] == np.linalg.matrix_rank(X)
    assert (Z is X) == (shape[0] >= shape[1])
    if Z is not X:
        np.testing.assert_array_equal(np.triu(Z, 1), 0.0)
    np.testing.assert_allclose(Z @ Z.T, X @ X.T, atol=1e-10)
    R = np.random.default_rng(1).normal(size=(shape[0], 3))
    np.testing.assert_allclose(back(ridge_solution(Z, R)), ridge_solution(X, R), atol=1e-10)


def test_row_space_of_repeated_rows():
    X = np.repeat(centred((2, 8)), 2, axis=0)
    R = np.random.default_rng(1).normal(size=(4, 3))
    Z, back = row_space(X)
    np.testing.assert_allclose(Z @ Z.T, X @ X.T, atol=1e-12)
    np.testing.assert_allclose(back(ridge_solution(Z, R)), ridge_solution(X, R), atol=1e-10)


def test_symmetric_product_of_lower_rows_is_the_product():
    X = np.tril(np.random.default_rng(0).normal(size=(31, 30)))
    Y = np.diag(np.arange(31.0)) @ X
    np.testing.assert_allclose(symmetric_product(X, Y, lower=True), X.T @ Y, atol=1e-12)


@given(n=st.integers(1, 30), m=st.integers(1, 30), seed=SEEDS)
def test_symmetric_product_is_the_product(n, m, seed):
    rng = np.random.default_rng(seed)
    X, S = rng.normal(size=(n, m)), rng.normal(size=(n, n))
    Y = (S + S.T) @ X
    np.testing.assert_allclose(symmetric_product(X, Y), X.T @ Y, atol=1e-10)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_product_is_the_product_in_any_order(dtype):
    rng = np.random.default_rng(0)
    A, B = rng.normal(size=(5, 4)).astype(dtype), rng.normal(size=(4, 3)).astype(dtype)
    orders = [np.ascontiguousarray, np.asfortranarray, lambda M: np.repeat(M, 2, axis=1)[:, ::2]]
    for order_a in orders:
        for order_b in orders:
            found = product(order_a(A), order_b(B))
            assert found.dtype == dtype
            np.testing.assert_allclose(found, A @ B, rtol=1e-5)


def test_solver_solves_with_the_ridge():
    X = centred((20, 4))
    Phi, b = X.T @ X, np.random.default_rng(0).normal(size=(4, 3))
    x = SPDSolver(Phi.copy(), ridge=0.7)(b)
    np.testing.assert_allclose((Phi + 0.7 * np.eye(4)) @ x, b, atol=1e-12)


def test_principal_directions_of_many_wide_rows_come_from_some_of_them(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3)) @ (np.diag([9.0, 6.0, 4.0]) @ rng.normal(size=(3, 120)))
    X += 0.01 * rng.normal(size=X.shape)
    X -= X.mean(axis=0)
    exact = pca(X, 3)
    monkeypatch.setattr("bridgehash._core.linalg._MANY", 100)
    monkeypatch.setattr("bridgehash._core.linalg._SOME", 80)
    some = pca(X, 3)
    assert not np.array_equal(some, exact)
    cosines = np.linalg.svd(some.T @ exact, compute_uv=False)
    assert cosines.min() > 0.999
    order = rng.permutation(len(X))
    np.testing.assert_allclose(pca(X[order], 3), some, atol=1e-10)


def test_singular_matrix_is_named_with_its_ridge():
    with pytest.raises(np.linalg.LinAlgError, match="singular at ridge=0; increase ridge"):
        SPDSolver(np.diag([1.0, 0.0]))
    with pytest.raises(np.linalg.LinAlgError, match=r"singular at ridge=0\.001"):
        SPDSolver(np.diag([1.0, -0.5]), ridge=1e-3)
