"""One code word per class: the B-step, the code book, weights of rows, the automatic ridge."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest

from bridgehash import ATH, AnchorKernel, BalancedCodes, ClassCodes, InputError, load
from bridgehash.ath.class_codes import BalancedSigns, class_weights, far_words
from bridgehash.ath.ridge import RIDGES, ridge_path
from bridgehash.ath.solver import solve
from bridgehash.models.training import Domains
from tests.cases import two_domains


def rng(seed=0):
    return np.random.RandomState(seed)


def begun(y_s, y_t, n_bits, alphas=(1.0, 1.0), seed=0):
    rows = np.empty((len(y_s), 1)), np.empty((len(y_t), 1))
    data = Domains(("source", "target"), rows, (y_s, y_t))
    return ClassCodes().begin(data, n_bits, alphas, rng(seed))


def fidelity(codes, H, B):
    """T1 of both domains."""
    return sum(
        alpha * (w[:, None] * (b - h) ** 2).sum()
        for alpha, w, h, b in zip(codes.alphas, codes.weights, H, B, strict=True)
    )


# --- the step


@pytest.mark.parametrize("seed", range(5))
def test_the_step_is_the_best_of_all_assignments_of_words(seed):
    random = np.random.default_rng(seed)
    y_s, y_t = random.permutation(np.arange(12) % 4), random.permutation(np.arange(9) % 4)
    H = random.normal(size=(12, 6)), random.normal(size=(9, 6))
    codes = begun(y_s, y_t, 6, (0.3, 2.0), seed)
    book = codes.words.copy()
    found = fidelity(codes, H, codes.step(H))
    every = [
        fidelity(codes, H, (book[list(order)][y_s], book[list(order)][y_t]))
        for order in permutations(range(4))
    ]
    assert found == pytest.approx(min(every))
    assert max(every) > 1.01 * found


def test_every_step_gives_a_class_one_code_in_both_domains_and_classes_different_ones():
    random = np.random.default_rng(0)
    y_s, y_t = random.integers(7, size=40), random.integers(7, size=30)
    codes = begun(y_s, y_t, 8)
    for _ in range(4):
        B_s, B_t = codes.step([random.normal(size=(n, 8)) for n in (40, 30)])
        words = np.unique(np.column_stack([np.r_[y_s, y_t], np.vstack([B_s, B_t])]), axis=0)
        assert len(words) == 7
        assert len(np.unique(words[:, 1:], axis=0)) == 7


def test_rows_without_a_label_have_no_weight_and_the_signs_of_their_projections():
    y = np.array([0, -1, 1, 1])
    H = np.array([[3.0, 1.0], [-2.0, 5.0], [1.0, -1.0], [-1.0, -1.0]])
    codes = begun(y, y, 2)
    B = codes.step([H, H])[0]
    np.testing.assert_array_equal(B[1], [-1.0, 1.0])
    np.testing.assert_array_equal(B[2], B[3])
    np.testing.assert_allclose(codes.weights[0], [1.5, 0.0, 0.75, 0.75])


# --- the code book


def least_distance(words):
    distances = (words.shape[1] - words @ words.T) / 2
    return distances[np.triu_indices(len(words), 1)].min()


@pytest.mark.parametrize(("n_words", "n_bits", "least"), [(2, 9, 9), (10, 16, 7), (77, 64, 26)])
def test_words_are_farther_apart_than_random_ones(n_words, n_bits, least):
    for seed in range(3):
        drawn = 2.0 * rng(seed).randint(2, size=(n_words, n_bits)) - 1.0
        words = far_words(n_words, n_bits, rng(seed))
        assert least_distance(words) >= max(least, least_distance(drawn) + 1)
        np.testing.assert_array_equal(words, far_words(n_words, n_bits, rng(seed)))


@pytest.mark.parametrize(("n_words", "n_bits"), [(4, 2), (77, 16), (64, 6), (60, 6), (400, 21)])
def test_words_are_distinct_if_there_are_enough(n_words, n_bits):
    words = far_words(n_words, n_bits, rng())
    assert set(np.unique(words)) == {-1.0, 1.0}
    assert len(np.unique(words, axis=0)) == n_words


def test_more_classes_than_words_share_words():
    assert far_words(11, 3, rng()).shape == (11, 3)
    assert far_words(1, 5, rng()).shape == (1, 5)


# --- the fit


def test_all_classes_have_the_same_weight():
    weights = class_weights(np.array([2, 2, 2, 0, -1]))
    np.testing.assert_allclose(weights, [2 / 3, 2 / 3, 2 / 3, 2.0, 0.0])


@pytest.mark.parametrize("variant", ["supervised", "kernel"])
def test_labels_may_be_partial(variant):
    data = two_domains(n_s=60, n_t=45)
    y_s, y_t = (np.where(np.arange(len(y)) % 3, y, -1) for y in (data.y_source, data.y_target))
    fits = {}
    for name, labels in (("all", (data.y_source, data.y_target)), ("some", (y_s, y_t))):
        model = getattr(ATH, variant)(16, random_state=0)
        model.fit(data.X_source, data.X_target, y_source=labels[0], y_target=labels[1])
        codes = [model.transform(data.X_source, "source"), model.transform(data.X_target, "target")]
        y = np.r_[data.y_source, data.y_target]
        fits[name] = np.vstack(codes).astype(float) @ np.vstack(codes).astype(float).T / 16.0
        same = y[:, None] == y
        assert fits[name][same].mean() - fits[name][~same].mean() > 0.6, name


@pytest.mark.parametrize("variant", ["supervised", "kernel"])
def test_a_saved_model_keeps_the_chosen_settings(variant, tmp_path):
    data = two_domains(n_s=60, n_t=45)
    model = getattr(ATH, variant)(16, random_state=0)
    model.fit(data.X_source, data.X_target, y_source=data.y_source, y_target=data.y_target)
    model.save(tmp_path / "model.bh")
    loaded = load(tmp_path / "model.bh")
    assert (loaded.codes, loaded.center) == ("classes", "classes")
    np.testing.assert_array_equal(
        loaded.encode(data.X_target, "target"), model.encode(data.X_target, "target")
    )


def test_labels_of_both_domains_are_needed():
    data = two_domains()
    with pytest.raises(InputError, match="missing") as caught:
        ATH(8, codes="classes").fit(data.X_source, data.X_target, y_source=data.y_source)
    assert caught.value.argument == "y_target"
    with pytest.raises(InputError, match="y_source: missing; center='classes' needs labels"):
        ATH(8, center="classes").fit(data.X_source, data.X_target)
    with pytest.raises(InputError, match="ridge: 'auto' needs codes='classes'"):
        ATH(8, ridge="auto").fit(data.X_source, data.X_target)


# --- the automatic ridge


@pytest.mark.parametrize("shape", [(14, 5), (6, 11)])
def test_left_out_projections_are_those_of_a_fit_without_the_row(shape):
    random = np.random.default_rng(0)
    X, B = random.normal(size=shape), random.choice([-1.0, 1.0], (shape[0], 3))
    w = random.uniform(0.5, 2.0, shape[0])
    for ridge, H in zip(RIDGES, ridge_path(X, B, w, RIDGES, left_out=True), strict=True):
        for i in range(shape[0]):
            keep = np.arange(shape[0]) != i
            Z, weighted = X[keep], w[keep, None] * X[keep]
            A = np.linalg.solve(Z.T @ weighted + ridge * np.eye(shape[1]), weighted.T @ B[keep])
            np.testing.assert_allclose(H[i], X[i] @ A, atol=1e-8)


def test_noisy_targets_get_a_larger_ridge():
    random = np.random.default_rng(0)
    centres, y = random.normal(size=(4, 60)), np.arange(160) % 4
    clean = centres[y] + 0.01 * random.normal(size=(160, 60))
    noisy = centres[y] + 3.0 * random.normal(size=(160, 60))
    ridges = [
        ATH.supervised(32, random_state=0).fit(clean, X, y_source=y, y_target=y).ridges_["target"]
        for X in (clean, noisy)
    ]
    assert ridges[0] < ridges[1]
    assert set(ridges) <= set(RIDGES)


def test_each_of_three_domains_has_its_own_ridge(monkeypatch):
    random = np.random.default_rng(0)
    centres, y = random.normal(size=(4, 60)), np.arange(160) % 4
    noise = {"clean": 0.01, "also clean": 0.01, "noisy": 3.0}
    X = {name: centres[y] + s * random.normal(size=(160, 60)) for name, s in noise.items()}
    used = []

    def noted(*args, ridges, **settings):
        used.append(ridges)
        return solve(*args, ridges=ridges, **settings)

    monkeypatch.setattr("bridgehash.ath.problem.solve", noted)
    ATH.supervised(32, random_state=0).fit(X, y=dict.fromkeys(X, y))
    assert used[0][0] == used[0][1] < used[0][2]


# --- anchors


def test_the_number_of_anchors_follows_the_data(monkeypatch):
    X = np.random.default_rng(0).normal(size=(50, 3))
    assert len(AnchorKernel("auto", random_state=0).fit(X).anchors_) == 50
    monkeypatch.setattr("bridgehash.models.feature_maps._MOST_ANCHORS", 20)
    assert len(AnchorKernel("auto", random_state=0).fit(X).anchors_) == 20
    full, half = (AnchorKernel(9, b, random_state=0).fit(X) for b in ("median", "half-median"))
    assert half.bandwidth_ == pytest.approx(full.bandwidth_ / 2)


# --- words for some of the bits


def partly_words(y_s, y_t, n_bits=8, members=None, **changes):
    rows = np.empty((len(y_s), 1)), np.empty((len(y_t), 1))
    data = Domains(("source", "target"), rows, (y_s, y_t), members=members or {})
    data = replace(data, **changes)
    return BalancedCodes(words=0.5).begin(data, n_bits, (1.0, 1.0), rng())


def test_the_first_bits_are_words_and_the_others_balanced():
    y_s, y_t = np.arange(9) % 3, np.arange(6) % 3
    H = [rng(1).normal(size=(len(y), 8)) for y in (y_s, y_t)]
    codes = partly_words(y_s, y_t)
    first, (B_s, B_t) = codes.first(H), codes.step(H)
    words = B_s[:3, :4]
    assert set(np.unique(words)) == {-1.0, 1.0}
    assert len(np.unique(words, axis=0)) == 3
    for B, y in ((B_s, y_s), (B_t, y_t), (first[0], y_s), (first[1], y_t)):
        np.testing.assert_array_equal(B[:, :4], words[y])
    np.testing.assert_array_equal(B_t[:, 4:].sum(axis=0), 0)
    np.testing.assert_array_equal(B_t[:, 4:], np.where(B_t[:, 4:] > 0, 1, -1))
    assert (
        np.where(B_t[:, 4:] > 0, H[1][:, 4:], np.inf).min(axis=0)
        > np.where(B_t[:, 4:] < 0, H[1][:, 4:], -np.inf).max(axis=0)
    ).all()


def test_a_row_of_uncertain_class_has_the_code_that_minimises_the_expected_fidelity():
    y_s, y_t = np.array([0, 1, 2]), np.array([0, 1, -1])
    M = np.array([[0.7, 0.3, 0.0], [0.0, 1.0, 0.0], [0.2, 0.3, 0.5]])
    B_s, B_t = partly_words(y_s, y_t, members={1: M}).step([np.zeros((3, 8)), np.zeros((3, 8))])
    words = B_s[:, :4]

    def expected(b, shares):
        return (shares[:, None] * (words - b) ** 2).sum()

    for b, shares in zip(B_t[:, :4], M, strict=True):
        least = expected(b, shares)
        assert all(expected(b + 0.01 * step, shares) > least for step in np.eye(4))
        assert all(expected(b - 0.01 * step, shares) > least for step in np.eye(4))


def test_a_row_of_unknown_class_without_memberships_has_no_word():
    B = partly_words(np.array([0, 1]), np.array([0, -1])).step([np.ones((2, 8)), np.ones((2, 8))])
    np.testing.assert_array_equal(B[1][1, :4], 0)
    assert (B[1][0, :4] != 0).all()


def test_given_codes_leave_no_bits_for_words_and_earlier_codes_keep_theirs():
    y = np.array([0, 0, 1, 1])
    given = np.where(rng(3).normal(size=(4, 8)) > 0, 1.0, -1.0)
    given[1], given[3] = given[0], given[2]
    H = [rng(1).normal(size=(4, 8))] * 2
    frozen = partly_words(y, y, codes=(given, None)).step(H)
    np.testing.assert_array_equal(frozen, BalancedSigns(0.0, (given > 0).mean(axis=0), []).step(H))
    kept = partly_words(y, y, earlier=(given, None)).step(H)[1]
    np.testing.assert_array_equal(kept[:, :4], given[:, :4])


def test_words_need_labels_of_all_domains():
    with pytest.raises(InputError, match=r"y_target: missing; BalancedCodes\(words=\.\.\.\)"):
        partly_words(np.array([0, 1]), np.array([0, 1]), y=(np.arange(2), None))
