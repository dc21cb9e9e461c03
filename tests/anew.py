"""Makes shared observations anew when a test runs again.

Tests of real servers and kernels share their observations: one fixture of a module or of the whole
session runs all trials. pytest-rerunfailures keeps such a fixture, so a test that runs again would
look at the same observation and fail again. A fault that fails many tests therefore takes long: all
trials run twice more for each of these tests.
"""

from __future__ import annotations

from pathlib import Path

import pytest

TESTS = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Ends the shared fixtures of a test that runs again, so that pytest makes them anew.

    Fixtures that come with pytest and its plugins stay.
    """
    if getattr(item, "execution_count", 1) < 2 or not isinstance(item, pytest.Function):
        return
    for definitions in item._fixtureinfo.name2fixturedefs.values():
        for definition in definitions:
            if definition.baseid:
                definition.finish(item._request)  # type: ignore[arg-type]
