"""Ctrl-C in the middle of a run, on a terminal."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path

from narrows import Run


def read_until(terminal: int, pattern: bytes) -> bytes:
    """What a program writes on its terminal, up to a match."""
    seen = b""
    while not re.search(pattern, seen):
        seen += os.read(terminal, 4096)
    return seen


def test_ctrl_c_leaves_a_partial_run_that_can_be_read(scenario_file: Path, tmp_path: Path) -> None:
    text = scenario_file.read_text().replace('duration = "20 s"', 'duration = "20 h"')
    scenario_file.write_text(
        text.replace('capture = ["bottleneck.forward", "bottleneck.backward"]', "")
    )
    folder = tmp_path / "run"
    command = [sys.executable, "-m", "narrows.cli", "run", str(scenario_file), "--out", str(folder)]
    terminal, end = pty.openpty()
    process = subprocess.Popen(
        [*command, "--no-report"],
        stdout=subprocess.PIPE,
        stderr=end,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
    )
    os.close(end)
    try:
        # The bar says how far the run is, and how long it will take from here.
        shown = read_until(terminal, rb"[1-9]\d?%.*\d:\d\d:\d\d")
        process.send_signal(signal.SIGINT)
        printed, _ = process.communicate(timeout=60)
        said = shown + read_until(terminal, rb"the run is partial: interrupted")
    finally:
        process.kill()
        os.close(terminal)
    assert process.returncode == 130, said
    assert b"Traceback" not in said
    # The bar is on stderr; stdout has the figures of what was run.
    assert b"queries per second" in printed
    assert b"%\x1b" not in printed
    partial = Run.load(folder)
    assert partial.document()["status"] == "partial"
    assert partial.document()["stopped"] == "interrupted"
    assert partial.queries.height > 0
