"""Whether classes coincide: two ways to estimate labels agree, or something is wrong."""

import numpy as np
import pytest

from bridgehash import ATH, CounterpartWarning
from bridgehash.ath import private, propagation
from bridgehash.ath.coinciding import coincidence
from bridgehash.ath.directions import by_directions, cosines_of_means
from bridgehash.ath.likeness import Space
from bridgehash.ath.private import Private, warn_of_private
from bridgehash.ath.propagation import _together
from bridgehash.ath.spreading import Rows
from bridgehash.codes import unpack
from bridgehash.models.training import Domains

N_CLASSES = 6


def clouds(classes, *, seed, n=40, noise=1.0, shift=0.5):
    """Points around one axis per class, all moved a little."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.repeat(classes, n))
    return 5.0 * np.eye(9, 16)[y] + noise * rng.normal(size=(len(y), 16)) + shift, y


def compared(source, target, n_known=0):
    (X, y), (Y, z) = clouds(source, seed=0), clouds(target, seed=1, shift=1.5)
    known = (np.arange(len(z)) < n_known) & (z < N_CLASSES)
    there, here = Rows(X, y), Rows(Y, np.where(known, z, -1))
    features = Space(there.centred, y, here.centred, N_CLASSES)
    return coincidence(there, here, features), z


def test_the_same_classes_coincide():
    fit, _ = compared(range(6), range(6))
    assert fit.score > 1.5
    assert not fit.doubtful
    assert not fit.unlike.any()
    assert not fit.new.any()


def test_classes_that_take_the_place_of_others_are_told_and_named():
    fit, z = compared(range(6), (0, 1, 2, 3, 7, 8))
    assert fit.doubtful
    np.testing.assert_array_equal(np.flatnonzero(fit.unlike), [4, 5])
    assert fit.new[z >= 7].mean() > 0.5
    assert not fit.new[z < 4].any()


def test_nothing_is_told_if_no_row_is_near_a_class():
    fit, _ = compared(range(6), (0, 1, 2, 3, 7, 8))
    assert fit.clear
    (X, y), (Y, _) = clouds(range(6), seed=0), clouds(range(6), seed=1)
    hidden = np.random.default_rng(2).normal(size=Y.shape)  # no direction of the classes is left
    there, here = Rows(np.hstack([X, 0.0 * X]), y), Rows(np.hstack([0.01 * Y, hidden]), None)
    fit = coincidence(there, here, Space(there.centred, y, here.centred, N_CLASSES))
    assert fit.score < 0.5
    assert not fit.clear
    assert not fit.doubtful


def test_nothing_is_told_if_labelled_rows_are_not_near_their_own_class():
    (X, y), (Y, _) = clouds(range(6), seed=0), clouds((0, 1, 2, 3, 7, 8), seed=1)
    there, here = Rows(X, y), Rows(Y, None)
    features = Space(there.centred, y, here.centred, N_CLASSES)
    assert coincidence(there, here, features).doubtful
    features.own = np.full(N_CLASSES, 0.5)  # as with features that do not show the classes
    assert not coincidence(there, here, features).doubtful


def test_classes_with_a_labelled_row_and_labelled_rows_are_not_new():
    fit, z = compared(range(6), (0, 1, 2, 3, 7, 8))
    assert fit.unlike[[4, 5]].all()
    fit, z = compared(range(6), (0, 1, 2, 3, 4, 7, 8), n_known=100)
    assert 4 in z[:100]
    assert not fit.unlike[4]
    assert not fit.new[:100][z[:100] < N_CLASSES].any()


def test_directions_find_the_classes_of_moved_rows():
    (X, y), (Y, z) = clouds(range(4), seed=0), clouds(range(4), seed=1, shift=3.0)
    M = by_directions(Rows(X, y), Rows(Y, None), N_CLASSES)
    assert (M.argmax(axis=1) == z).mean() > 0.98
    np.testing.assert_allclose(M.sum(axis=1), 1.0)
    assert not M[:, 4:].any()


def test_directions_keep_known_labels():
    (X, y), (Y, z) = clouds(range(4), seed=0), clouds(range(4), seed=1)
    wrong = np.where(np.arange(len(z)) < 5, (z + 1) % 4, -1)
    M = by_directions(Rows(X, y), Rows(Y, wrong), 4)
    np.testing.assert_array_equal(M[:5].argmax(axis=1), wrong[:5])


def test_cosines_of_means_are_one_for_equal_classes_and_zero_for_a_class_without_rows():
    X, y = clouds(range(4), seed=0)
    labels = np.where(y == 3, 2, y)
    same = list(cosines_of_means(X, y, X + 7.0, y, 5))
    np.testing.assert_allclose(same, [[1, 1, 1, 1, 0]] * 2, atol=1e-9)
    for cosines in cosines_of_means(X, y, -X, labels, 5):
        assert cosines[3] == cosines[4] == 0.0
        assert (cosines[:3] < -0.8).all()


def test_cosines_of_means_are_zero_if_all_classes_are_tiny():
    X, y = clouds(range(4), seed=0, n=3)
    np.testing.assert_array_equal(list(cosines_of_means(X, y, X, y, 4)), np.zeros((2, 4)))


def test_an_estimate_that_is_sure_outweighs_one_that_is_not():
    sure, unsure = np.array([[0.98, 0.01, 0.01]]), np.array([[0.3, 0.35, 0.35]])
    assert _together(sure, unsure, 5.0 * unsure).y == [0]
    assert _together(unsure, unsure).y == [1]


@pytest.fixture
def doubted(monkeypatch):
    """A fit whose classes are in doubt, and its rows."""

    def find(there, here, n_classes, bridge):
        return Private(np.zeros(n_classes, bool), np.full(len(here.y), -1), None, doubtful=True)

    monkeypatch.setattr(propagation, "find_private", find)
    (X, y), (Y, z) = clouds(range(5), seed=0), clouds(range(5), seed=1)
    with pytest.warns(CounterpartWarning, match=r"^two ways to .* of target disagree.*Label a few"):
        return ATH.propagated(16, random_state=0).fit(X, Y, y_source=y), Y, z


def test_a_fit_in_doubt_says_so_and_uses_all_estimates(doubted):
    model, Y, z = doubted
    assert model.doubtful_domains_ == ["target"]
    assert model.private_classes_ == {"source": [], "target": []}
    codes, words = model.transform(Y, "target"), unpack(model.class_codes_, 16) > 0
    nearest = ((codes > 0)[:, None] != words[None]).sum(axis=2).argmin(axis=1)
    assert (nearest == z).mean() > 0.95


def test_a_warning_names_all_that_was_found():
    found = Private(np.array([False, True]), np.array([-1, 0, 0, -1]), None, doubtful=True)
    y = (np.array([0, 1]), np.array([0, 2, 2, 0]))
    data = Domains(("a", "b"), (None, None), y, classes=np.array(["x", "y"]), private={1: found})
    text = (
        "1 of 2 classes seem to have no rows in b; 50% of the rows of b resemble no class. They "
        "keep codes of their own; two ways to estimate the classes of b disagree: they may be "
        r"others\. Label a few rows of b"
    )
    with pytest.warns(CounterpartWarning, match=text):
        warn_of_private(data)


def test_rows_in_doubt_get_groups_after_those_found_before(monkeypatch):
    (X, y), (Y, z) = clouds(range(6), seed=0), clouds((0, 1, 2, 3, 7, 8), seed=1, shift=1.5)
    monkeypatch.setattr(private, "_likeness_if_new", lambda *_: np.ones(len(z)))
    monkeypatch.setattr(private, "find_lacking", lambda *_: np.zeros(N_CLASSES, dtype=bool))
    found = private.find_private(Rows(X, y), Rows(Y, None), N_CLASSES, lambda *which: (X, Y + 1e-9))
    assert found.doubtful
    np.testing.assert_array_equal(np.flatnonzero(found.classes), [4, 5])
    assert (found.groups[z >= 7] >= 0).mean() > 0.5
    assert (found.groups[z < 4] < 0).all()
