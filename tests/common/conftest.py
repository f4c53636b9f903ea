"""What all methods have in common is checked on small data, on which no bridge need be found."""

import warnings

import pytest

from bridgehash import BridgeWarning


@pytest.fixture(autouse=True)
def any_bridge_will_do():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BridgeWarning)
        yield
