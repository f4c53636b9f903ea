"""Methods that learn from paired rows: which rows count, learned codes, and errors."""

import numpy as np
import pytest

import bridgehash
from bridgehash import CCAITQ, CMFH, FSH, SCRATCH, InputError
from bridgehash.baselines._views import View, whitened
from bridgehash.codes import hamming
from bridgehash.models.feature_maps import UnitRows

PAIRED = pytest.mark.parametrize("make", [CCAITQ, CMFH, FSH, SCRATCH])
WITH_CODES = pytest.mark.parametrize("make", [CMFH, FSH, SCRATCH])


@pytest.fixture(scope="module")
def items():
    """90 items of three classes in two feature spaces; noise is small."""
    rng = np.random.default_rng(0)
    y = np.arange(90) % 3
    Z = 2.0 * rng.normal(size=(3, 4))[y] + rng.normal(size=(90, 4))
    X, Y = (Z @ rng.normal(size=(4, d)) + 0.1 * rng.normal(size=(90, d)) for d in (8, 6))
    return X, Y, y


def same_rows(n):
    return np.column_stack([np.arange(n), np.arange(n)])


@PAIRED
def test_rows_without_a_partner_do_not_count(make, items):
    X, Y, y = items
    pairs = same_rows(60)
    part = make(16, random_state=0).fit(X[:60], Y[:60], y_source=y[:60], pairs=pairs)
    whole = make(16, random_state=0).fit(X, Y, y_source=y, pairs=pairs)
    np.testing.assert_array_equal(part.encode(X, "source"), whole.encode(X, "source"))
    np.testing.assert_array_equal(part.encode(Y, "target"), whole.encode(Y, "target"))


@PAIRED
def test_pairs_name_rows_in_any_order(make, items):
    X, Y, y = items
    rng = np.random.default_rng(1)
    order, shuffled = rng.permutation(90), rng.permutation(90)
    pairs = np.column_stack([order, np.arange(90)])[shuffled]  # row j of Y[order] is item order[j]
    model = make(32, random_state=0).fit(X, Y[order], y_source=y, pairs=pairs)
    plain = make(32, random_state=0).fit(X, Y, y_source=y, pairs=same_rows(90))
    for rows, domain in ((X, "source"), (Y, "target")):
        H, expected = (m.decision_function(rows, domain) for m in (model, plain))
        np.testing.assert_allclose(H, expected, atol=1e-8 * np.abs(expected).max())
    if make is not CCAITQ:
        np.testing.assert_array_equal(model.codes_, plain.codes_[pairs[:, 0]])


@PAIRED
def test_partners_are_closer_than_others(make, items):
    X, Y, y = items
    model = make(32, random_state=0).fit(X[:60], Y[:60], y_source=y[:60], pairs=same_rows(60))
    distances = hamming(model.encode(X[60:], "source"), model.encode(Y[60:], "target"))
    assert np.diag(distances).mean() < 0.5 * distances.mean()


@WITH_CODES
def test_learned_codes_are_near_those_of_the_functions(make, items):
    X, Y, y = items
    model = make(16, random_state=0).fit(X, Y, y_source=y, pairs=same_rows(90))
    assert model.codes_.shape == (90, 2)
    for rows, domain in ((X, "source"), (Y, "target")):
        distances = hamming(model.codes_, model.encode(rows, domain))
        assert np.diag(distances).mean() < 0.5 * distances.mean()


@WITH_CODES
def test_learned_codes_are_saved(make, items, tmp_path):
    X, Y, y = items
    model = make(12, random_state=0).fit(X, Y, y_source=y, pairs=same_rows(90))
    model.save(tmp_path / "model")
    loaded = bridgehash.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.codes_, model.codes_)
    np.testing.assert_array_equal(loaded.objective_, model.objective_)
    model.codes_ = model.codes_[:, :1]
    with pytest.raises(InputError, match="cannot be saved: codes_ has 1 bytes per row"):
        model.save(tmp_path / "short")


@PAIRED
def test_missing_pairs_are_demanded(make, items):
    X, Y, y = items
    for pairs, n in ((None, 0), ([[0, 0]], 1)):
        with pytest.raises(InputError, match=f"pairs: {n} given; {make.__name__} needs at least 2"):
            make(8).fit(X, Y, y_source=y, pairs=pairs)
    with pytest.raises(InputError, match=r"pairs: names rows of the target outside 0\.\.89"):
        make(8).fit(X, Y, y_source=y, pairs=[[0, 0], [1, 90]])


@pytest.mark.parametrize("n", [5, 90])
def test_whitened_rows_have_the_unit_covariance(n, items):
    X = items[0][:n] - items[0][:n].mean(axis=0)
    Z, back = whitened(X, 0.7)
    W = back(np.eye(Z.shape[1]))
    np.testing.assert_allclose(W.T @ (X.T @ X + 0.7 * np.eye(8)) @ W, np.eye(Z.shape[1]), atol=1e-9)
    np.testing.assert_allclose(X @ W, Z, atol=1e-9)


def test_a_view_encodes_raw_rows(items):
    X = items[0]
    view = View.build(X, [UnitRows()])
    P = np.random.default_rng(0).normal(size=(8, 3))
    np.testing.assert_allclose(view.X.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(view.encoder(P).decision_function(X), view.X @ P, atol=1e-12)
