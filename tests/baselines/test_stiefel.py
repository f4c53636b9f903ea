"""The Cayley curve against its definition, and the search against problems of known solution."""

import numpy as np
import pytest

from bridgehash._core.linalg import procrustes, random_orthonormal
from bridgehash.baselines._stiefel import cayley_curve, minimise
from tests.cases import over_seeds

SHAPES = [(9, 2), (9, 4), (5, 5), (6, 5), (3, 1)]


def point(d, r, seed):
    return random_orthonormal(d, r, np.random.RandomState(seed))


def quadratic(A, C):
    """tr(WᵀAW) - 2 tr(WᵀC) for symmetric A."""
    return lambda W: (np.vdot(W, A @ W) - 2 * np.vdot(W, C), 2 * (A @ W - C))


def random_quadratic(d, r, seed, linear=1.0):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(d, d))
    return quadratic(A + A.T, linear * rng.normal(size=(d, r)))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("tau", [1e-3, 0.7, 40.0])
def test_the_curve_is_the_cayley_transform(shape, tau):
    W, G = point(*shape, 0), np.random.default_rng(1).normal(size=shape)
    A, one = G @ W.T - W @ G.T, np.eye(shape[0])
    expected = np.linalg.inv(one + tau / 2 * A) @ (one - tau / 2 * A) @ W
    np.testing.assert_allclose(cayley_curve(W, G)(tau), expected, atol=1e-12)


@pytest.mark.parametrize("shape", [(4, 9), (5, 5), (9, 4)])
def test_the_transposed_curve_turns_from_the_right(shape):
    rng = np.random.default_rng(0)
    W, G, tau = rng.normal(size=shape), rng.normal(size=shape), 0.3
    K, one = W.T @ G - G.T @ W, np.eye(shape[1])
    expected = W @ np.linalg.inv(one + tau / 2 * K) @ (one - tau / 2 * K)
    turned = cayley_curve(W.T, G.T)(tau).T
    np.testing.assert_allclose(turned, expected, atol=1e-12)
    np.testing.assert_allclose(turned @ turned.T, W @ W.T, atol=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_curve_starts_downhill_with_the_stated_slope(shape):
    objective, W, step = random_quadratic(*shape, 2), point(*shape, 3), 1e-6
    G = objective(W)[1]
    curve = cayley_curve(W, G)
    slope = (objective(curve(step))[0] - objective(curve(-step))[0]) / (2 * step)
    np.testing.assert_allclose(slope, -0.5 * ((G @ W.T - W @ G.T) ** 2).sum(), rtol=1e-6)


def test_the_curve_keeps_float32():
    W = point(6, 2, 0).astype(np.float32)
    for V in (W, W.T):
        assert cayley_curve(V, 2 * V + 1)(0.1).dtype == np.float32


@pytest.mark.parametrize(("d", "r"), [(12, 3), (12, 8), (7, 7)])
def test_the_lowest_eigenvectors_are_found(d, r):
    rng = np.random.default_rng(d)
    A = rng.normal(size=(d, d))
    A = A @ A.T
    W = minimise(quadratic(A, np.zeros((d, r))), point(d, r, 1), max_iter=500)
    expected = np.linalg.eigvalsh(A)[:r].sum()
    np.testing.assert_allclose(np.trace(W.T @ A @ W), expected, rtol=1e-6)


@pytest.mark.parametrize("shape", [(8, 3), (5, 5), (3, 8)])
def test_a_linear_objective_ends_at_the_procrustes_solution(shape):
    C = np.random.default_rng(4).normal(size=shape)
    W = minimise(quadratic(np.zeros((shape[0],) * 2), C), point(*shape, 5), max_iter=500)
    if shape != (5, 5):  # the curve never changes the determinant
        np.testing.assert_allclose(W, procrustes(C), atol=1e-4)
    np.testing.assert_allclose(W.T @ C, (W.T @ C).T, atol=1e-3)  # stationary


@pytest.mark.parametrize("shape", [*SHAPES, (4, 9)])
def test_no_point_leaves_the_manifold(shape):
    objective, seen = random_quadratic(*shape, 6), []

    def watched(W):
        seen.append(W)
        return objective(W)

    seen.append(minimise(watched, point(*shape, 7), max_iter=30))
    for W in seen:
        assert W.shape == shape
        tall = W if shape[0] >= shape[1] else W.T
        np.testing.assert_allclose(tall.T @ tall, np.eye(min(shape)), atol=1e-10)
    np.testing.assert_allclose(tall.T @ tall, np.eye(min(shape)), atol=1e-13)


@over_seeds(5)
def test_the_end_is_below_the_start_and_flat(seed):
    objective, W = random_quadratic(10, 4, seed), point(10, 4, seed)
    found = minimise(objective, W, max_iter=300)
    assert objective(found)[0] < objective(W)[0]
    G = objective(found)[1]
    assert np.linalg.norm(G - found @ G.T @ found) < 1e-3


def test_steps_are_counted_and_a_flat_start_stays():
    W = point(6, 2, 8)
    np.testing.assert_array_equal(minimise(random_quadratic(6, 2, 9), W, max_iter=0), W)
    flat = minimise(lambda V: (0.0, np.zeros_like(V)), W, max_iter=20)
    np.testing.assert_allclose(flat, W, atol=1e-14)
    calls = []
    minimise(lambda V: (calls.append(0) or 0.0, np.zeros_like(V)), W, max_iter=20)
    assert len(calls) == 4  # the start, two steps that are not believed, and the third
