"""CMFH: public code is reproduced, every step is exact, the objective is that of the paper."""

import numpy as np
import pytest

from bridgehash import CMFH


@pytest.fixture(scope="module")
def model():
    return CMFH(6, source_weight=0.4, fit_weight=10.0, ridge=0.5, max_iter=25, tol=0.0)


def run(model, data):
    start = [data["cmfh_P_x"], data["cmfh_P_y"]]
    return model._alternate((data["X"], data["Y"]), data["cmfh_V"], start)


def test_public_code_is_reproduced(model, crossmodal):
    found = run(model, crossmodal)
    np.testing.assert_allclose(found.P_source, crossmodal["cmfh_P_x_end"], atol=1e-10)
    np.testing.assert_allclose(found.P_target, crossmodal["cmfh_P_y_end"], atol=1e-10)
    V = crossmodal["cmfh_V_end"]
    np.testing.assert_allclose(found.B, V - V.mean(axis=0), atol=1e-10)


def objective(data, V, Us, Ps):
    """The sum of the docstring, entry by entry."""
    total = 0.5 * sum(v**2 for v in V.ravel())
    for weight, X, U, P in zip((0.4, 0.6), (data["X"], data["Y"]), Us, Ps, strict=True):
        for x, v in zip(X, V, strict=True):
            total += weight * sum((x[j] - v @ U[:, j]) ** 2 for j in range(len(x)))
            total += weight * 10.0 * sum((v[k] - x @ P[:, k]) ** 2 for k in range(len(v)))
        total += weight * 0.5 * (sum(u**2 for u in U.ravel()) + sum(p**2 for p in P.ravel()))
    return total


def test_the_factors_minimise_the_objective(model, crossmodal):
    rng = np.random.default_rng(0)
    views = crossmodal["X"], crossmodal["Y"]
    Us = [rng.normal(size=(6, X.shape[1])) for X in views]
    Ps = [rng.normal(size=(X.shape[1], 6)) for X in views]
    V = np.hstack(views) @ model._factors(Us, Ps)
    best = objective(crossmodal, V, Us, Ps)
    moments = [(X.T @ X, X.T @ V) for X in views]
    assert model._objective(moments, V.T @ V, Us, Ps) == pytest.approx(best)
    for step in (1e-3, 1.0):
        assert objective(crossmodal, V + step * rng.normal(size=V.shape), Us, Ps) > best


def test_the_objective_never_rises_and_decides_when_to_stop(model, crossmodal):
    values = np.array(run(model, crossmodal).objective)
    assert (np.diff(values) <= 1e-9 * values[:-1]).all()
    assert values[-1] < values[0]
    pairs = np.column_stack([np.arange(60), np.arange(60)])
    rounds = []
    for tol in (1e-2, 1e-5):
        fitted = CMFH(6, tol=tol, random_state=0).fit(crossmodal["X"], crossmodal["Y"], pairs=pairs)
        falls = -np.diff(fitted.objective_) / fitted.objective_[:-1]
        assert (falls[:-1] >= tol).all()
        rounds.append(fitted.n_iter_)
    assert rounds[0] < rounds[1]
