"""Maps learned from pairs: known maps are recovered, the objective is minimal, pairs are needed."""

import numpy as np
import pytest
from scipy.stats import ortho_group
from sklearn.linear_model import Ridge

from bridgehash import ITQ, InputError, LinearEncoder, Procrustes, RidgeMap
from bridgehash.codes import hamming

BOTH = pytest.mark.parametrize("make", [RidgeMap, Procrustes])


@pytest.fixture(scope="module")
def catalogue():
    """200 rows in a space of 12 features and the same in another of 15."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 12)) * np.linspace(2, 0.5, 12)
    return X, X @ ortho_group.rvs(15, random_state=0)[:12]


def pairs_of(n):
    return np.column_stack([np.arange(n), np.arange(n)])


@BOTH
def test_a_rotation_is_undone_by_enough_pairs(make, catalogue):
    X_s, X_t = catalogue
    parameters = {"ridge": 1e-9} if make is RidgeMap else {}
    model = make(32, random_state=0, **parameters).fit(X_s, X_t, pairs=pairs_of(60))
    H_s, H_t = model.decision_function(X_s, "source"), model.decision_function(X_t, "target")
    np.testing.assert_allclose(H_t, H_s, atol=1e-6 * np.abs(H_s).max())


@BOTH
def test_codes_of_the_source_are_those_of_itq(make, catalogue):
    X_s, X_t = catalogue
    model = make(16, unit_rows=False, random_state=3).fit(X_s, X_t, pairs=pairs_of(9))
    itq = ITQ(16, random_state=3).fit(X_s)
    np.testing.assert_array_equal(model.encode(X_s, "source"), itq.encode(X_s))


def test_the_ridge_map_is_a_ridge_regression(catalogue):
    X_s, X_t = catalogue
    model = RidgeMap(16, ridge=0.7, unit_rows=False, random_state=0)
    model.fit(X_s, X_t, pairs=pairs_of(30))
    mapped = Ridge(alpha=0.7).fit(X_t[:30], X_s[:30]).predict(X_t)
    np.testing.assert_allclose(
        model.decision_function(X_t, "target"), model.decision_function(mapped, "source"), atol=1e-9
    )


def test_the_turn_is_the_best_among_rotations(catalogue):
    X_s, X_t = catalogue[0], catalogue[0] @ ortho_group.rvs(12, random_state=1)
    noisy = X_t + 0.1 * np.random.default_rng(1).normal(size=X_t.shape)
    Q = Procrustes()._learn_map(noisy, X_s)
    best = ((noisy @ Q - X_s) ** 2).sum()
    for seed in range(20):
        turn = ortho_group.rvs(12, random_state=seed)
        for step in (1e-3, 1.0):  # near by and far away
            U, _, Vt = np.linalg.svd(Q + step * turn)
            assert ((noisy @ (U @ Vt) - X_s) ** 2).sum() >= best


@BOTH
def test_only_the_paired_rows_of_the_target_count(make, catalogue):
    X_s, X_t = catalogue
    noise = X_t.copy()
    noise[40:] = np.random.default_rng(2).normal(size=noise[40:].shape)
    models = [make(16, random_state=0).fit(X_s, X, pairs=pairs_of(40)) for X in (X_t, noise)]
    codes = [model.encode(X_t, "target") for model in models]
    np.testing.assert_array_equal(*codes)


@BOTH
def test_pairs_name_rows_not_positions(make, catalogue):
    X_s, X_t = catalogue
    order = np.random.default_rng(3).permutation(len(X_t))
    shuffled = X_t[order]  # row j shows what row order[j] of the source shows
    pairs = np.column_stack([order, np.arange(len(order))])[:80]
    model = make(32, random_state=0).fit(X_s, shuffled, pairs=pairs)
    distances = hamming(model.encode(shuffled, "target"), model.encode(X_s, "source"))
    assert (distances.argmin(axis=1) == order).mean() > 0.9


@BOTH
def test_missing_pairs_are_demanded(make, catalogue):
    for pairs, n in ((None, 0), ([[0, 0]], 1)):
        with pytest.raises(InputError, match=f"pairs: {n} given; {make.__name__} needs at least 2"):
            make(8).fit(*catalogue, pairs=pairs)


@pytest.mark.parametrize("method", [RidgeMap, Procrustes])
def test_a_frozen_encoder_keeps_its_codes_and_is_followed(method):
    rng = np.random.default_rng(0)
    items = rng.normal(size=(200, 6))
    X, Z = items @ rng.normal(size=(6, 12)) + 2.0, items @ rng.normal(size=(6, 9))
    itq = ITQ(24, random_state=0).fit(X)
    hasher = method(24, frozen=itq.encoder_)
    hasher.fit(X, Z, pairs=np.column_stack([np.arange(100)] * 2))
    np.testing.assert_array_equal(hasher.encode(X, "source"), itq.encode(X))
    agreement = (hasher.transform(Z, "target") == itq.transform(X)).mean()
    assert agreement > (0.95 if method is RidgeMap else 0.7)


@pytest.mark.parametrize(
    ("frozen", "message"),
    [(ITQ(8), "use the `encoder_`"), (LinearEncoder(np.eye(5), np.zeros(5)), "takes 5 columns")],
)
def test_an_encoder_that_does_not_fit_is_refused(frozen, message):
    X = np.random.default_rng(0).normal(size=(9, 12))
    with pytest.raises(InputError, match=f"frozen: .*{message}"):
        RidgeMap(24, frozen=frozen).fit(X, X, pairs=[[0, 0], [1, 1]])
