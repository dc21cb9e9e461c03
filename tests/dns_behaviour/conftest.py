"""All trials, run once for all tests that look at them."""

from __future__ import annotations

import functools
import os
import shutil
from pathlib import Path

import pytest

from . import lab
from .clients import CLIENTS
from .lab import Trial

INSTALL = "install it with: sh tools/install_test_tools.sh"
TOOLS = ("ip", "ethtool", "nsenter", "unshare", "cc")
WATCH = 17.0
"""Seconds for which each client is watched in the tests; all at once. It is longer than any of them
waits for UDP, systemd-resolved apart: that takes `show --watch 40`, and 130 until it gives up."""

Trials = dict[tuple[str, str], Trial]


def cannot() -> str | None:
    """Why this machine cannot run them."""
    if os.geteuid() != 0:
        return "needs root: network namespaces; run as root: make test"
    if absent := [tool for tool in TOOLS if not shutil.which(tool)]:
        return f"{absent[0]} is not installed; {INSTALL}"
    return None


@functools.cache
def ran(folder: Path) -> Trials:
    """Runs every client that is installed."""
    trials = lab.run(folder, watch=WATCH)
    return {(trial.client, trial.case.name): trial for trial in trials}


@pytest.fixture(scope="session")
def trials(tmp_path_factory: pytest.TempPathFactory) -> Trials:
    """Every client in every case."""
    if reason := cannot():
        pytest.skip(reason)
    return ran(tmp_path_factory.mktemp("dns-behaviour"))


@pytest.fixture(params=[client.name for client in CLIENTS])
def client(request: pytest.FixtureRequest) -> str:
    """A client that is installed."""
    name = str(request.param)
    if next(client for client in CLIENTS if client.name == name).version() is None:
        pytest.skip(f"{name} is not installed; {INSTALL}")
    return name
