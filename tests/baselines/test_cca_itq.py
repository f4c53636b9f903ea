"""CCA-ITQ: canonical directions by definition, and a rotation of them with less error."""

import numpy as np
import pytest
from scipy.linalg import eigh

from bridgehash import CCAITQ
from bridgehash.baselines.cca_itq import canonical_directions
from bridgehash.codes import signs


@pytest.fixture(scope="module")
def views(crossmodal):
    return crossmodal["X"], crossmodal["Y"]


def test_directions_are_those_of_public_code(views, crossmodal):
    U, V, correlations = canonical_directions(*views, ridge=0.3, n=6)
    np.testing.assert_allclose(correlations**2, np.diag(crossmodal["cca_squares"]), rtol=1e-9)
    for found, name in ((U, "cca_P_x"), (V, "cca_P_y")):
        expected = crossmodal[name]
        cosines = (found * expected).sum(axis=0) / np.linalg.norm(found, axis=0)
        cosines /= np.linalg.norm(expected, axis=0)
        np.testing.assert_allclose(np.abs(cosines), 1.0, rtol=1e-9)


def test_directions_solve_the_eigenproblem(views):
    X, Y = views
    U, V, correlations = canonical_directions(X, Y, ridge=0.3, n=4)
    C_x, C_y = (Z.T @ Z + 0.3 * np.eye(Z.shape[1]) for Z in (X, Y))
    squares = eigh(X.T @ Y @ np.linalg.solve(C_y, Y.T @ X), C_x, eigvals_only=True)[::-1][:4]
    np.testing.assert_allclose(correlations**2, squares, rtol=1e-9)
    np.testing.assert_allclose(U.T @ X.T @ Y @ V, np.diag(correlations), atol=1e-9)
    np.testing.assert_allclose(U.T @ C_x @ U, np.eye(4), atol=1e-9)
    np.testing.assert_allclose(V.T @ C_y @ V, np.eye(4), atol=1e-9)


def test_projections_are_weighted_directions_rotated_to_less_error(views):
    X, Y = views
    pairs = np.column_stack([np.arange(60), np.arange(60)])

    def fitted(max_iter):
        model = CCAITQ(6, ridge=0.3, unit_rows=False, max_iter=max_iter, random_state=0)
        model.fit(X, Y, pairs=pairs)
        return np.vstack(
            [model.decision_function(X, "source"), model.decision_function(Y, "target")]
        )

    U, V, correlations = canonical_directions(X, Y, ridge=0.3, n=6)
    weighted = np.vstack([X @ U, Y @ V]) * correlations**2
    errors = []
    for max_iter in (0, 50):
        H = fitted(max_iter)
        np.testing.assert_allclose(H @ H.T, weighted @ weighted.T, atol=1e-10)  # a rotation
        errors.append(((signs(H) - np.sqrt(60) * H) ** 2).sum())
    assert errors[1] < errors[0]
