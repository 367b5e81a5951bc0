"""Plug-in for pytest: the fixture ``assert_on_ane``."""

import pytest

from . import testing


@pytest.fixture
def assert_on_ane():
    """``assert_on_ane(model, chip)``: every operation runs on the engine of that chip."""
    return testing.assert_on_ane
