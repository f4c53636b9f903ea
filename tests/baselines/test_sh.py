"""SH against the public code, and its modes against the paper's formula."""

import numpy as np
import pytest

from bridgehash import SH, SpectralModes
from bridgehash.baselines.sh import lowest_modes
from tests.baselines.golden import BITS, assert_close, assert_same_bits


def modes_along(P, X, n_bits):
    """`SpectralModes` along given directions: the signs of those it finds itself are free."""
    modes = SpectralModes(n_bits).fit(X)
    sides = np.sign((modes.components_ * P).sum(axis=0))
    assert_close(modes.components_ * sides, P, 1e-8)
    modes.low_ = np.where(sides > 0, modes.low_, -modes.low_ - modes.range_)
    modes.components_ = P
    return modes


@BITS
def test_the_stored_run_is_found_again(stored, digits, n_bits):
    run = stored("sh", n_bits)
    modes = modes_along(run["pcaW"], digits.stacked, n_bits)
    assert_close(modes.low_, run["mn"].ravel(), 1e-8)
    assert_close(modes.low_ + modes.range_, run["mx"].ravel(), 1e-8)
    dense = np.zeros((n_bits, n_bits), dtype=int)
    dense[np.arange(n_bits), modes.axis_] = modes.frequency_
    np.testing.assert_array_equal(dense, run["modes"])
    assert_same_bits(run, digits, modes.transform)


@pytest.mark.parametrize("n_modes", [1, 5, 30])
def test_modes_are_products_of_sines_in_the_order_of_their_eigenvalues(n_modes):
    rng = np.random.default_rng(n_modes)
    X = rng.normal(size=(40, 3)) * [5.0, 3.0, 1.0]
    modes = SpectralModes(n_modes).fit(X)
    V = (X - X.mean(axis=0)) @ modes.components_
    low, R = V.min(axis=0), V.max(axis=0) - V.min(axis=0)
    candidates = [(j, k) for j in range(V.shape[1]) for k in range(1, 200)]
    candidates.sort(key=lambda mode: (mode[1] * np.pi / R[mode[0]]) ** 2)
    for i, (j, k) in enumerate(candidates[:n_modes]):
        omega = np.zeros(V.shape[1])
        omega[j] = k * np.pi / R[j]
        expected = np.sin((V - low) * omega + np.pi / 2).prod(axis=1)
        np.testing.assert_allclose(modes.transform(X)[:, i], expected, atol=1e-12)


def test_a_component_offers_no_more_frequencies_than_its_share():
    axis, frequency = lowest_modes(np.array([4.0, 0.0, 2.0]), 6)
    assert 1 not in axis  # nothing varies there
    np.testing.assert_array_equal(frequency[axis == 2], [1, 2])
    np.testing.assert_array_equal(frequency[axis == 0], [1, 2, 3, 4])


def test_the_bits_are_the_signs_of_the_modes():
    X = np.random.default_rng(0).normal(size=(30, 4))
    np.testing.assert_allclose(SH(9).fit(X).decision_function(X), SpectralModes(9).fit_transform(X))


def test_equal_rows_have_one_code():
    assert len(np.unique(SH(4).fit(np.ones((5, 2))).encode(np.ones((5, 2))), axis=0)) == 1
