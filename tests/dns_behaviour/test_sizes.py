"""The size profiles are what servers send."""

from __future__ import annotations

from pathlib import Path

import pytest

from narrows import dns_profiles

from . import measure_sizes, real_servers
from .conftest import INSTALL, cannot


@pytest.mark.servers
def test_sizes_come_again(tmp_path: Path) -> None:
    if reason := cannot():
        pytest.skip(reason)
    if absent := real_servers.missing():
        pytest.skip(f"{absent[0]} is not installed; {INSTALL}")
    measured = measure_sizes.measured(tmp_path)
    assert sorted(measured) == dns_profiles.sizes_names()
    for name, (_, _, choices) in measured.items():
        kept = [choice.model_dump() for choice in dns_profiles.sizes(name).choices]
        assert kept == choices, name
