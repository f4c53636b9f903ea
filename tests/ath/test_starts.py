"""Starts: what each promises of the first projections."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.stats import ortho_group

from bridgehash._core.linalg import pca
from bridgehash.ath.presets import STARTS
from bridgehash.ath.starts import GivenStart, LabelStart, PCAStart, Start, StartContext
from bridgehash.codes import signs
from tests.cases import two_domains

N_BITS = 4


def context(*, d_t=5, n_bits=N_BITS, labels=True, **shape):
    data = two_domains(d_t=d_t, **shape)
    X_s, X_t = (X - X.mean(axis=0) for X in (data.X_source, data.X_target))
    y_s, y_t = (data.y_source, data.y_target) if labels else (None, None)
    same = X_s.shape[1] == X_t.shape[1]
    return StartContext(X_s, X_t, y_s, y_t, same, n_bits, 0.1, np.random.RandomState(0))


def centre(rows):
    return rows - rows.mean(axis=0)


# --- scale


@pytest.mark.parametrize("size", [0.5, 10.0])
def test_projections_are_scaled_each_domain_by_itself(size):
    rng = np.random.default_rng(0)
    start = Start(rng.normal(size=(5, 2)), 1e6 * rng.normal(size=(7, 2)))
    scaled = start.scaled(size)
    for H, before in ((scaled.H_s, start.H_s), (scaled.H_t, start.H_t)):
        np.testing.assert_allclose(np.abs(H).mean(), size)
        np.testing.assert_array_equal(signs(H), signs(before))
        ratio = H / before
        np.testing.assert_allclose(ratio, ratio[0, 0])


def test_no_projections_stay_none():
    scaled = Start(np.zeros((3, 2)), np.ones((3, 2))).scaled(2.0)
    np.testing.assert_array_equal(scaled.H_s, 0.0)


# --- PCA


def test_domain_pca_is_that_of_each_domain():
    here = context()
    start = STARTS["pca"].begin(here)
    np.testing.assert_allclose(start.H_s, here.X_s @ pca(here.X_s, N_BITS))
    np.testing.assert_allclose(start.H_t, here.X_t @ pca(here.X_t, N_BITS))
    assert start.W is None


def test_shared_pca_is_one_basis_for_both():
    here = context(d_t=7)
    start = STARTS["shared_pca"].begin(here)
    P = pca(np.vstack([here.X_s, here.X_t]), N_BITS)
    np.testing.assert_allclose(start.H_s, here.X_s @ P)
    np.testing.assert_allclose(start.H_t, here.X_t @ P)


def test_shared_pca_of_two_spaces_is_refused():
    with pytest.raises(ValueError, match="7 and 5 separate features"):
        STARTS["shared_pca"].begin(context())


def test_auto_shares_where_there_is_one_space():
    for here, basis in ((context(d_t=7), "shared"), (context(), "domain")):
        auto, named = (PCAStart(b, None).begin(here) for b in ("auto", basis))
        np.testing.assert_array_equal(auto.H_s, named.H_s)
        np.testing.assert_array_equal(auto.H_t, named.H_t)


@pytest.mark.parametrize("d_t", [5, 7])
def test_itq_turns_both_domains_alike_and_loses_less(d_t):
    plain = PCAStart("auto", None).begin(context(d_t=d_t))
    turned = PCAStart("auto", "itq").begin(context(d_t=d_t))
    V, H = (np.vstack([s.H_s, s.H_t]) for s in (plain, turned))
    np.testing.assert_allclose(H @ H.T, V @ V.T, atol=1e-9)  # one rotation for all rows
    lost = [np.linalg.norm(signs(Z) - Z) for Z in (V, H)]
    assert lost[1] < lost[0]


@pytest.mark.parametrize("rotation", [None, "itq"])
def test_more_bits_than_directions_keep_all_distances(rotation):
    here = context(n_bits=20)  # ranks 7 and 5: five components are common
    start = PCAStart("domain", rotation).begin(here)
    assert start.H_s.shape == (31, 20)
    assert start.H_t.shape == (24, 20)
    np.testing.assert_allclose(start.H_t @ start.H_t.T, here.X_t @ here.X_t.T, atol=1e-9)
    assert np.linalg.matrix_rank(start.H_s) == 5
    assert (start.H_t.std(axis=0) > 0).all()


@pytest.mark.parametrize("name", ["pca", "itq", "labels"])
def test_starts_do_not_see_rotations_of_the_features(name):
    here = context()
    Q_s, Q_t = (ortho_group.rvs(X.shape[1], random_state=0) for X in (here.X_s, here.X_t))
    start = STARTS[name].begin(here)
    rng = np.random.RandomState(0)
    turned = STARTS[name].begin(replace(here, X_s=here.X_s @ Q_s, X_t=here.X_t @ Q_t, rng=rng))
    np.testing.assert_allclose(turned.H_s, start.H_s, atol=1e-8)
    np.testing.assert_allclose(turned.H_t, start.H_t, atol=1e-8)


# --- labels


@pytest.mark.parametrize("d_t", [5, 7])
def test_each_class_begins_at_one_point(d_t):
    here = context(d_t=d_t)
    start, plain = LabelStart().begin(here), PCAStart("auto", None).begin(context(d_t=d_t))
    means = np.array([plain.H_t[here.y_t == label].mean(axis=0) for label in range(3)])
    np.testing.assert_allclose(start.H_s, centre(means)[here.y_s], atol=1e-9)
    np.testing.assert_allclose(start.H_t, centre(means)[here.y_t], atol=1e-9)


def test_a_class_the_target_lacks_begins_at_its_source_mean():
    here = context()
    here.y_t[here.y_t == 2] = 1
    start, plain = LabelStart().begin(here), PCAStart("auto", None).begin(context())
    means = np.array([plain.H_t[here.y_t == label].mean(axis=0) for label in range(2)])
    means = centre(np.vstack([means, plain.H_s[here.y_s == 2].mean(axis=0)]))
    np.testing.assert_allclose(start.H_s, means[here.y_s], atol=1e-9)


def test_a_part_of_a_class_begins_near_the_rest_of_it():
    """Half of class 0 of the target has a label that the source lacks."""
    here = context(n_t=60)
    y_t = here.y_t.copy()
    y_t[np.flatnonzero(y_t == 0)[::2]] = y_t.max() + 1
    here = replace(here, y_t=y_t, raw=(here.X_s, here.X_t))
    away = {}
    for mixing in (0.0, 0.9):
        H = LabelStart(mixing=mixing).begin(here).H_t
        begin = [H[y_t == c][0] for c in range(y_t.max() + 1)]
        away[mixing] = np.linalg.norm(begin[-1] - begin[0]) / np.linalg.norm(begin[1] - begin[0])
    assert away[0.9] < 0.6 * away[0.0]


def test_classes_of_the_source_are_not_mixed():
    here = context()
    here = replace(here, raw=(here.X_s, here.X_t))
    mixed, plain = (LabelStart(mixing=part).begin(here) for part in (0.9, 0.0))
    np.testing.assert_array_equal(mixed.H_t, plain.H_t)


def test_samples_without_a_label_begin_where_pca_puts_them():
    here = context()
    here.y_s[:5] = -1
    partly = replace(here, y_t=None)
    start, plain = LabelStart().begin(partly), PCAStart("auto", None).begin(context())
    np.testing.assert_allclose(start.H_s[:5], plain.H_s[:5], atol=1e-9)
    np.testing.assert_allclose(start.H_t, plain.H_t, atol=1e-9)
    assert np.abs(start.H_s[5:] - plain.H_s[5:]).max() > 0.1


def test_label_start_without_labels_is_refused_by_name():
    with pytest.raises(ValueError, match="y_source or y_target"):
        LabelStart().begin(context(labels=False))
    here = context()
    here.y_s[:] = here.y_t[:] = -1
    with pytest.raises(ValueError, match="y_source or y_target"):
        LabelStart().begin(here)


# --- a given graph


@pytest.mark.parametrize("form", [np.asarray, csr_array])
def test_given_graph_is_handed_on_and_the_source_follows_it(form):
    here = context()
    W = np.random.default_rng(0).random((31, 24)) * (np.arange(31)[:, None] != 3)  # 3 knows no one
    start = GivenStart(form(W)).begin(here)
    np.testing.assert_allclose(start.W @ np.eye(24), W)
    rows = np.arange(31) != 3
    wanted = (W @ start.H_t)[rows] / W.sum(axis=1)[rows, None]
    X = here.X_s[rows]
    A = np.linalg.inv(X.T @ X + here.ridge * np.eye(7)) @ X.T @ wanted
    np.testing.assert_allclose(start.H_s, here.X_s @ A, atol=1e-9)


def test_the_target_of_a_given_graph_begins_at_its_own_itq():
    start = GivenStart(np.ones((31, 24))).begin(context())
    X = context().X_t
    np.testing.assert_allclose(
        np.linalg.norm(start.H_t), np.linalg.norm(X @ pca(X, N_BITS)), rtol=1e-9
    )
    half = GivenStart(0.5 * np.ones((31, 24))).begin(context())
    np.testing.assert_allclose(half.H_s, start.H_s, atol=1e-9)  # only proportions matter


def test_a_given_graph_of_another_shape_is_refused():
    with pytest.raises(ValueError, match=r"shape \(3, 3\); \(31, 24\) is needed"):
        GivenStart(np.ones((3, 3))).begin(context())
