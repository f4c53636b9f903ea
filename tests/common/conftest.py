"""The common checks use tiny data, on which the domains need not match better than by chance."""

import warnings

import pytest

from bridgehash import BridgeWarning


@pytest.fixture(autouse=True)
def ignore_bridge_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BridgeWarning)
        yield
