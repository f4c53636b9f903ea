"""A match by structure alone: each step by its definition, the whole on data seen by two models."""

import itertools
import warnings

import numpy as np
import pytest
from scipy.stats import norm

from bridgehash import ATH, StructuralStart
from bridgehash._core.errors import BridgeWarning
from bridgehash._core.linalg import sinkhorn
from bridgehash.ath.matching import (
    CoarsePair,
    MatchingProblem,
    SimilarityView,
    best_assignment,
    clearness,
    match,
    normal_scores,
)

QUICK = StructuralStart(n_starts=10, n_kept=3)


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


def problem(seed=0, n_s=7, n_t=5):
    rng = np.random.default_rng(seed)
    C_s, C_t = rng.normal(size=(n_s, n_s)), rng.normal(size=(n_t, n_t))
    F_s, F_t = rng.normal(size=(n_s, 1)), rng.normal(size=(n_t, 1))
    p, q = rng.random(n_s), rng.random(n_t)
    return MatchingProblem(C_s + C_s.T, C_t + C_t.T, F_s, F_t, p / p.sum(), q / q.sum(), mu=0.3)


def test_the_loss_is_the_sum_over_pairs_of_pairs_less_the_clearness_kept():
    here = problem()
    T = sinkhorn(np.random.default_rng(1).random((7, 5)), here.p, here.q, 200)
    gaps = (here.C_s[:, :, None, None] - here.C_t[None, None]) ** 2
    kept = 0.3 * np.einsum("if,kf,ik->", here.F_s, here.F_t, T)
    wanted = np.einsum("ijkl,ik,jl->", gaps, T, T) - 2 * kept
    size = here.p @ here.C_s**2 @ here.p + here.q @ here.C_t**2 @ here.q
    assert here.loss(T) == pytest.approx(wanted / size)


def test_scaling_gives_the_wanted_sums():
    here = problem()
    T = sinkhorn(np.random.default_rng(0).random((7, 5)) + 0.1, here.p, here.q, 200)
    np.testing.assert_allclose(T.sum(axis=1), here.p)
    np.testing.assert_allclose(T.sum(axis=0), here.q)


@pytest.mark.parametrize("seed", range(5))
def test_steps_lower_the_loss_and_keep_the_sums(seed):
    X_s, X_t, _, _ = two_models(seed)
    s, t = SimilarityView.of(X_s, None, True), SimilarityView.of(X_t, None, True)
    p, q = np.full(90, 1 / 90), np.full(90, 1 / 90)
    here = MatchingProblem(s.C, t.C, s.F, t.F, p, q, mu=0.3)
    rng = np.random.default_rng(seed)
    T = sinkhorn(rng.random((90, 90)), p, q, 50)
    better = here.improved(T, 10)
    assert here.loss(better) < here.loss(T)
    np.testing.assert_allclose(better.sum(axis=0), q, atol=1e-3)


def test_normal_scores_follow_the_ranks_and_nothing_else():
    G = np.corrcoef(np.random.default_rng(0).normal(size=(12, 5)))
    upper = np.triu_indices(12, 1)
    scores = normal_scores(G)
    order = np.argsort(G[upper])
    wanted = norm.ppf((np.arange(66) + 0.5) / 66)
    np.testing.assert_allclose(scores[upper][order], wanted)
    np.testing.assert_array_equal(scores, scores.T)
    np.testing.assert_allclose(normal_scores(np.exp(3 * G)), scores)
    assert (scores.diagonal() == wanted.max()).all()


def test_a_view_is_blind_to_scale_and_rotation():
    X = np.random.default_rng(0).normal(size=(40, 6)) * [5, 4, 3, 2, 1, 1]
    Q = np.linalg.qr(np.random.default_rng(1).normal(size=(6, 6)))[0]
    for kind in ((None, False), (None, True), (3, True)):
        np.testing.assert_allclose(
            SimilarityView.of(X, *kind).C, SimilarityView.of(7.0 * X @ Q, *kind).C, atol=1e-3
        )


def test_assignment_finds_a_hidden_order():
    A = np.random.default_rng(0).normal(size=(6, 6))
    A = A + A.T
    hidden = np.random.default_rng(1).permutation(6)
    B = np.empty_like(A)
    B[np.ix_(hidden, hidden)] = A  # row i of A is row hidden[i] of B
    best = max(itertools.permutations(range(6)), key=lambda o: (A * B[np.ix_(o, o)]).sum())
    np.testing.assert_array_equal(hidden, best)
    np.testing.assert_array_equal(best_assignment(A, B, np.random.RandomState(0)), hidden)


def test_cells_hold_the_mean_similarity_of_their_rows():
    X_s, X_t, _, _ = two_models(0)
    view = SimilarityView.of(X_s, None, False)
    cells = CoarsePair(view, SimilarityView.of(X_t, None, False), np.random.RandomState(0)).source
    i, j = np.argsort(np.bincount(cells.labels))[::-1][:2]
    rows, others = cells.labels == i, cells.labels == j
    assert cells.C[i, j] == pytest.approx(view.C[rows][:, others].mean(), abs=1e-5)
    inside = view.C[rows][:, rows]
    n = rows.sum()
    wanted = (inside.sum() - np.trace(inside)) / (n * (n - 1)) if n > 1 else cells.C[i, i]
    assert cells.C[i, i] == pytest.approx(wanted, abs=1e-5)
    assert cells.weights.sum() == pytest.approx(1.0)


def test_a_lifted_plan_has_the_mass_of_its_cells():
    X_s, X_t, _, _ = two_models(0)
    cells = CoarsePair(
        SimilarityView.of(X_s, None, True),
        SimilarityView.of(X_t, None, True),
        np.random.RandomState(0),
    )
    _, plan = cells.start(6, 0.0, np.random.RandomState(0))
    rows = cells.lifted(plan)
    assert rows.shape == (90, 90)
    assert rows.sum() == pytest.approx(plan.sum(), rel=1e-4)


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2))])
def test_classes_seen_by_two_models_find_each_other(seed):
    X_s, X_t, y_s, y_t = two_models(seed)
    found = match(X_s, X_t, np.random.RandomState(0), n_starts=15, n_kept=4)
    same = y_s[found.rows_s][:, None] == y_t[found.rows_t]
    assert found.plan.sum() == pytest.approx(1.0, abs=1e-3)
    assert found.plan[same].sum() > 0.6  # chance: one in six
    assert found.agreement > 0.2


@pytest.mark.slow
def test_neither_rounding_nor_scale_moves_a_match_that_is_there():
    X_s, X_t, _, _ = two_models(0)
    here = match(X_s, X_t, np.random.RandomState(0), n_starts=8, n_kept=3)
    for X in (X_s.astype(np.float32), 1e3 * X_s):
        there = match(X, X_t, np.random.RandomState(0), n_starts=8, n_kept=3)
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
    assert found.shape == (40, 1)
    assert found[:20].min() > found[20:].max()
    np.testing.assert_allclose(
        np.sort(found[:, 0]), norm.ppf((np.arange(40) + 0.5) / 40), rtol=1e-5
    )


def test_noise_is_recognised_as_no_match():
    rng = np.random.default_rng(0)
    with pytest.warns(BridgeWarning, match="Cross-domain search will not work"):
        found = match(
            rng.normal(size=(80, 9)),
            rng.normal(size=(70, 12)),
            np.random.RandomState(0),
            n_starts=10,
        )
    assert found.agreement < 0.2


def test_at_most_the_wanted_rows_take_part():
    X_s, X_t, _, _ = two_models(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BridgeWarning)
        found = match(X_s, X_t, np.random.RandomState(0), n_starts=4, n_kept=2, max_rows=50)
    assert found.plan.shape == (50, 50)
    assert len(np.unique(found.rows_s)) == 50


def test_codes_find_their_class_across_feature_spaces_without_labels():
    X_s, X_t, y_s, y_t = two_models(1, n=150)
    ath = ATH.structural(32, start=QUICK, random_state=0).fit(X_s, X_t)
    H_s, H_t = ath.transform(X_s, "source").astype(int), ath.transform(X_t, "target").astype(int)
    nearest = np.argmax(H_t @ H_s.T, axis=1)
    assert (y_s[nearest] == y_t).mean() > 0.6
    assert ath.agreement_ > 0.2


@pytest.mark.slow
def test_labels_of_the_source_alone_cross_feature_spaces():
    X_s, X_t, y_s, y_t = two_models(2, n=150)
    ath = ATH.propagated(32, random_state=0).fit(X_s, X_t, y_source=y_s)
    H_s, H_t = ath.transform(X_s, "source").astype(int), ath.transform(X_t, "target").astype(int)
    assert (y_s[np.argmax(H_t @ H_s.T, axis=1)] == y_t).mean() > 0.6


def test_a_fit_leaves_no_agreement_where_nothing_was_searched():
    X_s, X_t, _, _ = two_models(0)
    assert ATH.unsupervised(8, random_state=0).fit(X_s, X_t).agreement_ is None
