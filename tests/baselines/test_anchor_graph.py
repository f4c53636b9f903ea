"""Anchor graphs: memberships, the graph they make, and its eigenvectors."""

import numpy as np
import pytest
from scipy.sparse import block_diag, csr_array
from scipy.stats import ortho_group
from threadpoolctl import threadpool_limits

from bridgehash import AnchorGraphMap
from bridgehash._core.linalg import k_means
from bridgehash.baselines._anchor_graph import anchor_eigenvectors, anchor_graph
from bridgehash.neighbors.graphs import laplacian
from tests.cases import two_domains


@pytest.fixture(scope="module")
def X():
    return two_domains(n_s=60).X_source


@pytest.fixture(scope="module")
def Z(X):
    return AnchorGraphMap(n_anchors=12, random_state=0).fit(X).memberships(X)


def slow_memberships(X, anchors, k, sigma):
    Z = np.zeros((len(X), len(anchors)))
    for i, x in enumerate(X):
        squares = ((x - anchors) ** 2).sum(axis=1)
        near = np.argsort(squares)[:k]
        weights = np.exp(-squares[near] / sigma**2)
        Z[i, near] = weights / weights.sum()
    return Z


# --- memberships


@pytest.mark.parametrize("n_neighbors", [1, 3, 12, 50])
def test_memberships_are_their_definition(X, n_neighbors):
    model = AnchorGraphMap(n_anchors=12, n_neighbors=n_neighbors, random_state=0).fit(X)
    k = min(n_neighbors, 12)
    D = X - X.mean(axis=0)
    far = [np.sort(((x - model.anchors_) ** 2).sum(axis=1))[k - 1] for x in D]
    np.testing.assert_allclose(model.sigma_, np.sqrt(far).mean())
    expected = slow_memberships(D, model.anchors_, k, model.sigma_)
    np.testing.assert_allclose(model.memberships(X).toarray(), expected, atol=1e-12)
    np.testing.assert_allclose(model.transform(X), expected, atol=1e-12)
    np.testing.assert_allclose(expected.sum(axis=1), 1.0)


def test_a_row_far_from_all_anchors_belongs_to_the_nearest(X):
    model = AnchorGraphMap(n_anchors=12, random_state=0).fit(X)
    z = model.transform(1e6 * X[:5])
    assert np.isfinite(z).all()
    np.testing.assert_allclose(z.sum(axis=1), 1.0)


def test_an_anchor_is_the_mean_of_its_rows(X):
    D = X - X.mean(axis=0)
    anchors = k_means(D, D[:6], n_iter=200)
    owner = ((D[:, None] - anchors) ** 2).sum(axis=2).argmin(axis=1)
    for j in range(6):
        np.testing.assert_allclose(anchors[j], D[owner == j].mean(axis=0), atol=1e-12)


def test_no_rounds_leave_the_drawn_rows(X):
    anchors = AnchorGraphMap(n_anchors=12, n_iter=0, random_state=0).fit(X).anchors_
    rows = {tuple(row) for row in X - X.mean(axis=0)}
    assert len(anchors) == 12
    assert {tuple(anchor) for anchor in anchors} <= rows


def test_few_rows_are_all_anchors(X):
    model = AnchorGraphMap(random_state=0).fit(X)
    assert model.anchors_.shape == X.shape
    assert model.n_features_out_ == model.transform(X).shape[1] == 60


def test_equal_rows_are_one_anchor(X):
    model = AnchorGraphMap(random_state=0).fit(np.repeat(X[:4], 30, axis=0))
    assert len(model.anchors_) == 4
    one = AnchorGraphMap(random_state=0).fit(np.ones((5, 2)))
    np.testing.assert_array_equal(one.transform(np.ones((2, 2))), np.ones((2, 1)))
    assert one.sigma_ == 1.0


def test_the_order_of_samples_changes_no_anchor(X):
    order = np.random.default_rng(0).permutation(len(X))
    model, shuffled = (AnchorGraphMap(12, random_state=0).fit(rows) for rows in (X, X[order]))
    np.testing.assert_allclose(shuffled.anchors_, model.anchors_, atol=1e-12)
    np.testing.assert_allclose(shuffled.sigma_, model.sigma_)


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_memberships_see_neither_scale_nor_rotation_nor_place(X, scale):
    Q = scale * ortho_group.rvs(7, random_state=0)
    z, other = (AnchorGraphMap(12, random_state=0).fit_transform(R) for R in (X, X @ Q + 9 * scale))
    np.testing.assert_allclose(other, z, atol=1e-9)


def test_many_threads_find_the_same_centres_every_time():
    rows = np.random.default_rng(0).normal(size=(5000, 4))
    with threadpool_limits(8, user_api="openmp"):
        first, *others = (k_means(rows, rows[:50], n_iter=10) for _ in range(6))
    for centres in others:
        np.testing.assert_array_equal(centres, first)


@pytest.mark.parametrize("name", ["n_anchors", "n_neighbors"])
def test_parameters_out_of_range_are_refused_by_name(X, name):
    with pytest.raises(ValueError, match=name):
        AnchorGraphMap(**{name: 0}).fit(X)


# --- the graph


def test_the_graph_is_symmetric_and_its_rows_sum_to_one(Z):
    S = anchor_graph(Z) @ np.eye(60)
    np.testing.assert_allclose(S, Z.toarray() @ np.diag(1 / Z.sum(axis=0)) @ Z.toarray().T)
    np.testing.assert_allclose(S, S.T)
    np.testing.assert_allclose(anchor_graph(Z).degrees, 1.0)
    values = np.linalg.eigvalsh(S)
    assert values.min() > -1e-12
    assert values.max() < 1 + 1e-12


def test_its_laplacian_is_the_identity_less_the_graph(Z):
    graph, B = anchor_graph(Z), np.random.default_rng(0).normal(size=(60, 3))
    np.testing.assert_allclose(laplacian(graph, B), B - graph @ B, atol=1e-12)


# --- eigenvectors


@pytest.mark.parametrize("r", [1, 5, 11])
def test_eigenvectors_are_those_of_the_graph(Z, r):
    S, F = anchor_graph(Z) @ np.eye(60), anchor_eigenvectors(Z, r)
    np.testing.assert_allclose(F.T @ F, 60 * np.eye(r), atol=1e-8)
    np.testing.assert_allclose(F.sum(axis=0), 0.0, atol=1e-8)
    largest = np.linalg.eigvalsh(S)[::-1][1 : r + 1]
    np.testing.assert_allclose(np.diag(F.T @ S @ F) / 60, largest, atol=1e-10)
    np.testing.assert_allclose(S @ F, F * largest, atol=1e-8)


def test_there_are_no_more_eigenvectors_than_anchors_less_one(Z):
    assert anchor_eigenvectors(Z, 40).shape == (60, 11)


@pytest.fixture(scope="module")
def in_parts():
    """Three graphs side by side that do not touch."""
    parts = []
    for seed in range(3):
        rows = np.random.default_rng(seed).normal(size=(20 + seed, 3))
        parts.append(AnchorGraphMap(5 + seed, random_state=0).fit(rows).memberships(rows))
    return csr_array(block_diag(parts))


def test_a_graph_in_parts_loses_one_constant_vector_only(in_parts):
    F = anchor_eigenvectors(in_parts, 4)
    n = len(F)
    np.testing.assert_allclose(F.T @ F, n * np.eye(4), atol=1e-8)
    np.testing.assert_allclose(F.sum(axis=0), 0.0, atol=1e-8)
    S = anchor_graph(in_parts) @ np.eye(n)
    np.testing.assert_allclose((S @ F)[:, :2], F[:, :2], atol=1e-8)  # constant on each part
    assert (np.abs(S @ F - F)[:, 2:].max(axis=0) > 1e-3).all()


def test_the_order_of_samples_and_anchors_changes_no_eigenvector(in_parts):
    rng = np.random.default_rng(0)
    rows, columns = (rng.permutation(size) for size in in_parts.shape)
    F = anchor_eigenvectors(in_parts, 6)
    shuffled = anchor_eigenvectors(csr_array(in_parts[rows][:, columns]), 6)
    np.testing.assert_allclose(shuffled, F[rows], atol=1e-8)


def test_memberships_of_many_rows_stay_sparse():
    rows = np.random.default_rng(0).normal(size=(500, 4))
    assert AnchorGraphMap(40, random_state=0).fit(rows).memberships(rows).nnz == 1500
