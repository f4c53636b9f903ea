"""Fixtures for the stored runs."""

from pathlib import Path

import numpy as np
import pytest
from scipy.io import loadmat

from tests.baselines.golden import Stored, load_digits


@pytest.fixture(scope="session")
def digits(data_pack, golden):
    return load_digits(data_pack, golden)


@pytest.fixture(scope="session")
def stored(golden):
    """`stored(method, n_bits)`: the run of a method."""
    return lambda method, n_bits: Stored(golden(f"{method}_mnist_usps"), n_bits)


@pytest.fixture(scope="session")
def crossmodal():
    """Small paired data, and what public code learns from them (see crossmodal_golden.m)."""
    found = loadmat(Path(__file__).with_name("crossmodal_golden.mat"))
    return found | {"y": found["y"].ravel().astype(np.intp)}
