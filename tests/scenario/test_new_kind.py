"""A new kind of traffic is one file and one line, for everything that is written in Python.

A copy of the package gets both, and another process goes through everything that has to know the
kind.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = Path(__file__).parent / "new_kind"


@pytest.mark.slow
def test_a_file_and_a_line_are_all_that_a_kind_takes(tmp_path: Path) -> None:
    package = tmp_path / "narrows"
    skipped = shutil.ignore_patterns("__pycache__", "reproduce", "atlas")
    shutil.copytree(ROOT / "python" / "narrows", package, ignore=skipped)
    traffic = package / "scenario" / "traffic"
    shutil.copy(FILES / "beacon.py", traffic)
    with (traffic / "kinds.py").open("a") as file:
        file.write("from narrows.scenario.traffic.beacon import Beacon as Beacon\n")
    done = subprocess.run(
        [sys.executable, FILES / "tour.py", ROOT, tmp_path],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "everything knows it\n", done.stderr
