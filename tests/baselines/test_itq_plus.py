"""ITQ+ and LapITQ+: each step against its definition, descent, and what pairs do."""

from itertools import product

import numpy as np
import pytest
from scipy.optimize import minimize

from bridgehash import ITQPlus
from bridgehash._core.arrays import balanced_signs
from bridgehash._core.linalg import procrustes, random_orthonormal
from bridgehash.baselines.itq import itq_projection
from bridgehash.baselines.itq_plus import (
    LAPITQ_PLUS,
    Smoothness,
    box_minimum,
    code_step,
    loss,
    solve,
)
from bridgehash.baselines.shared import standardised
from bridgehash.codes import hamming, pack
from bridgehash.neighbors.graphs import KNNGraph, laplacian
from bridgehash.neighbors.search import nearest
from tests.cases import over_seeds, two_domains


def small(seed=0, n=20, p=5, r=5):
    rng = np.random.RandomState(seed)
    X, C = rng.standard_normal((n, p)), rng.standard_normal((n, 4))
    return X, C, random_orthonormal(p, r, rng), random_orthonormal(4, r, rng)


def smoothness(n=20, weight=0.2, seed=0):
    rows = np.random.default_rng(seed).normal(size=(n, 3))
    return Smoothness(KNNGraph(3).build(rows), weight)


def test_the_loss_is_its_definition():
    X, C, R, P = small()
    B, smooth = balanced_signs(X @ R), smoothness()
    expected = 0.0
    for b, x, c in zip(B, X, C, strict=True):
        e = b - R.T @ x
        expected += (e**2).sum() + 0.3 * ((e - P.T @ c) ** 2).sum()
    W = smooth.graph.matrix.toarray()
    for i, j in np.ndindex(20, 20):
        expected += 0.2 * 0.5 * W[i, j] * ((B[i] - B[j]) ** 2).sum()
    np.testing.assert_allclose(loss(B, X @ R, C @ P, 0.3, smooth), expected)


@over_seeds(3)
def test_the_code_step_is_best_among_all_balanced_signs(seed):
    X, C, R, P = small(seed, n=6, p=3, r=3)
    XR, CP, lam = X @ R, C @ P, 0.7
    B = code_step(XR, CP, lam, None)
    assert (B.sum(axis=0) == 0).all()
    columns = [b for b in product([-1.0, 1.0], repeat=6) if sum(b) == 0]
    best = sum(
        min(loss(np.array(b)[:, None], XR[:, [k]], CP[:, [k]], lam, None) for b in columns)
        for k in range(3)
    )
    np.testing.assert_allclose(loss(B, XR, CP, lam, None), best)


@over_seeds(5)
@pytest.mark.parametrize(("p", "r"), [(5, 5), (5, 8)])
def test_each_exact_step_lowers_the_loss(seed, p, r):
    X, C, R, P = small(seed, p=p, r=r)
    lam, B = 0.4, balanced_signs(np.random.default_rng(seed).normal(size=(20, r)))
    values = [loss(B, X @ R, C @ P, lam, None)]
    for _ in range(4):
        B = code_step(X @ R, C @ P, lam, None)
        values.append(loss(B, X @ R, C @ P, lam, None))
        R = procrustes(X.T @ (B - lam / (1 + lam) * (C @ P)))
        values.append(loss(B, X @ R, C @ P, lam, None))
        P = procrustes(C.T @ (B - X @ R))
        values.append(loss(B, X @ R, C @ P, lam, None))
    assert (np.diff(values) <= 1e-10 * values[0]).all()
    assert values[-1] < values[0]


@over_seeds(5)
@pytest.mark.parametrize("lam", [0.0, 0.01, 2.0])
def test_the_objective_of_the_rounds_never_rises(seed, lam):
    X, C, R, P = small(seed)
    R, objective = solve(X, C, R, P, lam=lam)
    assert (np.diff(objective) <= 1e-10 * objective[0]).all()
    np.testing.assert_allclose(R.T @ R, np.eye(5), atol=1e-12)


def test_without_weight_the_privileged_rows_do_nothing():
    X, C, R, P = small()
    one, other = solve(X, C, R, P, lam=0.0)[0], solve(X, -3 * C[::-1], R, P, lam=0.0)[0]
    np.testing.assert_array_equal(one, other)
    assert np.abs(solve(X, C, R, P, lam=1.0)[0] - one).max() > 1e-3


def box_value(B, K, smooth):
    return -2 * np.vdot(B, K) + smooth.weight * np.vdot(B, laplacian(smooth.graph, B))


@pytest.mark.parametrize("weight", [1e-3, 0.2, 1.0])
def test_the_box_problem_is_solved(weight):
    K, smooth = np.random.default_rng(1).normal(size=(20, 2)), smoothness(weight=weight)

    def value_and_slope(b):
        B = b.reshape(K.shape)
        slope = 2 * (smooth.weight * laplacian(smooth.graph, B) - K)
        return box_value(B, K, smooth), slope.ravel()

    bounds = [(-1, 1)] * K.size
    expected = minimize(value_and_slope, np.zeros(K.size), jac=True, bounds=bounds).fun
    B = box_minimum(K, smooth, n_steps=5000)
    np.testing.assert_allclose(box_value(B, K, smooth), expected, rtol=1e-5)


@over_seeds(3)
def test_no_step_in_the_box_climbs(seed):
    rng = np.random.default_rng(seed)
    K, smooth = rng.normal(size=(20, 3)), smoothness(weight=1.5, seed=seed)
    values = [box_value(box_minimum(K, smooth, n), K, smooth) for n in range(15)]
    assert (np.diff(values) <= 1e-10).all()
    assert values[-1] < values[1] < 0


def test_a_light_graph_leaves_the_signs_and_a_heavy_one_joins_neighbours():
    XR = np.random.default_rng(2).normal(size=(20, 3))
    CP = np.zeros_like(XR)
    light = code_step(XR, CP, 0.0, smoothness(weight=1e-9))
    np.testing.assert_array_equal(light, np.where(XR > 0, 1.0, -1.0))
    heavy = smoothness(weight=1.0)
    assert heavy(code_step(XR, CP, 0.0, heavy)) < 0.5 * heavy(light)


def test_the_graph_is_that_of_hamming_distances():
    data = two_domains(n_s=60, n_t=50, d_t=7)
    model = ITQPlus(10, laplacian=0.1, n_neighbors=4)
    smooth = model._smoothness(data.X_source, np.arange(60), np.random.RandomState(0))
    Z = data.X_source - data.X_source.mean(axis=0)
    codes = pack(Z @ itq_projection(Z, 10, 50, np.random.RandomState(0)))
    D = hamming(codes, codes).astype(int)
    joined = smooth.graph.matrix.toarray() > 0
    for i in range(60):
        others = np.delete(np.arange(60), i)
        reach = np.sort(D[i, others])[3]
        nearer = [j for j in others if D[i, j] < reach]
        assert joined[i, nearer].all()
        for j in np.flatnonzero(joined[i]):
            assert D[i, j] <= max(reach, np.sort(np.delete(D[j], j))[3])
    assert smooth.weight == 0.1


# --- pairs


@pytest.fixture
def data():
    return two_domains(n_s=40, n_t=30, d_t=7)


def projection(model):
    return model.target_encoder_.projection


@pytest.mark.parametrize("extra", [{}, LAPITQ_PLUS], ids=["ITQ+", "LapITQ+"])
def test_nearest_pairs_may_as_well_be_given(data, extra):
    made = {"n_bits": 6, "random_state": 0} | dict(extra) | {"pairing": "nearest"}
    found = ITQPlus(**made).fit(data.X_source, data.X_target)
    _, rows = nearest(data.X_target, data.X_source, 1)
    pairs = np.column_stack([rows[:, 0], np.arange(30)])
    given = ITQPlus(**made).fit(data.X_source, data.X_target, pairs=pairs)
    np.testing.assert_allclose(projection(given), projection(found), atol=1e-9)
    np.testing.assert_allclose(given.objective_, found.objective_, rtol=1e-9)


def test_random_pairs_use_each_source_row_once_where_there_are_enough(data):
    rng = np.random.RandomState(0)
    for n_s, n_t in ((40, 30), (30, 40)):
        X_s, X_t = data.X_source[:n_s], np.vstack([data.X_target, data.X_query])[:n_t]
        in_source, in_target = ITQPlus()._pairs(None, X_s, X_t, rng)
        assert sorted(in_target) == list(range(len(X_t)))
        assert len(in_source) == len(X_t)
        assert (len(set(in_source)) == len(X_t)) == (len(X_s) >= len(X_t))


def test_given_pairs_alone_decide_the_rotation(data):
    rng = np.random.default_rng(0)
    pairs = np.column_stack([rng.permutation(40)[:20], rng.permutation(30)[:20]])
    model = ITQPlus(6, lam=1.0, random_state=0)
    first = projection(model.fit(data.X_source, data.X_target, pairs=pairs))
    again = projection(model.fit(data.X_source, data.X_target, pairs=pairs[::-1]))
    np.testing.assert_allclose(again, first, atol=1e-9)
    swapped = np.column_stack([np.roll(pairs[:, 0], 1), pairs[:, 1]])
    other = projection(model.fit(data.X_source, data.X_target, pairs=swapped))
    assert np.abs(other - first).max() > 1e-3
    fewer = projection(model.fit(data.X_source, data.X_target, pairs=pairs[:15]))
    assert np.abs(fewer - first).max() > 1e-3


@pytest.mark.parametrize("n", [0, 1])
def test_too_few_pairs_are_refused_by_name(data, n):
    pairs = np.zeros((n, 2), dtype=int)
    with pytest.raises(ValueError, match=f"pairs: {n} given"):
        ITQPlus(6).fit(data.X_source, data.X_target, pairs=pairs)


def test_the_encoder_projects_standardised_rows(data):
    model = ITQPlus(6, random_state=0).fit(data.X_source, data.X_target)
    X, _, _ = standardised(np.vstack([data.X_source, data.X_target]))
    W = projection(model)
    np.testing.assert_allclose(W.T @ W, np.eye(6), atol=1e-12)
    np.testing.assert_allclose(model.decision_function(data.X_source, "source"), X[:40] @ W)
    np.testing.assert_allclose(model.decision_function(data.X_target, "target"), X[40:] @ W)


def test_the_end_has_the_objective_that_it_says(data):
    model = ITQPlus(6, lam=0.0, max_iter=500, random_state=0).fit(data.X_source, data.X_target)
    H = model.decision_function(data.X_target, "target")
    np.testing.assert_allclose(((balanced_signs(H) - H) ** 2).sum(), model.objective_[-1])


def test_it_ends_when_the_codes_stay(data):
    model = ITQPlus(4, max_iter=500, random_state=0).fit(data.X_source, data.X_target)
    assert model.n_iter_ == len(model.objective_) < 500
    short = ITQPlus(4, max_iter=2, random_state=0).fit(data.X_source, data.X_target)
    assert short.n_iter_ == 2
