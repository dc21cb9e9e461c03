"""Ctrl-C in the middle of a run."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

from narrows import Run


def test_ctrl_c_leaves_a_partial_run_that_can_be_read(scenario_file: Path, tmp_path: Path) -> None:
    text = scenario_file.read_text().replace('duration = "20 s"', 'duration = "20 h"')
    scenario_file.write_text(
        text.replace('capture = ["bottleneck.forward", "bottleneck.backward"]', "")
    )
    folder = tmp_path / "run"
    command = [sys.executable, "-m", "narrows.cli", "run", str(scenario_file), "--out", str(folder)]
    process = subprocess.Popen([*command, "--no-report"], stderr=subprocess.PIPE, text=True)
    try:
        time.sleep(3)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    partial = Run.load(folder)
    assert partial.document()["status"] == "partial"
    assert partial.document()["stopped"] == "interrupted"
    assert partial.queries.height > 0
