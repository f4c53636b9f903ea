"""Fixtures for the stored runs."""

import pytest

from tests.baselines.golden import Stored, load_digits


@pytest.fixture(scope="session")
def digits(data_pack, golden):
    return load_digits(data_pack, golden)


@pytest.fixture(scope="session")
def stored(golden):
    """`stored(method, n_bits)`: the run of a method."""
    return lambda method, n_bits: Stored(golden(f"{method}_mnist_usps"), n_bits)
