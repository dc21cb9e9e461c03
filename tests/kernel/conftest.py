"""A guest kernel for the tests: the one that `narrows kernel prepare` built, or builds in CI."""

from __future__ import annotations

import os

import pytest

from narrows.backends.backend import BackendError
from narrows.backends.kernel import available, prepare

# A guest runs it, beside the agent.
collect_ignore = ["cable_init.py"]


@pytest.fixture(scope="session")
def guest() -> str:
    """The backend of a guest in virtual time."""
    try:
        return f"kernel-{available.choose('virtual').name}"
    except BackendError as error:
        if not os.environ.get("CI"):
            pytest.skip(f"{error} (SKIP: narrows kernel prepare builds a guest)")
    prepare.prepare(lambda _what, _done: None)
    return f"kernel-{available.choose('virtual').name}"
