"""Graphs as operators against dense matrices, and neighbours that do not depend on rounding."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.stats import ortho_group
from sklearn.base import clone

from bridgehash.neighbors.graphs import (
    FactoredGraph,
    KNNGraph,
    LabelGraph,
    SparseGraph,
    label_graph,
    laplacian,
    one_hot,
)
from tests import reference

SEEDS = st.integers(0, 2**32 - 1)
MUTUAL = pytest.mark.parametrize("mutual", [False, True])


def dense(graph):
    """Return a graph as a matrix."""
    return graph @ np.eye(graph.shape[1])


def lattice():
    """Return the corners of a four-dimensional cube: four neighbours, all tied."""
    return np.array(list(product([0.0, 1.0], repeat=4)))


def knn(X, k, mutual=False):
    return dense(KNNGraph(n_neighbors=k, mutual=mutual).build(X))


# --- k-NN graphs


@MUTUAL
def test_knn_graph_is_that_of_the_paper(mutual):
    for k in (1, 3, 7):
        X = np.random.default_rng(k).normal(size=(20, 3))
        W = knn(X, k, mutual)
        np.testing.assert_array_equal(W, reference.knn_graph(X.T, k, mutual))
        assert W.sum() > 0


@given(seed=SEEDS, n=st.integers(2, 12), k=st.integers(1, 6), mutual=st.booleans())
@settings(max_examples=40)
def test_knn_graph_of_few_samples_is_that_of_the_paper(seed, n, k, mutual):
    X = np.random.default_rng(seed).normal(size=(n, 2))
    expected = reference.knn_graph(X.T, min(k, n - 1), mutual)
    np.testing.assert_array_equal(knn(X, k, mutual), expected)


@MUTUAL
def test_tied_samples_are_all_neighbours(mutual):
    X = lattice()
    for k in (2, 3, 4):  # four samples share the smallest distance: within twice k
        expected = reference.knn_graph(X.T, k, mutual)
        assert (expected.sum(axis=1) == 4).all()
        np.testing.assert_array_equal(knn(X, k, mutual), expected)


@MUTUAL
def test_rounding_does_not_break_ties(mutual):
    X, expected = lattice(), reference.knn_graph(lattice().T, 3, mutual)
    for seed in range(5):
        Q = ortho_group.rvs(4, random_state=seed)
        for offset in (0.0, 100.0):
            np.testing.assert_array_equal(knn((X + offset) @ Q, 3, mutual), expected)
        rounded = ((X - 0.5) @ Q).astype(np.float32)
        np.testing.assert_array_equal(knn(rounded, 3, mutual), expected)


def test_a_clear_difference_is_no_tie():
    line = np.array([[0.0], [1.0], [-1.00001], [5.0], [6.0]])
    np.testing.assert_array_equal(knn(line, 1)[0], [0, 1, 1, 0, 0])  # 2's nearest is 0
    np.testing.assert_array_equal(knn(line, 1, mutual=True)[0], [0, 1, 0, 0, 0])


@MUTUAL
def test_copies_of_a_sample_are_neighbours_and_never_their_own(mutual):
    rng = np.random.default_rng(0)
    X = np.repeat(rng.normal(size=(6, 3)), 3, axis=0)
    expected = np.kron(np.eye(6), np.ones((3, 3))) - np.eye(18)
    np.testing.assert_array_equal(knn(X, 2, mutual), expected)
    order = rng.permutation(18)
    np.testing.assert_array_equal(knn(X[order], 2, mutual), expected[np.ix_(order, order)])


def test_many_identical_rows_make_a_sparse_graph_without_loops():
    k = 2
    X = np.vstack([np.zeros((40, 3)), np.random.default_rng(0).normal(size=(5, 3)) + 9.0])
    W = knn(X, k)
    assert (np.diag(W) == 0).all()
    np.testing.assert_array_equal(W, W.T)
    assert (W.sum(axis=1) >= k).all()
    assert W[:40, 40:].sum() == 0
    assert W.sum() <= 2 * 2 * k * len(X)  # each row names at most 2 k others


@given(seed=SEEDS, mutual=st.booleans())
@settings(max_examples=30)
def test_knn_graph_does_not_depend_on_the_order_of_samples(seed, mutual):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 3, size=(11, 4)).astype(float)  # many ties, none beyond twice k
    order = rng.permutation(11)
    moved = knn(X, 5, mutual)[np.ix_(order, order)]
    np.testing.assert_array_equal(knn(X[order], 5, mutual), moved)


def test_knn_graph_does_not_depend_on_the_scale():
    X = np.random.default_rng(0).normal(size=(20, 3))
    for scale in (1e-6, 1e6):
        np.testing.assert_array_equal(knn(scale * X, 4), knn(X, 4))


def test_more_neighbours_than_samples_join_all():
    X = np.random.default_rng(0).normal(size=(6, 2))
    np.testing.assert_array_equal(knn(X, 10), 1 - np.eye(6))


@MUTUAL
def test_mutual_graph_is_part_of_the_other(mutual):
    X = np.random.default_rng(0).normal(size=(20, 3))
    graph = KNNGraph(4, mutual=mutual).build(X)
    assert set(graph.matrix.data) == {1.0}
    assert (knn(X, 4, mutual=True) <= knn(X, 4)).all()
    np.testing.assert_array_equal(graph.degrees, dense(graph).sum(axis=1))


def test_knn_graph_keeps_float32():
    X = np.random.default_rng(0).normal(size=(9, 2)).astype(np.float32)
    assert laplacian(KNNGraph(3).build(X), X).dtype == np.float32


def test_graph_choices_are_cloned_with_their_parameters():
    twin = clone(KNNGraph(n_neighbors=3, mutual=True, n_probe=8))
    assert twin.get_params() == {"n_neighbors": 3, "mutual": True, "n_probe": 8}
    assert clone(LabelGraph(normalize=True)).get_params() == {"normalize": True}


# --- operators


@given(seed=SEEDS, n=st.integers(2, 10))
def test_laplacian_is_half_the_sum_over_pairs(seed, n):
    rng = np.random.default_rng(seed)
    W = np.triu(rng.random((n, n)) * (rng.random((n, n)) < 0.5), 1)
    W, H = W + W.T, rng.normal(size=(n, 3))
    graph = SparseGraph(csr_array(W))
    np.testing.assert_allclose(laplacian(graph, H), reference.laplacian(W) @ H, atol=1e-12)
    pairs = sum(
        W[i, j] * reference.squared_distance(H[i], H[j]) for i in range(n) for j in range(n)
    )
    np.testing.assert_allclose(np.vdot(H, laplacian(graph, H)), pairs / 2, atol=1e-12)


def test_sparse_graph_acts_as_its_matrix():
    rng = np.random.default_rng(0)
    W = rng.random((4, 6)) * (rng.random((4, 6)) < 0.6)
    graph = SparseGraph(csr_array(W))
    for seen, matrix in ((graph, W), (graph.T, W.T), (graph.T.T, W)):
        assert seen.shape == matrix.shape
        np.testing.assert_allclose(dense(seen), matrix)
        np.testing.assert_allclose(seen.degrees, matrix.sum(axis=1))


LABELS = st.lists(st.integers(-1, 3), min_size=1, max_size=8).map(np.array)


@given(y_rows=LABELS, y_columns=LABELS)
def test_factored_graph_equals_the_matrix_it_never_forms(y_rows, y_columns):
    graph, W = label_graph(y_rows, y_columns), reference.label_graph(y_rows, y_columns)
    assert isinstance(graph, FactoredGraph)
    for seen, matrix in ((graph, W), (graph.T, W.T)):
        assert seen.shape == matrix.shape
        np.testing.assert_array_equal(dense(seen), matrix)
        np.testing.assert_array_equal(seen.degrees, matrix.sum(axis=1))


@given(y=LABELS)
def test_laplacian_of_labels_is_that_of_the_matrix(y):
    H = np.random.default_rng(0).normal(size=(len(y), 2))
    L = reference.laplacian(reference.label_graph(y, y))
    np.testing.assert_allclose(laplacian(LabelGraph().build(H, y), H), L @ H, atol=1e-12)


@given(y=LABELS)
def test_normalized_labels_give_every_known_row_one_unit(y):
    H = np.random.default_rng(0).normal(size=(len(y), 2))
    W = reference.label_graph(y, y)
    W = W / np.maximum(W.sum(axis=1, keepdims=True), 1.0)
    graph = LabelGraph(normalize=True).build(H, y)
    np.testing.assert_allclose(dense(graph), W, atol=1e-12)
    np.testing.assert_allclose(laplacian(graph, H), reference.laplacian(W) @ H, atol=1e-12)


def test_unknown_labels_have_no_edges():
    y = np.array([0, -1, 1, -1, 0])
    W = dense(LabelGraph().build(np.zeros((5, 1)), y))
    assert W[[1, 3]].sum() == W[:, [1, 3]].sum() == 0
    np.testing.assert_array_equal(np.flatnonzero(W[0]), [0, 4])


def test_one_hot_places_known_labels_only():
    Y = one_hot(np.array([2, -1, 0]), 3).toarray()
    np.testing.assert_array_equal(Y, [[0, 0, 1], [0, 0, 0], [1, 0, 0]])


def test_label_graph_without_labels_is_refused():
    with pytest.raises(ValueError, match="needs labels"):
        LabelGraph().build(np.zeros((2, 1)), None)
