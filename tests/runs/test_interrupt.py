"""Ctrl-C in the middle of a run, on a terminal."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from narrows import Run, Scenario, run
from narrows.results import folder


def read_until(terminal: int, pattern: bytes) -> bytes:
    """What a program writes on its terminal, up to a match."""
    seen = b""
    while not re.search(pattern, seen):
        seen += os.read(terminal, 4096)
    return seen


def lasting(scenario_file: Path) -> Path:
    """The scenario, made so long that no machine ends it before an interrupt."""
    text = scenario_file.read_text().replace('duration = "20 s"', 'duration = "20 h"')
    scenario_file.write_text(
        text.replace('capture = ["bottleneck.forward", "bottleneck.backward"]', "")
    )
    return scenario_file


def test_ctrl_c_leaves_a_partial_run_that_can_be_read(scenario_file: Path, tmp_path: Path) -> None:
    lasting(scenario_file)
    saved = tmp_path / "run"
    command = [sys.executable, "-m", "narrows", "run", str(scenario_file), "--out", str(saved)]
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
    # The bar is on stderr; stdout has the metrics of what was run.
    assert b"queries per second" in printed
    assert b"%\x1b" not in printed
    partial = Run.load(saved)
    assert partial.document()["status"] == "partial"
    assert partial.document()["stopped"] == "interrupted"
    assert partial.queries.height > 0


def test_an_early_ctrl_c_shows_no_traceback(scenario_file: Path) -> None:
    for wait_s in (0.15, 0.3, 0.6):
        command = [sys.executable, "-m", "narrows", "run", str(lasting(scenario_file))]
        process = subprocess.Popen(
            command, cwd=scenario_file.parent, stderr=subprocess.PIPE, stdout=subprocess.PIPE
        )
        try:
            time.sleep(wait_s)
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=60)
        finally:
            process.kill()
        assert process.returncode == 130, errors
        assert b"Traceback" not in errors
        assert b"interrupted" in errors


def test_an_interrupt_after_the_end_waits_for_the_folder(
    scenario_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = folder.write

    def interrupted(*arguments: Any) -> None:
        signal.raise_signal(signal.SIGINT)
        write(*arguments)

    monkeypatch.setattr(folder, "write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(Scenario.load(scenario_file), out=tmp_path / "run")
    assert Run.load(tmp_path / "run").complete
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_termination_saves_what_there_is(scenario_file: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "narrows", "run", str(lasting(scenario_file)), "--no-report"]
    # A busy machine may take long to begin the run; before that, there is nothing to save.
    for wait_s in (3, 12, 48):
        process = subprocess.Popen(
            [*command, "--out", str(tmp_path / "run")], stderr=subprocess.PIPE, text=True
        )
        try:
            time.sleep(wait_s)
            process.terminate()
            _, errors = process.communicate(timeout=60)
        finally:
            process.kill()
        assert process.returncode == 130, errors
        if (tmp_path / "run").exists():
            break
    assert Run.load(tmp_path / "run").status == "partial"
