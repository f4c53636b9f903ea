"""A match by structure alone: each step by its definition, the whole on data seen by two models."""

import itertools
import warnings

import numpy as np
import pytest
from scipy.stats import norm

from bridgehash import ATH, StructuralStart
from bridgehash._core.linalg import sinkhorn
from bridgehash.ath.matching import (
    VIEWS,
    CoarsePair,
    MatchingProblem,
    SimilarityView,
    best_assignment,
    centred_cosines,
    clearness,
    geodesics,
    match,
    mean_of_one_solution,
    normal_scores,
    plain_cosines,
    with_exact_sums,
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
def test_any_plan_gets_exact_sums_and_one_that_has_them_stays(seed):
    rng = np.random.default_rng(seed)
    here = problem(seed)
    T = rng.random((7, 5)) * (rng.random((7, 5)) < 0.5)
    exact = with_exact_sums(T / T.sum(), here.p, here.q)
    assert exact.min() >= 0
    np.testing.assert_allclose(exact.sum(axis=1), here.p)
    np.testing.assert_allclose(exact.sum(axis=0), here.q)
    np.testing.assert_allclose(with_exact_sums(exact, here.p, here.q), exact, atol=1e-12)


def test_a_refined_plan_is_judged_with_exact_sums():
    here = problem()
    T = np.outer(here.p, here.q) * np.random.default_rng(0).random((7, 5))
    loss, plan = here.refined(T, 3)
    assert loss == pytest.approx(here.loss(with_exact_sums(plan, here.p, here.q)))


@pytest.mark.parametrize("seed", range(5))
def test_steps_lower_the_loss_and_keep_the_sums(seed):
    X_s, X_t, _, _ = two_models(seed)
    s, t = SimilarityView.of(X_s, centred_cosines), SimilarityView.of(X_t, centred_cosines)
    p, q = np.full(90, 1 / 90), np.full(90, 1 / 90)
    here = MatchingProblem(s.C, t.C, s.F, t.F, p, q, mu=0.3)
    rng = np.random.default_rng(seed)
    T = sinkhorn(rng.random((90, 90)), p, q, 50)
    better = here.improved(T, 10, 0.05)
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


@pytest.mark.parametrize("measure", VIEWS)
def test_a_view_is_blind_to_scale_and_rotation(measure):
    X = np.random.default_rng(0).normal(size=(40, 6)) * [5, 4, 3, 2, 1, 1]
    Q = np.linalg.qr(np.random.default_rng(1).normal(size=(6, 6)))[0]
    here, there = SimilarityView.of(X, measure).C, SimilarityView.of(7.0 * X @ Q, measure).C
    np.testing.assert_allclose(here, there, atol=1e-3)


@pytest.mark.parametrize("measure", VIEWS)
def test_losses_of_views_are_comparable(measure):
    """Ties, of which geodesics have many, do not make the similarities of a view smaller."""
    C = SimilarityView.of(np.random.default_rng(0).normal(size=(60, 8)), measure).C
    assert C.mean() == pytest.approx(0.0, abs=1e-5)
    assert C.std() == pytest.approx(1.0, abs=1e-5)


def test_plain_cosines_order_rows_by_their_distance_from_the_mean_and_centred_ones_do_not():
    X = np.random.default_rng(0).normal(size=(50, 8)) + 1.0
    U = X / np.linalg.norm(X, axis=1, keepdims=True)
    nearest_first = np.argsort(np.linalg.norm(U - U.mean(axis=0), axis=1))
    plain, centred = (np.argsort(-m(X)[1].mean(axis=1)) for m in (plain_cosines, centred_cosines))
    np.testing.assert_array_equal(plain, nearest_first)
    assert (centred != nearest_first).any()


def test_geodesics_follow_a_bent_band():
    angle = np.linspace(0, 1.6 * np.pi, 200)
    X = np.column_stack([np.cos(angle), np.sin(angle)])
    along = np.abs(angle[:, None] - angle)
    steps, straight = -geodesics(X)[1], np.linalg.norm(X[:, None] - X[None], axis=2)
    found = [np.corrcoef(along.ravel(), D.ravel())[0, 1] for D in (steps, straight)]
    assert found[0] > 0.95 > found[1]


def test_geodesics_of_groups_without_a_path_are_the_longest():
    X = np.concatenate([np.arange(20.0), 1e3 + np.arange(20.0)])[:, None]
    similarity = geodesics(X)[1]
    assert np.isfinite(similarity).all()
    assert similarity[:20, 20:].max() < similarity[:20, :20].min()


def test_rows_that_are_all_equally_similar_have_the_loss_of_no_match():
    flat, F, p = np.zeros((3, 3)), np.ones((3, 1)), np.full(3, 1 / 3)
    assert MatchingProblem(flat, flat, F, F, p, p, mu=0.3).loss(np.full((3, 3), 1 / 9)) == 1.0


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
    view, other = SimilarityView.of(X_s, plain_cosines), SimilarityView.of(X_t, plain_cosines)
    cells = CoarsePair(view, other, np.random.RandomState(0)).source
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
        SimilarityView.of(X_s, centred_cosines),
        SimilarityView.of(X_t, centred_cosines),
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


def test_stages_of_a_process_find_each_other():
    X_s, X_t, stage_s, stage_t = stages(0)
    found = match(X_s, X_t, np.random.RandomState(0), n_starts=5, n_kept=2)
    partners = found.plan @ stage_t[found.rows_t] / found.plan.sum(axis=1)
    assert np.corrcoef(partners, stage_s[found.rows_s])[0, 1] > 0.9


@pytest.mark.slow
def test_neither_rounding_nor_scale_moves_a_match_that_is_there():
    X_s, X_t, _, _ = two_models(0)
    here = match(X_s, X_t, np.random.RandomState(0), n_starts=8, n_kept=3)
    for X in (X_s.astype(np.float32), 1e3 * X_s):
        there = match(X, X_t, np.random.RandomState(0), n_starts=8, n_kept=3)
        np.testing.assert_array_equal(here.rows_s, there.rows_s)
        assert np.abs(here.plan - there.plan).sum() < 0.2


def test_the_mean_leaves_out_a_plan_that_contradicts_the_best():
    rng = np.random.default_rng(0)
    Y_t, F_s = rng.normal(size=(40, 6)), np.zeros((40, 1))
    best, other = np.eye(40) / 40, np.eye(40)[rng.permutation(40)] / 40
    near = 0.9 * best + 0.1 * other
    mean = mean_of_one_solution([(0.2, best), (0.2, near), (0.2, other)], Y_t, F_s)
    np.testing.assert_allclose(mean, (best + near) / 2)


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
    found = match(
        rng.normal(size=(80, 9)),
        rng.normal(size=(70, 12)),
        np.random.RandomState(0),
        n_starts=10,
    )
    assert found.agreement < 0.2


def test_at_most_the_wanted_rows_take_part():
    X_s, X_t, _, _ = two_models(0)
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
