"""All trials, run once for all tests that look at them."""

from __future__ import annotations

import os
import re
import shutil

import pytest

from narrows import dns_profiles

from . import lab
from .clients import CLIENTS
from .lab import Trial

INSTALL = "install it with: sh tools/install_test_tools.sh --servers"
TOOLS = ("ip", "ethtool", "nsenter", "unshare", "cc")
WATCH = 17.0
"""Seconds for which the clients are watched in the tests, all at once. This is longer than any of
them waits for UDP, except systemd-resolved: that needs `show --watch 40`, and 130 s until it gives
up."""

Trials = dict[tuple[str, str], Trial]


def cannot() -> str | None:
    """Why this machine cannot run them."""
    if os.geteuid() != 0:
        return "needs root: network namespaces; run as root: make test"
    if absent := [tool for tool in TOOLS if not shutil.which(tool)]:
        return f"{absent[0]} is not installed; {INSTALL}"
    return None


def same_release(profile: str, installed: str) -> bool:
    """Whether a profile fits the installed program; fixes within a release change no behaviour.

    Examples:
        >>> same_release("9.18.49 (Debian 12)", "9.18.55"), same_release("4.6.1", "4.8.0")
        (True, False)
    """
    numbers = [re.findall(r"\d+", version)[:2] for version in (profile, installed)]
    # systemd has one number, and then the distribution's fixes.
    if profile.startswith("252."):
        numbers = [parts[:1] for parts in numbers]
    return numbers[0] == numbers[1]


def skip_other_release(name: str, profile: str, installed: str) -> None:
    """Skips a test if the installed release is not that of the profile."""
    if not same_release(profile, installed):
        pytest.skip(f"the profile is of {name} {profile}, and here is {installed}")


@pytest.fixture(scope="session")
def trials(tmp_path_factory: pytest.TempPathFactory) -> Trials:
    """Every client that is installed, in every case."""
    if reason := cannot():
        pytest.skip(reason)
    ran = lab.run(tmp_path_factory.mktemp("dns-behaviour"), watch=WATCH)
    return {(trial.client, trial.case.name): trial for trial in ran}


@pytest.fixture(params=[client.name for client in CLIENTS])
def client(request: pytest.FixtureRequest) -> str:
    """A client that is installed."""
    name = str(request.param)
    version = next(client for client in CLIENTS if client.name == name).version()
    if version is None:
        pytest.skip(f"{name} is not installed; {INSTALL}")
    skip_other_release(name, dns_profiles.client(name).version, version)
    return name
