"""Nothing of a run stays, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from narrows.backends.kernel.workspace import Workspace, remove_leftovers, workspace
from tests.kernel.scenarios import DUMBBELL

PHASES = {
    "when the guest is started": lambda folder: (folder / "group").exists(),
    "while traffic runs": lambda folder: (folder / "progress").exists(),
}


def gone(condition: Callable[[], bool], seconds: float = 20.0) -> bool:
    """Whether a condition ends to hold within a time."""
    deadline = time.monotonic() + seconds
    while condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return not condition()


def of_folder(base: Path) -> list[str]:
    """Processes whose command line names a folder."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        words = " ".join(process.info["cmdline"] or ())
        if str(base) in words:
            found.append(words)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("phase", PHASES)
def test_a_killed_run_leaves_nothing(guest: str, tmp_path: Path, phase: str) -> None:
    base = tmp_path / "t"
    base.mkdir()
    scenario = tmp_path / "small.toml"
    scenario.write_text(DUMBBELL.replace('end = "dns"\n', ""))
    command = [sys.executable, "-m", "narrows.cli", "run", str(scenario), "--backend", guest]
    process = subprocess.Popen(
        [*command, "--out", str(tmp_path / "out"), "--no-report"],
        env={**os.environ, "TMPDIR": str(base)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        places = base / f"narrows-kernel-{os.getuid()}"

        def reached() -> bool:
            return places.exists() and any(PHASES[phase](each) for each in places.iterdir())

        deadline = time.monotonic() + 90.0
        while not reached() and time.monotonic() < deadline:
            assert process.poll() is None
            time.sleep(0.01)
        assert reached()
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert gone(lambda: bool(list(places.iterdir())))
    assert gone(lambda: bool(of_folder(base)))
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_an_interrupt_keeps_what_there_is(guest: str, tmp_path: Path) -> None:
    from narrows import Run

    base = tmp_path / "t"
    base.mkdir()
    scenario = tmp_path / "small.toml"
    scenario.write_text(DUMBBELL.replace('end = "dns"\n', "").replace('"30 s"', '"600 s"'))
    out = tmp_path / "out"
    command = [sys.executable, "-m", "narrows.cli", "run", str(scenario), "--backend", guest]
    process = subprocess.Popen(
        [*command, "--out", str(out), "--no-report"],
        env={**os.environ, "TMPDIR": str(base)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    places = base / f"narrows-kernel-{os.getuid()}"
    deadline = time.monotonic() + 90.0
    while time.monotonic() < deadline:
        told = [each / "progress" for each in places.iterdir()] if places.exists() else []
        if any(each.exists() and each.read_text() not in ("", "0", "1", "2") for each in told):
            break
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    assert process.wait(60.0) == 130
    result = Run.load(out)
    assert result.status == "partial" and result.stopped == "interrupted"
    assert result.flows.get_column("bytes_received").sum() > 0
    assert not list(places.iterdir())


def test_the_next_run_removes_what_a_killed_keeper_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    base = tmp_path / f"narrows-kernel-{os.getuid()}"
    base.mkdir(mode=0o700)
    left = base / "left"
    left.mkdir()
    # A process that has the folder's name, as the guest has; its owner is no more.
    sleeper = subprocess.Popen(["sh", "-c", "sleep 60; :", str(left)], start_new_session=True)
    # A process that has just been started has no command line for a moment.
    assert gone(lambda: not of_folder(left))
    Workspace(left).owns_group(sleeper.pid)
    (left / "owner").write_text("1 0")
    remove_leftovers()
    assert sleeper.wait(5.0) == -signal.SIGKILL
    assert not left.exists()


def test_the_keeper_ends_what_notices_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A guest may see its folder vanish and end by itself; a process that is stopped does not."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with workspace() as place:
        sleeper = subprocess.Popen(["sleep", "60"], start_new_session=True)
        sleeper.send_signal(signal.SIGSTOP)
        place.owns_group(sleeper.pid)
    assert sleeper.wait(5.0) == -signal.SIGKILL


def test_a_run_that_goes_on_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with workspace() as place:
        remove_leftovers()
        assert place.folder.exists()
    assert not place.folder.exists()


def test_a_folder_without_room_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from narrows.backends import BackendError

    nowhere = tmp_path / "nowhere"
    monkeypatch.setattr("tempfile.tempdir", str(nowhere))
    with pytest.raises(BackendError, match="hint: let TMPDIR"), workspace():
        pass
