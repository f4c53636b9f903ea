"""DPLM: objective and gradient against their definitions, descent, and the two ways to new rows."""

import numpy as np
import pytest

from bridgehash import DPLM, ITQ
from bridgehash._core.arrays import balanced_signs
from bridgehash.baselines._anchor_graph import AnchorGraphMap, anchor_graph
from bridgehash.baselines.dplm import gradient, minimise, objective
from tests.cases import over_seeds, two_domains

MU, RHO = 0.07, 0.04


@pytest.fixture(scope="module")
def X():
    return two_domains(n_s=40).X_source


@pytest.fixture(scope="module")
def graph(X):
    return anchor_graph(AnchorGraphMap(n_anchors=9, random_state=0).fit(X).memberships(X))


def some_codes(seed, n=40, r=6):
    return np.random.default_rng(seed).choice([-1.0, 1.0], size=(n, r))


def test_the_objective_is_its_definition(graph):
    B, n, r = some_codes(0), 40, 6
    S = graph.left.toarray() @ graph.right.toarray().T
    expected = 0.5 * sum(S[i, j] * ((B[i] - B[j]) ** 2).sum() for i in range(n) for j in range(n))
    for k in range(r):
        for m in range(r):
            expected += MU / 4 * (B[:, k] @ B[:, m] - (n if k == m else 0)) ** 2
        expected += RHO / 2 * B[:, k].sum() ** 2
    np.testing.assert_allclose(objective(graph, B, MU, RHO), expected)


def test_the_gradient_is_that_of_the_objective(graph):
    rng = np.random.default_rng(1)
    B = rng.normal(size=(40, 6))  # f is smooth: any matrix will do
    G = gradient(graph, B, MU, RHO)
    for _ in range(5):
        E = rng.normal(size=B.shape)
        step = 1e-5
        rise = objective(graph, B + step * E, MU, RHO) - objective(graph, B - step * E, MU, RHO)
        np.testing.assert_allclose(np.vdot(G, E), rise / (2 * step), rtol=1e-6)


@over_seeds(5)
def test_every_round_lowers_the_objective(graph, seed):
    B0 = some_codes(seed)
    B, found = minimise(graph, B0, MU, RHO, max_iter=50)
    assert (np.diff([objective(graph, B0, MU, RHO), *found]) < 0).all()
    np.testing.assert_allclose(found[-1], objective(graph, B, MU, RHO))
    assert set(np.unique(B)) == {-1.0, 1.0}


@over_seeds(5)
def test_a_round_flips_the_bits_whose_slope_exceeds_a_threshold(graph, seed):
    B0 = some_codes(seed)
    B, found = minimise(graph, B0, MU, RHO, max_iter=1)
    slope = B0 * gradient(graph, B0, MU, RHO)
    flipped = B != B0
    least, most = slope[flipped].min(), slope[~flipped].max()
    thresholds = [t for t in 1.5 ** np.arange(14) if most <= t < least]
    assert len(found) == len(thresholds) == 1
    for t in 1.5 ** np.arange(14):
        if t < thresholds[0]:  # all lower ones were tried in vain
            lower = np.where(B0 - gradient(graph, B0, MU, RHO) / t >= 0, 1.0, -1.0)
            assert objective(graph, lower, MU, RHO) >= objective(graph, B0, MU, RHO)


def test_codes_that_cannot_be_improved_do_not_change(graph):
    B, _ = minimise(graph, some_codes(0), MU, RHO, max_iter=50)
    again, found = minimise(graph, B, MU, RHO, max_iter=50)
    np.testing.assert_array_equal(again, B)
    assert len(found) == 0


def learned_codes(X, seed, **parameters):
    """The codes that a fit with this seed learns for its rows, put together from its parts."""
    rng = np.random.RandomState(seed)
    anchors = AnchorGraphMap(9, random_state=rng.randint(np.iinfo(np.int32).max)).fit(X)
    graph = anchor_graph(anchors.memberships(X))
    itq = ITQ(6, random_state=rng).fit(X)
    B = balanced_signs(itq.decision_function(X))
    n, r = B.shape
    return minimise(graph, B, 5.0 / (n * r), 1.0 / n, **parameters)


def test_linear_codes_are_the_ridge_regression_of_the_learned_ones(X):
    B, found = learned_codes(X, 2, max_iter=50)
    model = DPLM(6, n_anchors=9, ridge=0.3, random_state=2).fit(X)
    np.testing.assert_allclose(model.objective_, found)
    assert model.n_iter_ == len(found) > 0
    D = X - X.mean(axis=0)
    D /= np.sqrt((D**2).sum(axis=1).mean())
    P = np.linalg.inv(D.T @ D + 0.3 * np.eye(7)) @ D.T @ B
    np.testing.assert_allclose(model.decision_function(X), D @ P, atol=1e-10)


def test_anchor_codes_are_mean_codes_around_the_anchors_of_a_row(X):
    B, _ = learned_codes(X, 2, max_iter=3)
    model = DPLM(6, n_anchors=9, max_iter=3, oos="anchor", random_state=2).fit(X)
    Z = model.encoder_.maps[0].transform(X)
    means = (Z.T @ B) / Z.sum(axis=0)[:, None]
    np.testing.assert_allclose(model.decision_function(X), Z @ means, atol=1e-10)


def test_more_weight_makes_bits_less_correlated(X):
    def overlap(mu):
        B = DPLM(6, mu=mu, max_iter=50, oos="anchor", random_state=0).fit(X).transform(X)
        C = B.T.astype(float) @ B / len(B)
        return np.abs(C - np.diag(np.diag(C))).mean()

    assert overlap(50.0) < overlap(0.0)


@pytest.mark.parametrize(("name", "value"), [("mu", -1.0), ("oos", "kernel"), ("ridge", 0.0)])
def test_parameters_out_of_range_are_refused_by_name(X, name, value):
    with pytest.raises(ValueError, match=name):
        DPLM(**{name: value}).fit(X)
