"""SHSR against the public code, and its rotation."""

import numpy as np
import pytest

from bridgehash import SHSR, AnchorGraphMap
from bridgehash._core.arrays import balanced_signs
from bridgehash._core.linalg import k_means, procrustes, random_orthonormal
from bridgehash.baselines._anchor_graph import anchor_eigenvectors, anchor_graph
from bridgehash.baselines.shsr import spectral_rotation
from bridgehash.codes import signs
from bridgehash.neighbors.search import nearest
from tests.baselines.golden import BITS, assert_close, assert_same_bits
from tests.cases import over_seeds, two_domains


@pytest.fixture(scope="module")
def stored_map(stored, digits):
    """The map at the stored start of k-means."""
    run, X = stored("shsr", 16), digits.centred().stacked
    anchors = AnchorGraphMap(n_iter=0, random_state=0).fit(X)  # any: what it learned is replaced
    anchors.mean_ = np.zeros(X.shape[1])
    anchors.anchors_ = k_means(X, X[run["anchor_start"]], n_iter=10)
    anchors.sigma_ = float(run["sigma"])
    return anchors


def test_the_stored_anchors_and_their_width_are_found_again(stored, digits, stored_map):
    run = stored("shsr", 16)
    assert_close(stored_map.anchors_, run["anchor"], 1e-12)
    F, _ = nearest(digits.centred().stacked, stored_map.anchors_, k=3)
    assert_close(np.sqrt(F[:, -1]).mean(), run["sigma"], 1e-12)


@BITS
def test_the_stored_run_is_found_again(stored, digits, stored_map, n_bits):
    run, digits = stored("shsr", n_bits), digits.centred()
    Z = stored_map.memberships(digits.stacked)
    F, left = anchor_eigenvectors(Z, n_bits), anchor_graph(Z).left
    F *= np.sign(np.take_along_axis(F, np.abs(F).argmax(axis=0)[None], axis=0))
    Q, _ = spectral_rotation(F, run["Q0"], max_iter=20)
    P = left.T @ F @ Q
    assert_close(P / np.sqrt(len(F)), run["P"], 1e-10)  # there FᵀF = I
    assert_same_bits(run, digits, lambda X: stored_map.transform(X) @ P)


@over_seeds(4)
def test_each_step_lowers_the_objective_and_is_the_best_one(seed):
    rng = np.random.default_rng(seed)
    F = np.linalg.qr(rng.normal(size=(60, 5)))[0] * np.sqrt(60)
    start = random_orthonormal(5, 5, np.random.RandomState(seed))
    Q, objective = spectral_rotation(F, start, max_iter=30)
    before = ((balanced_signs(F @ start) - F @ start) ** 2).sum()
    assert (np.diff([before, *objective]) <= 1e-9 * before).all()
    np.testing.assert_allclose(objective[-1], ((balanced_signs(F @ Q) - F @ Q) ** 2).sum())
    np.testing.assert_allclose(Q.T @ Q, np.eye(5), atol=1e-12)
    np.testing.assert_allclose(Q, procrustes(F.T @ balanced_signs(F @ Q)), atol=1e-9)


def test_rounds_end_when_no_bit_changes():
    X = two_domains().X_source
    model = SHSR(4, random_state=0, max_iter=200).fit(X)
    assert model.n_iter_ == len(model.objective_) < 200
    longer = SHSR(4, random_state=0, max_iter=model.n_iter_ + 5).fit(X)
    np.testing.assert_array_equal(longer.objective_, model.objective_)


def test_a_code_is_the_mean_of_fq_around_the_anchors_of_a_row():
    X = two_domains().X_source
    model = SHSR(5, n_anchors=8, random_state=3).fit(X)
    (anchors,) = model.encoder_.maps
    Z = anchors.transform(X)
    F = anchor_eigenvectors(anchors.memberships(X), 5)
    rng = np.random.RandomState(3)
    rng.randint(np.iinfo(np.int32).max)
    Q, _ = spectral_rotation(F, random_orthonormal(5, 5, rng), max_iter=20)
    means = (Z.T @ F @ Q) / Z.sum(axis=0)[:, None]
    np.testing.assert_allclose(model.decision_function(X), Z @ means, atol=1e-10)


@pytest.mark.parametrize("n_anchors", [2, 7])
def test_codes_may_be_longer_than_the_number_of_anchors(n_anchors):
    X = two_domains().X_source
    model = SHSR(20, n_anchors=n_anchors, random_state=0).fit(X)
    assert model.encoder_.projection_.shape == (n_anchors, 20)
    assert (np.abs(signs(model.decision_function(X)).mean(axis=0)) < 1).all()
