"""LSH against the public code, and the law of its distances."""

import numpy as np

from bridgehash import LSH
from tests.baselines.golden import BITS, assert_same_bits


@BITS
def test_the_stored_run_is_found_again(stored, digits, n_bits):
    run, digits = stored("lsh", n_bits), digits.centred()
    W = run.normal("randn_start")
    assert_same_bits(run, digits, lambda X: X @ W)


def test_the_hyperplanes_are_gaussian_and_pass_through_the_mean():
    X = 5.0 + np.random.default_rng(0).normal(size=(20, 4))
    model = LSH(n_bits=3, random_state=7).fit(X)
    W = np.random.RandomState(7).standard_normal((4, 3))
    np.testing.assert_array_equal(model.encoder_.projection_, W)
    np.testing.assert_allclose(model.decision_function(X), (X - X.mean(axis=0)) @ W)


def test_bits_differ_as_often_as_the_angle_says():
    angle = 2.0
    X = np.array([[1.0, 0.0], [np.cos(angle), np.sin(angle)]])
    centred = np.vstack([X, -X])  # of mean zero
    B = LSH(n_bits=4096, random_state=0).fit(centred).transform(X)
    assert abs((B[0] != B[1]).mean() - angle / np.pi) < 0.03  # four standard deviations
