"""Settings for all tests."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

from tests.anew import pytest_runtest_setup  # noqa: F401
from tests.kernels import NO_PACKAGE
from tests.shared_data import REASON

SLOW_FOLDERS = {
    "gateway/tests/end_to_end",
    "tests/cli",
    "tests/dns_behaviour",
    "tests/testbed",
    "tests/runs",
    "tests/suites",
}
"""Folders whose tests start processes or whole runs, mostly for a second each; `make check` leaves
them to `make test`."""

GROUPS = {
    "gateway/tests/end_to_end": "machine",
    "tests/backends": "machine",
    "tests/dns_behaviour": "machine",
    "tests/testbed": "machine",
    "tests/machines": "machine",
    "tests/probe": "machine",
    "tests/reproduce/test_wijnen.py": "machine",
    "tests/kernel": "guest",
}
"""Folders and files whose tests run one by one in a single process, beside the other processes.
Tests in `machine` watch real servers and kernels, and mostly wait; those in `guest` share a guest
kernel."""


TRIES_AGAIN = 2
"""How often a failed test of real servers and kernels runs again. Other programs on the machine can
keep a processor for longer than the tests' bounds allow. Its shared fixtures are then made anew;
see anew.py. A real fault fails every time, and pytest lists each test that ran again."""


class Scheduling(LoadScopeScheduling):
    """Gives each group to one process, and other tests to whichever is free.

    pytest-xdist has `--dist loadgroup` for that, but with pytest 9.2 the groups that it writes into
    the names of tests are lost.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return GROUPS.get(file, GROUPS.get(file.rpartition("/")[0], nodeid))


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Scheduling:
    """Replaces the schedulers that `--dist` names."""
    return Scheduling(config, log)


def pytest_configure() -> None:
    """Makes Ctrl-C work in tests and the processes that they start, even in the background.

    A shell without job control starts background commands with SIGINT ignored, and all programs
    that these start ignore it too.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks tests that are slow by their nature, and tests that may run again."""
    folders = {Path(__file__).parent / name for name in SLOW_FOLDERS}
    grouped = {Path(__file__).parent / name for name in GROUPS}
    for item in items:
        live = grouped.intersection([item.path, *item.path.parents])
        if live or item.get_closest_marker("alone"):
            item.add_marker(pytest.mark.flaky(reruns=TRIES_AGAIN))
        if folders.intersection(item.path.parents):
            item.add_marker(pytest.mark.slow)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Makes a skip a failure if CI is set, because everything that a test needs is there then.

    Data that may not be distributed are an exception, because no clone has them. So are kernels
    whose source is in no package.
    """
    report = yield
    why = str(report.longrepr)
    excused = hasattr(report, "wasxfail") or REASON in why or NO_PACKAGE in why
    if os.environ.get("CI") and report.skipped and not excused:
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} skipped, and CI is set: {report.longrepr}"
    return report


@pytest.hookimpl(trylast=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Names a failure at once if CI is set, because a run that CI ends has no summary."""
    if os.environ.get("CI") and report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        lines = str(report.longrepr).splitlines()
        wrong = [line for line in lines if line.startswith("E  ")] or lines[-1:]
        why = " ".join(wrong)[:400]
        print(f"\n{report.when} of {report.nodeid} failed: {why}", file=sys.__stdout__, flush=True)
