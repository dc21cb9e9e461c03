"""The profiles can be read, and the documents show what they say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from narrows import NarrowsError, dns_profiles


@pytest.mark.parametrize("name", dns_profiles.clients())
def test_client_profiles_hold_together(name: str) -> None:
    client = dns_profiles.client(name)
    assert client.name == name
    assert client.attempts >= 1
    assert client.reuse == (client.idle_timeout_s is not None)
    assert not client.pipelining or client.reuse
    assert client.format_error != "never" or client.edns_bytes == 0


def test_unknown_name_is_one_line() -> None:
    with pytest.raises(NarrowsError) as caught:
        dns_profiles.client("nobody\n")
    assert "\n" not in str(caught.value)
    assert "unbound" in str(caught.value)


def test_the_tables_are_current() -> None:
    script = Path(__file__).parents[2] / "tools" / "dns_profile_tables.py"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
