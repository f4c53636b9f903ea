"""PCAH against the public code, and beyond the rank."""

import numpy as np

from bridgehash import PCAH
from tests.baselines.golden import BITS, assert_close, assert_same_bits


@BITS
def test_the_stored_run_is_found_again_up_to_signs(stored, digits, n_bits):
    run = stored("pcah", n_bits)
    model = PCAH(n_bits).fit(digits.stacked)
    P, expected = model.encoder_.projection_, run["pcaW"]
    sides = np.sign((P * expected).sum(axis=0))
    assert_close(P * sides, expected, 1e-8)
    assert_same_bits(run, digits, lambda X: model.decision_function(X) * sides)


def test_codes_longer_than_the_rank_repeat_the_directions():
    X = np.random.default_rng(0).normal(size=(30, 3))
    H, longer = (PCAH(n_bits).fit(X).decision_function(X) for n_bits in (3, 7))
    np.testing.assert_allclose(longer, np.hstack([H, H, H[:, :1]]))


def test_equal_rows_have_one_code():
    assert (PCAH(4).fit(np.ones((5, 2))).transform(np.ones((5, 2))) == -1).all()
