"""Bipartite graphs: rows on the simplex with η weights, or exactly what was given."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from bridgehash import ATH, InputError, TrainingData
from bridgehash.ath.bipartite import (
    AdaptiveBipartite,
    AuthorsBipartite,
    GivenBipartite,
    LabelBipartite,
    as_graph,
)
from bridgehash.neighbors.graphs import label_graph
from tests import reference
from tests.cases import two_domains

SEEDS = st.integers(0, 2**32 - 1)


def projections(seed, n_s, n_t):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n_s, 3)), rng.normal(size=(n_t, 3))


def learned(bipartite, H_s, H_t):
    graph = bipartite.rule(TrainingData(H_s, H_t))(H_s, H_t)
    return graph, graph @ np.eye(len(H_t))


@given(seed=SEEDS, n_s=st.integers(1, 8), n_t=st.integers(2, 8), eta=st.integers(1, 10))
@settings(max_examples=50)
def test_learned_graph_is_eq_21_over_all_pairs(seed, n_s, n_t, eta):
    H_s, H_t = projections(seed, n_s, n_t)
    graph, W = learned(AdaptiveBipartite(n_neighbors=eta), H_s, H_t)
    eta, lam = min(eta, n_t - 1), 0.3
    F = reference.distances(H_s.T, H_t.T)
    gamma = np.array([reference.row_gamma(row, eta, lam) for row in F])
    rows = [reference.graph_row(row, g, eta, lam) for row, g in zip(F, gamma, strict=True)]
    assert graph.shape == W.shape == (n_s, n_t)
    np.testing.assert_allclose(W, rows, atol=1e-8)
    np.testing.assert_array_equal((W > 0).sum(axis=1), eta)
    np.testing.assert_allclose(graph.penalty * lam, gamma @ (np.array(rows) ** 2).sum(axis=1))


@given(seed=SEEDS, n_s=st.integers(1, 8), n_t=st.integers(3, 8), eta=st.integers(1, 6))
@settings(max_examples=50)
def test_mean_gamma_projects_the_nearest_onto_the_simplex(seed, n_s, n_t, eta):
    H_s, H_t = projections(seed, n_s, n_t)
    graph, W = learned(AdaptiveBipartite(n_neighbors=eta, gamma="mean"), H_s, H_t)
    eta = min(eta, n_t - 1)
    F = reference.distances(H_s.T, H_t.T)
    gamma = np.mean([reference.row_gamma(row, eta, 1.0) for row in F])
    for row, w in zip(F, W, strict=True):
        near = np.argsort(row)[:eta]
        np.testing.assert_allclose(
            w[near], reference.simplex_point(-row[near] / (2 * gamma)), atol=1e-8
        )
        assert (w > 0).sum() <= eta
    np.testing.assert_allclose(graph.penalty, gamma * (W**2).sum())


def test_the_graph_of_the_script_leaves_out_the_nearest_and_keeps_its_targets():
    """Ranks 2 to η + 1 and the mean γ of the first call; new targets after `frozen` calls."""
    eta, frozen = 3, 2
    rule = AuthorsBipartite(eta, frozen).rule(TrainingData(*projections(0, 9, 8)))
    F = reference.distances(*(H.T for H in projections(0, 9, 8)))
    gamma = np.mean([reference.row_gamma(np.sort(row)[1:], eta, 1.0) for row in F])
    targets = np.argsort(F, axis=1)[:, 1 : eta + 1]
    for call in range(4):
        H_s, H_t = projections(call, 9, 8)
        F = reference.distances(H_s.T, H_t.T)
        if call >= frozen:
            targets = np.argsort(F, axis=1)[:, 1 : eta + 1]
        graph = rule(H_s, H_t)
        W = graph @ np.eye(8)
        for row, w, near in zip(F, W, targets, strict=True):
            expected = reference.simplex_point(-row[near] / (2 * gamma))
            np.testing.assert_allclose(w[near], expected, atol=1e-8)
        np.testing.assert_allclose(W.sum(axis=1), 1.0)
        np.testing.assert_allclose(graph.penalty, gamma * (W**2).sum())


@pytest.mark.parametrize("n_t", [2, 3])
def test_the_graph_of_the_script_needs_two_targets_only(n_t):
    _, W = learned(AuthorsBipartite(), *projections(0, 4, n_t))
    np.testing.assert_allclose(W.sum(axis=1), 1.0)
    F = reference.distances(*(H.T for H in projections(0, 4, n_t)))
    assert (np.take_along_axis(W, np.argsort(F, axis=1)[:, :1], axis=1) == 0).all()


@pytest.mark.parametrize("gamma", ["row", "mean"])
def test_learned_graph_knows_its_degrees(gamma):
    graph, W = learned(AdaptiveBipartite(3, gamma), *projections(0, 9, 6))
    np.testing.assert_allclose(graph.degrees, 1.0)
    np.testing.assert_allclose(W.sum(axis=1), 1.0)
    np.testing.assert_allclose(graph.T.degrees, W.sum(axis=0))
    np.testing.assert_allclose(graph.T @ np.eye(9), W.T)


@pytest.mark.parametrize("gamma", ["row", "mean"])
def test_targets_at_one_place_share_evenly(gamma):
    H_s, H_t = np.zeros((2, 3)), np.ones((5, 3))
    graph, W = learned(AdaptiveBipartite(3, gamma), H_s, H_t)
    np.testing.assert_allclose(np.sort(W, axis=1), [[0, 0, 1 / 3, 1 / 3, 1 / 3]] * 2)
    assert graph.penalty == 0.0


@given(seed=SEEDS, n_s=st.integers(2, 8), n_t=st.integers(2, 8), eta=st.integers(1, 6))
@settings(max_examples=30)
def test_choices_of_both_domains_are_added_and_shared(seed, n_s, n_t, eta):
    H_s, H_t = projections(seed, n_s, n_t)
    there = learned(AdaptiveBipartite(eta), H_s, H_t)[1]
    back = learned(AdaptiveBipartite(eta), H_t, H_s)[1]
    graph, W = learned(AdaptiveBipartite(eta, both_ways=True), H_s, H_t)
    total = there + back.T
    np.testing.assert_allclose(W, total / total.sum(axis=1, keepdims=True), atol=1e-12)
    np.testing.assert_allclose(graph.degrees, 1.0)
    assert (W.sum(axis=0) > 0).all()


def test_cosine_ignores_the_length_of_projections():
    H_s, H_t = projections(1, 7, 6)
    rule = AdaptiveBipartite(2, metric="cosine")
    longer = H_t * np.arange(1.0, 7.0)[:, None]
    np.testing.assert_allclose(learned(rule, H_s, H_t)[1], learned(rule, H_s, longer)[1])
    units = [H / np.linalg.norm(H, axis=1, keepdims=True) for H in (H_s, H_t)]
    np.testing.assert_allclose(learned(rule, H_s, H_t)[1], learned(AdaptiveBipartite(2), *units)[1])


def test_learned_graph_follows_the_projections():
    H_t = np.array([[0.0], [10.0], [25.0]])
    rule = AdaptiveBipartite(1).rule(TrainingData(H_t, H_t))
    for place, column in ((1.0, 0), (9.0, 1), (30.0, 2)):
        W = rule(np.array([[place]]), H_t) @ np.eye(3)
        np.testing.assert_array_equal(W, np.eye(3)[[column]])


def test_label_graph_is_that_of_the_labels_whatever_the_projections():
    y_s, y_t = np.array([0, 1, -1, 2]), np.array([2, 0, 0])
    rule = LabelBipartite().rule(TrainingData(None, None, y_s, y_t))
    for seed in range(2):
        W = rule(*projections(seed, 4, 3)) @ np.eye(3)
        np.testing.assert_array_equal(W, reference.label_graph(y_s, y_t))


@pytest.mark.parametrize("missing", ["y_source", "y_target"])
def test_label_graph_names_the_missing_labels(missing):
    labels = {"y_source": np.array([0]), "y_target": np.array([0])} | {missing: None}
    with pytest.raises(InputError, match=f"^{missing}: missing"):
        LabelBipartite().rule(TrainingData(None, None, **labels))


@pytest.mark.parametrize("form", [np.asarray, csr_array, lambda W: as_graph(csr_array(W), (4, 3))])
def test_given_graph_is_kept(form):
    W = np.random.default_rng(0).random((4, 3))
    H = projections(0, 4, 3)
    graph = GivenBipartite(form(W)).rule(TrainingData(*H))(*H)
    np.testing.assert_allclose(graph @ np.eye(3), W)
    np.testing.assert_allclose(graph.T @ np.eye(4), W.T)
    assert graph.penalty == 0.0


def test_a_graph_operator_stands_for_itself():
    graph = label_graph(np.array([0, 1]), np.array([1]))
    assert as_graph(graph, (2, 1)) is graph


@pytest.mark.parametrize("value", [-0.1, np.nan, np.inf])
def test_weights_that_are_no_weights_are_refused(value):
    W = np.ones((4, 3))
    W[1, 2] = value
    with pytest.raises(ValueError, match="weights"):
        GivenBipartite(W).rule(TrainingData(*projections(0, 4, 3)))


def test_a_given_graph_of_another_shape_is_refused():
    data = two_domains()
    hasher = ATH(8, bipartite=GivenBipartite(np.ones((3, 4))))
    with pytest.raises(ValueError, match=r"shape \(3, 4\); \(31, 24\) is needed"):
        hasher.fit(data.X_source, data.X_target)
