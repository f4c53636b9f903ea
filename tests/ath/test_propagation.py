"""Classes for all rows from a few: each step by its definition, the whole on clouds of points."""

import numpy as np
import pytest
from scipy.stats import ortho_group

from bridgehash import ATH
from bridgehash.ath.propagation import Propagation, _softened
from bridgehash.ath.spreading import (
    balanced,
    most_certain,
    neighbour_graph,
    reached_shares,
    spread_labels,
    votes,
)
from bridgehash.models.training import TrainingData

CENTRES = 4.0 * np.eye(3, 8)


def clouds(rng, sizes, shift=0.0):
    """Three clouds of points around axes, of given sizes, moved together."""
    y = np.repeat(np.arange(3), sizes)
    rng.shuffle(y)
    return CENTRES[y] + rng.normal(size=(len(y), 8)) + shift, y


def no_bridge(data, rng):
    raise AssertionError("not needed with two feature spaces, or if the features suffice")


@pytest.fixture
def graph():
    X, y = clouds(np.random.default_rng(0), (30, 20, 10))
    return neighbour_graph(X, 5), y


def test_the_graph_is_symmetric_with_largest_eigenvalue_one(graph):
    S = graph[0].toarray()
    np.testing.assert_allclose(S, S.T)
    assert (np.diag(S) == 0).all()
    np.testing.assert_allclose(np.linalg.eigvalsh(S)[-1], 1.0)


def test_spreading_solves_its_equation(graph):
    S, Y = graph[0], np.random.default_rng(1).random((60, 3))
    wanted = np.linalg.solve(np.eye(60) - 0.9 * S.toarray(), 0.1 * Y)
    np.testing.assert_allclose(spread_labels(S, Y, 0.9, 400), wanted, atol=1e-12)


def test_balanced_memberships_have_the_shares_and_sum_to_one():
    shares = np.array([0.5, 0.3, 0.2])
    M = balanced(np.random.default_rng(0).random((200, 3)), shares)
    np.testing.assert_allclose(M.sum(axis=1), 1.0)
    np.testing.assert_allclose(M.mean(axis=0), shares, atol=1e-6)


def test_a_class_without_a_share_has_no_members():
    M = balanced(np.random.default_rng(0).random((50, 3)), np.array([0.5, 0.0, 0.5]))
    assert (M[:, 1] == 0).all()
    np.testing.assert_allclose(M.sum(axis=1), 1.0)


def test_a_class_known_in_one_domain_alone_is_given_to_no_row_of_the_other():
    rng = np.random.default_rng(0)
    X_s, y_s = clouds(rng, (30, 30, 30))
    X_t, y_t = clouds(rng, (40, 40, 0))
    few = np.where(np.arange(80) < 20, y_t, -1)
    data = Propagation(keep=1.0).complete(
        TrainingData(X_s, X_t[:, :6], y_s, few),
        same_space=False,
        rng=np.random.RandomState(0),
        bridge=no_bridge,
    )
    assert set(data.y_target) == {0, 1}
    assert (data.y_target == y_t).mean() > 0.95


def test_votes_count_the_nearest():
    known, y = np.array([[0.0], [1.0], [2.0], [9.0]]), np.array([0, 1, 1, 2])
    np.testing.assert_allclose(votes(known, y, np.array([[0.9]]), 3, 3), [[1 / 3, 2 / 3, 0.0]])
    np.testing.assert_allclose(votes(known, y, np.array([[8.0]]), 1, 3), [[0.0, 0.0, 1.0]])


def test_labels_fewer_than_the_voters_still_tell_classes_apart():
    rng = np.random.default_rng(0)
    (X_s, y_s), (X_t, y_t) = clouds(rng, (30, 30, 30)), clouds(rng, (40, 30, 20), shift=0.2)
    known = np.where(np.arange(90) < 15, y_s, -1)
    data = Propagation(space="features", keep=1.0).complete(
        TrainingData(X_s, X_t, known),
        same_space=True,
        rng=np.random.RandomState(0),
        bridge=no_bridge,
    )
    assert (data.y_target == y_t).mean() > 0.95


def test_the_most_certain_rows_of_a_class_have_the_largest_margin():
    M = np.array([[0.2, 0.7, 0.1], [0.4, 0.5, 0.1], [0.5, 0.2, 0.3], [0.1, 0.6, 0.3]])
    np.testing.assert_array_equal(most_certain(M, 0.5), [True, False, True, True])
    np.testing.assert_array_equal(most_certain(M, 0.01), [True, False, True, False])


def test_heat_reaches_as_far_as_a_class_does(graph):
    """Memberships balanced to even shares are wrong at the rims; the cores tell the true ones."""
    S, y = graph
    even = balanced(spread_labels(S, np.eye(3)[y], 0.9), np.full(3, 1 / 3))
    shares = reached_shares(S, even, 0.9)
    assert (
        np.abs(shares - [0.5, 1 / 3, 1 / 6]).sum()
        < np.abs(1 / 3 - np.array([0.5, 1 / 3, 1 / 6])).sum() / 2
    )


@pytest.mark.parametrize("sizes", [(40, 40, 40), (80, 30, 10)])
def test_labels_of_the_source_reach_a_target_of_other_shares(sizes):
    rng = np.random.default_rng(0)
    X_s, y_s = clouds(rng, (40, 40, 40))
    X_t, y_t = clouds(rng, sizes, shift=0.5)
    data = Propagation(space="features").complete(
        TrainingData(X_s, X_t, y_s), same_space=True, rng=np.random.RandomState(0), bridge=no_bridge
    )
    known = data.y_target >= 0
    np.testing.assert_array_equal(data.y_source, y_s)
    assert 0.85 <= known.mean() <= 0.95
    assert set(data.y_target) == {-1, 0, 1, 2}
    assert (data.y_target[known] == y_t[known]).mean() > 0.95


def test_a_few_labels_of_each_domain_suffice_where_spaces_differ():
    rng = np.random.default_rng(0)
    X_s, y_s = clouds(rng, (40, 40, 40))
    X_t, y_t = clouds(rng, (50, 30, 20))
    X_t = X_t @ ortho_group.rvs(8, random_state=0)
    few_s, few_t = (np.where(np.arange(len(y)) < 12, y, -1) for y in (y_s, y_t))
    data = Propagation(keep=1.0).complete(
        TrainingData(X_s, X_t, few_s, few_t),
        same_space=False,
        rng=np.random.RandomState(0),
        bridge=no_bridge,
    )
    for found, true, few in ((data.y_source, y_s, few_s), (data.y_target, y_t, few_t)):
        np.testing.assert_array_equal(found[few >= 0], few[few >= 0])
        assert (found == true).mean() > 0.95


@pytest.mark.parametrize(
    ("moved", "turned", "expected"),
    [(0.5, 0, "bridged"), (0.0, 30, "features"), (0.5, 30, "features"), (0.7, 0, "features")],
)
def test_the_bridged_space_is_trusted_if_its_labels_fit_better(moved, turned, expected):
    """Features: classes move towards each other. Bridge: some of 120 rows are in a wrong class.

    In the last case the two agree on a third of the rows, which is too little to trust the bridge.
    """
    rng = np.random.default_rng(0)
    (X_s, y_s), (X_t, y_t) = clouds(rng, (40, 40, 40)), clouds(rng, (40, 40, 40))
    X_t += moved * (CENTRES[0] * (y_t == 1)[:, None] - CENTRES[y_t])
    bridged = CENTRES[np.where(np.arange(120) < turned, (y_t + 1) % 3, y_t)]
    bridged = 100.0 * bridged + 0.1 * rng.normal(size=(120, 8))
    bridge = (CENTRES[y_s] * 100.0, bridged)
    found = {
        space: Propagation(keep=1.0, space=space, private=False)
        .complete(
            TrainingData(X_s / 50.0, X_t / 50.0, y_s),
            same_space=True,
            rng=np.random.RandomState(0),
            bridge=lambda data, rng: lambda X, Y: bridge,
        )
        .y_target
        for space in ("auto", "features", "bridged")
    }
    assert (found["features"] != found["bridged"]).any()
    np.testing.assert_array_equal(found["auto"], found[expected])


@pytest.mark.parametrize("turned", [0.0, 0.7])
def test_known_labels_decide_which_space_is_trusted(turned):
    """The bridge places a part of the target in other classes; nine known labels tell."""
    rng = np.random.default_rng(0)
    (X_s, y_s), (X_t, y_t) = clouds(rng, (40, 40, 40)), clouds(rng, (40, 40, 40))
    few = np.where(np.arange(120) < 9, y_t, -1)
    wrong = rng.random(120) < turned
    bridged = CENTRES[np.where(wrong, (y_t + 1) % 3, y_t)] + 0.1 * rng.normal(size=(120, 8))
    noisy = 0.3 * X_t if turned else rng.normal(size=(120, 8))  # the features, or the bridge, fail
    data = Propagation(keep=1.0).complete(
        TrainingData(X_s, noisy, y_s, few),
        same_space=True,
        rng=np.random.RandomState(0),
        bridge=lambda data, rng: lambda X, Y: (CENTRES[y_s], bridged),
    )
    assert (data.y_target == y_t).mean() > 0.9


def test_labels_of_the_target_alone_are_propagated_to_the_source():
    rng = np.random.default_rng(0)
    (X_s, y_s), (X_t, y_t) = clouds(rng, (30, 30, 30)), clouds(rng, (20, 20, 20), shift=0.5)
    model = ATH.propagated(16, random_state=0).fit(X_s, X_t, y_target=y_t)
    H_s, H_t = model.decision_function(X_s, "source"), model.decision_function(X_t, "target")
    nearest = y_t[((H_s[:, None] - H_t) ** 2).sum(axis=2).argmin(axis=1)]
    assert (nearest == y_s).mean() > 0.9


def test_given_shares_are_kept():
    rng = np.random.default_rng(0)
    (X_s, y_s), (X_t, _) = clouds(rng, (40, 40, 40)), clouds(rng, (80, 30, 10))
    shares = np.array([80, 30, 10]) / 120
    found = Propagation(shares=shares, keep=1.0, space="features").complete(
        TrainingData(X_s, X_t, y_s), same_space=True, rng=np.random.RandomState(0), bridge=no_bridge
    )
    assert np.abs(np.bincount(found.y_target, minlength=3) / 120 - shares).sum() < 0.1


@pytest.mark.parametrize(
    ("parameters", "labels", "message"),
    [
        ({}, {}, "give y_source or y_target"),
        ({"shares": "odd"}, {"y_source": True, "y_target": True}, "shares: use 'estimated'"),
        (
            {"shares": [0.5, 0.5]},
            {"y_source": True, "y_target": True},
            "shares: 3 non-negative numbers",
        ),
    ],
)
def test_what_cannot_be_completed_is_refused(parameters, labels, message):
    rng = np.random.default_rng(0)
    X, y = clouds(rng, (10, 10, 10))
    some = np.where(np.arange(30) < 15, y, -1)
    data = TrainingData(X, X[:, :5], **dict.fromkeys(labels, some))
    with pytest.raises(ValueError, match=message):
        Propagation(**parameters).complete(
            data, same_space=False, rng=np.random.RandomState(0), bridge=no_bridge
        )


def test_propagated_codes_find_the_class_across_domains():
    rng = np.random.default_rng(0)
    X_s, y_s = clouds(rng, (40, 40, 40))
    X_t, y_t = clouds(rng, (50, 40, 30), shift=0.5)
    model = ATH.propagated(16, random_state=0).fit(X_s, X_t, y_source=y_s)
    codes_s, codes_t = model.transform(X_s, "source"), model.transform(X_t, "target")
    nearest = (codes_t.astype(int) @ codes_s.T.astype(int)).argmax(axis=1)
    assert (y_s[nearest] == y_t).mean() > 0.9


def test_memberships_are_softened_and_known_labels_and_groups_are_certain():
    M = np.array([[0.81, 0.01, 0.18], [0.0, 2.0, 0.0]])
    kept, y = np.array([True, False, True, False]), np.array([-1, 2, 1, 4])  # 4: a new group
    members = _softened(M, kept, y)
    roots = np.sqrt([0.81, 0.01, 0.18])
    np.testing.assert_allclose(members[0], [*roots / roots.sum(), 0, 0])
    np.testing.assert_array_equal(members[[1, 2, 3]].argmax(axis=1), [2, 1, 4])
    np.testing.assert_allclose(members.sum(axis=1), 1.0)


def test_labels_that_are_not_given_play_no_part():
    """Unknown classes, whatever they are, are -1: the codes cannot depend on them."""
    rng = np.random.default_rng(0)
    (X_s, y_s), (X_t, _) = clouds(rng, (20, 20, 20)), clouds(rng, (20, 20, 20))
    plain = ATH.propagated(16, random_state=0).fit(X_s, X_t, y_source=y_s)
    unknown = ATH.propagated(16, random_state=0).fit(
        X_s, X_t, y_source=y_s, y_target=np.full(60, -1)
    )
    np.testing.assert_array_equal(plain.encode(X_t, "target"), unknown.encode(X_t, "target"))
