"""A test that runs again gets new observations."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow

CONFTEST = """
import pytest

made, ended = [], []

@pytest.fixture(scope="session")
def observed(tmp_path_factory):
    made.append(len(made) + 1)
    yield made[-1]
    ended.append(made[-1])

def pytest_unconfigure():
    print("ended", ended)

@pytest.fixture(scope="session")
def shared(observed):
    return observed
"""

TESTS = """
import pytest
from conftest import ended, made

@pytest.fixture(scope="module")
def here(shared):
    return shared

def test_before(here):
    assert here == 1

@pytest.mark.flaky(reruns=2)
def test_again(here):
    assert here == 3

def test_after(here):
    assert here == 3
    assert made == [1, 2, 3]
    assert ended == [1, 2]

@pytest.mark.flaky(reruns=2)
def test_a_fault_fails_every_time(here):
    assert here == 0
"""


def run(folder: Path, *more: str) -> str:
    """What pytest prints about the tests above."""
    tests = folder / "tests"
    tests.mkdir()
    (tests / "conftest.py").write_text(CONFTEST)
    (tests / "test_shared.py").write_text(TESTS)
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *more, str(folder)]
    done = subprocess.run(
        [*words, f"--rootdir={folder}", "-c", "/dev/null"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr


def test_shared_observations_are_made_anew(tmp_path: Path) -> None:
    shown = run(tmp_path, "-p", "tests.anew")
    assert "1 failed, 3 passed, 4 rerun" in shown, shown
    assert "ended [1, 2, 3, 4, 5]" in shown, shown
    assert "error" not in shown.lower().replace("assertionerror", ""), shown


def test_without_the_plugin_they_are_not(tmp_path: Path) -> None:
    """If this fails, pytest-rerunfailures does it by itself, and tests/anew.py can go."""
    shown = run(tmp_path)
    assert "3 failed, 1 passed, 4 rerun" in shown, shown
