"""A match by structure alone: each step by its definition, the whole on data seen by two models."""

import itertools
import warnings

import numpy as np
import pytest
from scipy.stats import norm

from bridgehash import ATH, StructuralStart
from bridgehash.ath import matching
from bridgehash.ath.matching import (
    VIEWS,
    WAYS,
    ClusterPlan,
    Consensus,
    MatchedDomain,
    best_assignment,
    clearness,
    geodesics,
    graph_components,
    match,
    matched_clusters,
    normal_scores,
    plain_cosines,
    smooth_rows,
)

QUICK = StructuralStart(n_starts=18)


def two_models(seed, n=90, n_classes=6, noise=0.25):
    """Rows of classes of unequal distance and tightness, half of them seen by each of two models.

    A model is a random linear map to a width of its own.
    """
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(n_classes, 10)) * np.linspace(0.6, 1.6, n_classes)[:, None]
    y = np.arange(2 * n) % n_classes
    tightness = np.linspace(0.5, 1.5, n_classes)[y, None]
    Z = centres[y] + noise * tightness * rng.normal(size=(2 * n, 10))
    X_s = Z[:n] @ np.linalg.qr(rng.normal(size=(24, 10)))[0].T
    X_t = Z[n:] @ np.linalg.qr(rng.normal(size=(17, 10)))[0].T
    return X_s, X_t, y[:n], y[n:]


def stages(seed, n=160):
    """Stages of one process, half of them seen by each of two models: a bent band, no classes.

    Later stages lie closer together, which says where the process begins.
    """
    rng = np.random.default_rng(seed)
    stage = np.linspace(0, 1, 2 * n) ** 0.6
    order = rng.permutation(2 * n)
    bent = np.column_stack([np.cos(4 * stage), np.sin(4 * stage), 2.0 * stage])

    def seen(width, rows):
        turn = np.linalg.qr(rng.normal(size=(width, 3)))[0].T
        return bent[rows] @ turn + 0.15 * rng.normal(size=(n, width)) + 2.0

    first, second = order[:n], order[n:]
    return seen(12, first), seen(9, second), stage[first], stage[second]


def test_normal_scores_follow_the_ranks_and_nothing_else():
    G = np.corrcoef(np.random.default_rng(0).normal(size=(12, 5)))
    upper = np.triu_indices(12, 1)
    scores = normal_scores(G)
    order = np.argsort(G[upper])
    wanted = norm.ppf((np.arange(66) + 0.5) / 66)
    np.testing.assert_allclose(scores[upper][order], wanted)
    np.testing.assert_array_equal(scores, scores.T)
    np.testing.assert_allclose(normal_scores(np.exp(3 * G)), scores)
    assert (scores.diagonal() == 0).all()


@pytest.mark.parametrize("measure", VIEWS)
def test_a_view_is_blind_to_scale_and_rotation(measure):
    X = np.random.default_rng(0).normal(size=(40, 6)) * [5, 4, 3, 2, 1, 1]
    Q = np.linalg.qr(np.random.default_rng(1).normal(size=(6, 6)))[0]
    here, there = normal_scores(measure(X)), normal_scores(measure(7.0 * X @ Q))
    np.testing.assert_allclose(here, there, atol=1e-3)


def test_plain_cosines_order_rows_by_their_distance_from_the_mean():
    X = np.random.default_rng(0).normal(size=(50, 8)) + 1.0
    assert X.min() < 0  # no roots
    U = X / np.linalg.norm(X, axis=1, keepdims=True)
    nearest_first = np.argsort(np.linalg.norm(U - U.mean(axis=0), axis=1))
    np.testing.assert_array_equal(np.argsort(-plain_cosines(X).mean(axis=1)), nearest_first)


def test_one_large_entry_does_not_decide_the_cosines_of_rows_without_negative_entries():
    X = np.array([[9.0, 1.0, 1.0, 0.0, 0.0], [9.0, 0.0, 0.0, 1.0, 1.0], [1.0, 1.0, 1.0, 0.0, 0.0]])
    found = plain_cosines(X)
    np.testing.assert_allclose(found[0, 1], 9 / 11)  # 81 / 83 without roots
    np.testing.assert_allclose(found[0, 2], 5 / np.sqrt(33))
    assert found[0, 2] > found[0, 1]


def test_rows_between_classes_move_to_a_class():
    X, _, y, _ = two_models(0, noise=0.6)
    Y = smooth_rows(X)
    np.testing.assert_allclose(np.linalg.norm(Y, axis=1), 1.0)
    same = y[:, None] == y
    near = np.argsort(-(Y @ Y.T), axis=1)[:, 1:6]
    raw = X - X.mean(axis=0)
    raw_near = np.argsort(((raw[:, None] - raw) ** 2).sum(axis=2), axis=1)[:, 1:6]
    rows = np.arange(len(X))[:, None]
    assert same[rows, near].mean() > same[rows, raw_near].mean()


def test_graph_components_tell_apart_groups_that_no_edge_joins():
    rng = np.random.default_rng(0)
    groups = np.repeat(np.eye(3), 30, axis=0)
    X = groups @ rng.normal(size=(3, 8)) * 20 + rng.normal(size=(90, 8))
    E = graph_components(X)[:, :2]
    means = groups.T @ E / 30
    within = np.linalg.norm(E - groups @ means)
    assert within < 0.5 * np.linalg.norm(groups @ means)


def test_geodesics_follow_a_bent_band():
    angle = np.linspace(0, 1.6 * np.pi, 200)
    X = np.column_stack([np.cos(angle), np.sin(angle)])
    along = np.abs(angle[:, None] - angle)
    steps, straight = -geodesics(X), np.linalg.norm(X[:, None] - X[None], axis=2)
    found = [np.corrcoef(along.ravel(), D.ravel())[0, 1] for D in (steps, straight)]
    assert found[0] > 0.95 > found[1]


def test_geodesics_of_groups_without_a_path_are_the_longest():
    X = np.concatenate([np.arange(20.0), 1e3 + np.arange(20.0)])[:, None]
    similarity = geodesics(X)
    assert np.isfinite(similarity).all()
    assert similarity[:20, 20:].max() < similarity[:20, :20].min()


def test_assignment_finds_a_hidden_order():
    A = np.random.default_rng(0).normal(size=(6, 6))
    A = A + A.T
    hidden = np.random.default_rng(1).permutation(6)
    B = np.empty_like(A)
    B[np.ix_(hidden, hidden)] = A  # row i of A is row hidden[i] of B
    best = max(itertools.permutations(range(6)), key=lambda o: (A * B[np.ix_(o, o)]).sum())
    np.testing.assert_array_equal(hidden, best)
    kept, order = best_assignment(A, B, np.random.RandomState(0))
    np.testing.assert_array_equal(order, hidden)
    assert kept == pytest.approx((A**2).sum())


def test_relations_are_standardised_means_between_clusters_with_clearness_on_the_diagonal():
    X, _, y, _ = two_models(0)
    domain = MatchedDomain.of(X)
    A = domain.relations(np.eye(6)[y], WAYS[-1], 0.5)
    pairs = list(itertools.permutations(range(6), 2))
    wanted = np.zeros(len(pairs))
    for C in domain.views:
        means = np.array([C[y == i][:, y == j].mean() for i, j in pairs])
        wanted += (means - means.mean()) / means.std()
    found = np.array([A[i, j] for i, j in pairs])
    np.testing.assert_allclose(found, (wanted - wanted.mean()) / wanted.std(), atol=1e-4)
    clear = np.array([domain.f[y == i].mean() for i in range(6)])
    np.testing.assert_allclose(A.diagonal(), (clear - clear.mean()) / clear.std(), atol=1e-4)


def test_an_empty_cluster_does_no_harm():
    X, _, y, _ = two_models(0)
    assert np.isfinite(MatchedDomain.of(X).relations(np.eye(8)[y], WAYS[0], 1.0)).all()


@pytest.mark.parametrize("way", WAYS)
def test_a_domain_is_matched_with_itself(way):
    X, _, _, _ = two_models(0)
    domain = MatchedDomain.of(X)
    found = matched_clusters(domain, domain, 6, way, 1.0, np.random.RandomState(0))
    plan = found.P @ found.Q.T
    assert plan.sum() == pytest.approx(1.0, abs=1e-5)
    assert found.quality > 0.95
    assert np.trace(plan) == pytest.approx(1 / 15, rel=0.3)  # within clusters of about 15 rows


def cluster_plan(labels_s, labels_t, k, quality=1.0):
    """Return the plan that joins clusters of the same number, of equal size."""
    P, Q = np.eye(k)[labels_s], np.eye(k)[labels_t]
    size = np.sqrt((P @ Q.T).sum())
    return ClusterPlan(P / size, Q / size, quality)


def test_plans_are_compared_as_if_they_were_built():
    rng = np.random.default_rng(0)
    plans = [
        cluster_plan(rng.permutation(24) % k, rng.permutation(12) % k, k) for k in (2, 3, 4, 6)
    ]
    built = np.array([(plan.P @ plan.Q.T).ravel() for plan in plans])
    found = Consensus(plans)
    np.testing.assert_allclose(found.correlations, np.corrcoef(built), atol=1e-9)
    off = found.correlations[~np.eye(4, dtype=bool)]
    assert found.agreement == pytest.approx(np.sqrt(max(off.mean(), 0.0)))  # of quality one
    np.testing.assert_allclose(found.plan().ravel(), found.weights() @ built)


def test_the_consensus_leaves_out_a_plan_that_contradicts_the_others_and_a_poor_one():
    rng = np.random.default_rng(0)
    y = np.arange(60) % 6
    right = [cluster_plan(y, y, 6) for _ in range(3)]
    wrong = cluster_plan(y, rng.permutation(y), 6)
    poor = cluster_plan(y, y, 6, quality=0.3)
    weights = Consensus([*right, wrong, poor]).weights()
    assert weights.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(weights[:3], 1 / 3, atol=0.01)


def test_progress_begins_at_once_and_ends_at_one():
    X_s, X_t, _, _ = two_models(0)
    shares = []
    match(X_s, X_t, np.random.RandomState(0), n_starts=6, progress=shares.append)
    assert shares[0] == 0.0
    assert shares[-1] == 1.0
    assert shares == sorted(shares)


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2))])
def test_classes_seen_by_two_models_find_each_other(seed):
    X_s, X_t, y_s, y_t = two_models(seed)
    found = match(X_s, X_t, np.random.RandomState(0), n_starts=27)
    same = y_s[found.rows_s][:, None] == y_t[found.rows_t]
    assert found.plan.sum() == pytest.approx(1.0, abs=1e-3)
    assert found.plan[same].sum() > 0.6  # chance: one in six
    assert found.agreement > 0.17


def test_stages_of_a_process_find_each_other():
    X_s, X_t, stage_s, stage_t = stages(0)
    found = match(X_s, X_t, np.random.RandomState(0), n_starts=27)
    partners = found.plan @ stage_t[found.rows_t] / found.plan.sum(axis=1)
    assert np.corrcoef(partners, stage_s[found.rows_s])[0, 1] > 0.9


@pytest.mark.slow
def test_neither_rounding_nor_scale_moves_a_match_that_is_there():
    X_s, X_t, _, _ = two_models(0)
    here = match(X_s, X_t, np.random.RandomState(0), n_starts=44)
    for X in (X_s.astype(np.float32), 1e3 * X_s):
        there = match(X, X_t, np.random.RandomState(0), n_starts=44)
        np.testing.assert_array_equal(here.rows_s, there.rows_s)
        assert np.abs(here.plan - there.plan).sum() < 0.2


def test_rows_of_equal_entries_are_neither_peaked_nor_warned_about():
    rng = np.random.default_rng(0)
    peaked = rng.exponential(size=(30, 20)) ** 3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = clearness(np.vstack([peaked, np.full((10, 20), 0.3)]))
    assert np.isfinite(found).all()
    assert found[30:].max() < found[:30].mean()


def test_clearness_orders_rows_by_how_peaked_they_and_their_neighbours_are():
    rng = np.random.default_rng(0)
    peaked = np.where(np.arange(30) == 3, 5.0, 0.1) + 0.01 * rng.random((20, 30))
    flat = 1.0 + 0.01 * rng.normal(size=(20, 30))
    found = clearness(np.vstack([peaked, flat]))
    assert found.shape == (40,)
    assert found[:20].min() > found[20:].max()
    np.testing.assert_allclose(np.sort(found), norm.ppf((np.arange(40) + 0.5) / 40), rtol=1e-5)


def test_noise_is_recognised_as_no_match():
    rng = np.random.default_rng(0)
    found = match(
        rng.normal(size=(80, 9)),
        rng.normal(size=(70, 12)),
        np.random.RandomState(0),
        n_starts=18,
    )
    assert found.agreement < 0.17


def test_at_most_the_wanted_rows_take_part():
    X_s, X_t, _, _ = two_models(0)
    found = match(X_s, X_t, np.random.RandomState(0), n_starts=4, max_rows=50)
    assert found.plan.shape == (50, 50)
    assert len(np.unique(found.rows_s)) == 50


def test_codes_find_their_class_across_feature_spaces_without_labels():
    X_s, X_t, y_s, y_t = two_models(1, n=150)
    ath = ATH.structural(32, start=QUICK, random_state=0).fit(X_s, X_t)
    H_s, H_t = ath.transform(X_s, "source").astype(int), ath.transform(X_t, "target").astype(int)
    nearest = np.argmax(H_t @ H_s.T, axis=1)
    assert (y_s[nearest] == y_t).mean() > 0.6
    assert ath.agreement_ > 0.17


@pytest.mark.slow
def test_labels_of_the_source_alone_cross_feature_spaces():
    X_s, X_t, y_s, y_t = two_models(2, n=150)
    ath = ATH.propagated(32, random_state=0).fit(X_s, X_t, y_source=y_s)
    H_s, H_t = ath.transform(X_s, "source").astype(int), ath.transform(X_t, "target").astype(int)
    assert (y_s[np.argmax(H_t @ H_s.T, axis=1)] == y_t).mean() > 0.6


@pytest.mark.parametrize("better", [True, False])
def test_the_plan_that_keeps_more_similarity_wins_if_clearness_contradicts_it(better, monkeypatch):
    X_s, X_t, _, _ = stages(0)

    def found(error, kept=None):
        with monkeypatch.context() as changed:
            changed.setattr(matching, "_standard_error", lambda n: error)
            if kept is not None:
                changed.setattr(matching, "kept_similarity", lambda *which: next(kept))
            return match(X_s, X_t, np.random.RandomState(0), n_starts=8).agreement

    with_clearness, both = found(0.0), found(-10.0, iter([float(better), 0.5]))
    assert (both != with_clearness) == better


def test_a_fit_leaves_no_agreement_where_nothing_was_searched():
    X_s, X_t, _, _ = two_models(0)
    assert ATH.unsupervised(8, random_state=0).fit(X_s, X_t).agreement_ is None
