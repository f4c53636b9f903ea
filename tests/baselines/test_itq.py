"""ITQ against the public code, and its loss."""

import numpy as np

from bridgehash import ITQ
from bridgehash._core.linalg import itq_rotation, pca
from bridgehash.codes import signs
from tests.baselines.golden import BITS, assert_close, assert_same_bits
from tests.cases import over_seeds


@BITS
def test_the_stored_run_is_found_again(stored, digits, n_bits):
    run, digits = stored("itq", n_bits), digits.centred()
    R = itq_rotation(digits.stacked @ run["pcaW"], run["R0"], n_iter=51)
    assert_close(R, run["R"], 1e-12)
    assert_same_bits(run, digits, lambda X: X @ run["pcaW"] @ R)


@BITS
def test_the_stored_directions_are_found_up_to_their_signs(stored, digits, n_bits):
    P, expected = pca(digits.centred().stacked, n_bits), stored("itq", n_bits)["pcaW"]
    assert_close(P * np.sign((P * expected).sum(axis=0)), expected, 1e-8)


@over_seeds(3)
def test_more_rounds_never_lose_more(seed):
    X = np.random.default_rng(seed).normal(size=(60, 9))
    losses = []
    for max_iter in range(12):
        H = ITQ(6, max_iter=max_iter, random_state=seed).fit(X).decision_function(X)
        losses.append(((signs(H) - H) ** 2).sum())
    assert (np.diff(losses) <= 1e-9 * losses[0]).all()
