"""What holds for all tests."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.shared_data import REASON

SLOW_FOLDERS = {"cli", "dns_behaviour", "docs", "gateway", "lab", "runs"}
"""Tests here start processes or whole runs, most of them for a second each; `make check` leaves
them to `make test`."""

MACHINE_FOLDERS = {"backends", "dns_behaviour", "gateway", "lab", "probe"}
"""Tests here watch real servers and kernels, and mostly wait: one process runs them, one by one,
while others run the rest."""

GUEST_FOLDERS = {"kernel"}
"""Tests here share a guest kernel, which one process builds."""


def pytest_configure() -> None:
    """Hears Ctrl-C, as do the processes that tests start, also where tests run in the background.

    A shell without job control starts background commands with SIGINT ignored, and so stay all
    programs that they start.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks what is slow, and what shares servers and networks, because of what it does.

    First of all hooks: pytest-xdist reads the marks in its own.
    """
    marks = (
        (SLOW_FOLDERS, pytest.mark.slow),
        (MACHINE_FOLDERS, pytest.mark.xdist_group("machine")),
        (GUEST_FOLDERS, pytest.mark.xdist_group("guest")),
    )
    for names, mark in marks:
        folders = {Path(__file__).parent / name for name in names}
        for item in items:
            if folders.intersection(item.path.parents):
                item.add_marker(mark)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Where CI is set, everything that a test needs is there: a skip is a failure.

    Data that may not be distributed are the exception: no clone has them.
    """
    report = yield
    excused = hasattr(report, "wasxfail") or REASON in str(report.longrepr)
    if os.environ.get("CI") and report.skipped and not excused:
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} skipped, and CI is set: {report.longrepr}"
    return report
