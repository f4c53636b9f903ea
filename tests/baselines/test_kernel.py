"""The common part of methods over similarities to anchors: features, P, stopping."""

import numpy as np
import pytest

from bridgehash import FSDH, SCDH, SDH, AnchorKernel
from bridgehash._core.linalg import unit_rows
from bridgehash.baselines._kernel import with_constant
from bridgehash.baselines.sdh import ClassifierTerm
from tests.cases import two_domains

METHODS = pytest.mark.parametrize("method", [SDH, FSDH, SCDH])


@pytest.fixture(scope="module")
def rows():
    data = two_domains()
    return data.X_source, data.y_source


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_features_are_similarities_and_a_constant_in_float64(dtype):
    X = np.random.default_rng(0).normal(size=(2500, 3)).astype(dtype)  # more than two tiles
    kernel = AnchorKernel(4, 2.0, random_state=0).fit(X)
    phi = with_constant(kernel, X)
    assert phi.dtype == np.float64
    np.testing.assert_array_equal(phi[:, -1], 1.0)
    squares = ((X[:, None].astype(float) - kernel.anchors_) ** 2).sum(axis=2)
    np.testing.assert_allclose(phi[:, :-1], np.exp(-squares / 2), rtol=1e-5)


@METHODS
def test_codes_are_signs_of_similarities_to_unit_rows_and_an_intercept(method, rows):
    X, y = rows
    model = method(6, n_anchors=9, sigma=0.7, random_state=0).fit(X, y)
    encoder, Z = model.encoder_, unit_rows(X)
    anchors = encoder.maps[-1].anchors_
    assert {tuple(anchor) for anchor in anchors} <= {tuple(row) for row in Z}
    squares = ((Z[:, None] - anchors) ** 2).sum(axis=2)
    H = np.exp(-squares / (2 * 0.7**2)) @ encoder.projection + encoder.intercept
    np.testing.assert_allclose(model.decision_function(X), H, atol=1e-9)


@METHODS
def test_codes_of_one_class_are_alike_and_those_of_two_are_not(method):
    y = np.arange(90) % 3
    X = 5.0 * np.eye(6)[y] + 0.1 * np.random.default_rng(0).normal(size=(90, 6))
    B = method(16, random_state=0).fit(X, y).transform(X)
    same = y[:, None] == y
    distances = (B[:, None] != B).sum(axis=2)
    assert distances[same].mean() < 4 < distances[~same].mean()


@METHODS
def test_norms_of_rows_matter_only_without_unit_rows(method, rows):
    X, y = rows
    stretched = X * np.linspace(0.5, 2.0, len(X))[:, None]

    def projections(X, **parameters):
        model = method(6, random_state=0, **parameters)
        return model.fit(X, y).decision_function(X)

    np.testing.assert_allclose(projections(stretched), projections(X), atol=1e-6)
    raw = projections(X, unit_rows=False, sigma=5.0)
    assert np.abs(projections(stretched, unit_rows=False, sigma=5.0) - raw).max() > 1e-2


@METHODS
def test_the_projection_is_a_ridge_regression_of_codes(method, rows):
    """With all codes fitted, φP are the codes; with a heavy ridge, nothing."""
    X, y = rows
    light = method(6, ridge=1e-9, random_state=0).fit(X, y)
    np.testing.assert_allclose(np.abs(light.decision_function(X)), 1.0, atol=1e-2)
    heavy = method(6, ridge=1e9, random_state=0).fit(X, y)
    assert np.abs(heavy.decision_function(X)).max() < 1e-3


def regression(rows, **changed):
    """Return φ, P, W, B and the objective after each round."""
    X, y = rows
    phi = with_constant(AnchorKernel(8, 30.0, random_state=0).fit(X), X)
    B = np.where(np.random.default_rng(0).random((len(X), 5)) < 0.5, -1.0, 1.0)
    model = SDH(5, fit_weight=0.3, ridge=1e-2, **({"max_iter": 30, "tol": 0.0} | changed))
    return phi, *model._alternate(phi, B, ClassifierTerm(y, 1.0)), model.objective_


def test_the_regression_ends_at_its_normal_equations(rows):
    phi, P, _, B, _ = regression(rows)
    np.testing.assert_allclose(phi.T @ (phi @ P - B) + 1e-2 * P, 0.0, atol=1e-9)


def test_the_recorded_objective_counts_all_of_its_terms(rows):
    phi, P, W, B, objective = regression(rows)
    Y = np.eye(3)[rows[1]]
    expected = ((Y - B @ W) ** 2).sum() + (W**2).sum()
    expected += 0.3 * (((B - phi @ P) ** 2).sum() + 1e-2 * (P**2).sum())
    np.testing.assert_allclose(objective[-1], expected)
    assert (np.diff(objective) <= 1e-9).all()


def test_rounds_end_when_the_regression_stays_or_fits(rows):
    *_, B, objective = regression(rows, tol=1e-5)
    *_, B_long, objective_long = regression(rows)
    assert len(objective) < len(objective_long) == 30
    np.testing.assert_array_equal(B, B_long)
    phi, P, _, B, _ = regression(rows, max_iter=1)
    misfit = np.linalg.norm(B - phi @ P) / np.linalg.norm(B)
    assert len(regression(rows, tol=1.05 * misfit)[-1]) == 1
    assert len(regression(rows, tol=0.95 * misfit)[-1]) > 1
