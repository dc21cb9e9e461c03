"""A run leaves nothing behind, however it ends."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from narrows.backends.kernel.workspace import PREFIX, remove_leftovers, workspace
from narrows.private import private_folder
from tests.kernel.scenarios import DUMBBELL

PHASES = ("owner", "job.json", "group", "booted", "built", "progress")
"""Files of a run's folder, in the order in which they appear."""

KILLS = [(phase, False) for phase in PHASES] + [
    (phase, True) for phase in ("owner", "group", "booted", "progress")
]
"""When a run is killed, and whether its keeper is killed before."""


def gone(condition: Callable[[], bool], seconds: float = 20.0) -> bool:
    """Whether a condition stops being true within a time."""
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


def state(base: Path) -> tuple[set[str], set[str], list[str], list[str]]:
    """Namespaces, mounts, processes and files that a run may leave."""
    namespaces = Path("/run/netns")
    return (
        {each.name for each in namespaces.glob(f"{PREFIX}*")},
        {line for line in Path("/proc/self/mounts").read_text().splitlines() if PREFIX in line},
        of_folder(base),
        sorted(str(each) for each in base.rglob("*")),
    )


def environment(base: Path) -> dict[str, str]:
    """Makes a run keep its folders, and its notes about them, below a folder."""
    return {**os.environ, "TMPDIR": str(base), "XDG_RUNTIME_DIR": str(base)}


def only_here(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same for this process."""
    monkeypatch.setattr("tempfile.tempdir", str(base))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(base))


def runs(base: Path) -> set[Path]:
    """The folders of runs."""
    return set(base.glob("narrows-kernel-*"))


def kill(base: Path, command: list[str], phase: str, *, with_keeper: bool) -> None:
    """Starts a run and kills it when it has come to a phase."""
    before = runs(base)
    process = subprocess.Popen(
        command,
        env=environment(base),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:

        def reached() -> bool:
            return any((each / phase).exists() for each in runs(base) - before)

        deadline = time.monotonic() + 120.0
        while not reached() and time.monotonic() < deadline:
            assert process.poll() is None, "the run ended by itself"
            time.sleep(0.002)
        assert reached()
        if with_keeper:
            for child in psutil.Process(process.pid).children():
                with contextlib.suppress(psutil.NoSuchProcess):
                    if "narrows-keeper" in child.cmdline():
                        child.kill()
    finally:
        process.kill()
        process.wait()


def members(group: int) -> list[int]:
    """Processes of a group, without zombies."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, ProcessLookupError):
            if os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
    return found


@pytest.mark.slow
def test_ten_killed_runs_leave_nothing(guest: str, tmp_path: Path) -> None:
    base = tmp_path / "t"
    base.mkdir(mode=0o700)
    scenario = tmp_path / "small.toml"
    scenario.write_text(DUMBBELL.replace('end = "dns"\n', "").replace('"30 s"', '"600 s"'))
    command = [sys.executable, "-m", "narrows", "run", str(scenario), "--backend", guest]
    command += ["--out", str(tmp_path / "out"), "--no-report"]
    before = state(base)
    for phase, with_keeper in KILLS:
        kill(base, command, phase, with_keeper=with_keeper)
    # The next start.
    short = scenario.read_text().replace('"600 s"', '"2 s"').replace('start = "4 s"', "")
    scenario.write_text(short)
    assert subprocess.run(command, env=environment(base)).returncode == 0
    notes = base / "narrows"
    assert not list((notes / "runs").iterdir())
    shutil.rmtree(notes)
    assert gone(lambda: state(base) != before), state(base)


@pytest.mark.slow
def test_an_interrupt_keeps_what_there_is(guest: str, tmp_path: Path) -> None:
    from narrows import Run

    base = tmp_path / "t"
    base.mkdir()
    scenario = tmp_path / "small.toml"
    scenario.write_text(DUMBBELL.replace('end = "dns"\n', "").replace('"30 s"', '"600 s"'))
    out = tmp_path / "out"
    command = [sys.executable, "-m", "narrows", "run", str(scenario), "--backend", guest]
    process = subprocess.Popen(
        [*command, "--out", str(out), "--no-report"],
        env=environment(base),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 90.0
    while time.monotonic() < deadline:
        progress = [each / "progress" for each in runs(base)]
        if any(each.exists() and each.read_text() not in ("", "0", "1", "2") for each in progress):
            break
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    assert process.wait(60.0) == 130
    result = Run.load(out)
    assert result.status == "partial" and result.stopped == "interrupted"
    assert result.flows.get_column("bytes_received").sum() > 0
    assert not runs(base)


def test_the_next_run_removes_what_a_killed_keeper_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    only_here(tmp_path, monkeypatch)
    text = """
import os, pathlib, psutil, sys, tempfile
tempfile.tempdir = sys.argv[1]
from narrows.backends.kernel.workspace import workspace
with workspace() as place, (place.folder / "log").open("wb") as log:
    (keeper,) = psutil.Process().children()
    also = pathlib.Path(sys.argv[1]) / "also"
    also.mkdir()
    place.owns_folder(also)
    # The first of the group ends, the second stays, as a guest's helpers may.
    started = place.start(["sh", "-c", "sleep 600 &"], output=log, path=os.environ["PATH"])
    started.wait()
    keeper.kill()
    keeper.wait()
    psutil.Process().kill()
"""
    done = subprocess.run([sys.executable, "-c", text, str(tmp_path)])
    assert done.returncode == -signal.SIGKILL
    (folder,) = runs(tmp_path)
    group = int((folder / "group").read_text())
    assert members(group)
    remove_leftovers()
    assert not members(group)
    assert not folder.exists() and not (tmp_path / "also").exists()


def test_a_group_of_the_same_number_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    only_here(tmp_path, monkeypatch)
    left = left_run(tmp_path)
    (left / "owner").write_text("1 0")
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as other:
        (left / "group").write_text(str(other.pid))
        remove_leftovers()
        assert not left.exists()
        assert other.poll() is None
        other.kill()


def left_run(base: Path) -> Path:
    """A folder whose run is gone, and its note."""
    left = base / "narrows-kernel-left"
    left.mkdir()
    found = left.stat()
    note = private_folder("runs") / "left"
    note.write_text(f"{found.st_dev} {found.st_ino}\n{left}")
    return left


def precious(base: Path) -> Path:
    """A folder that narrows did not make."""
    folder = base / "precious"
    folder.mkdir()
    (folder / "owner").write_text("1 0")
    (folder / "also").write_text("0 0\n/nowhere")
    return folder


def test_what_has_come_in_the_place_of_a_runs_folder_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    only_here(tmp_path, monkeypatch)
    left, kept = left_run(tmp_path), precious(tmp_path)
    left.rename(tmp_path / "elsewhere")
    left.symlink_to(kept)
    remove_leftovers()
    assert kept.exists() and not list(private_folder("runs").iterdir())
    left.unlink()
    left = left_run(tmp_path)
    (left / "owner").write_text("1 0")
    (left / "also").write_text(f"1 1\n{kept}")
    remove_leftovers()
    assert kept.exists() and not left.exists()


def test_a_run_killed_before_its_folder_was_noted_leaves_an_empty_folder_at_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    only_here(tmp_path, monkeypatch)
    note = private_folder("runs") / "early"
    folder = tmp_path / "narrows-kernel-early"
    folder.mkdir()
    note.write_text(f"\n{folder}")
    remove_leftovers()
    assert folder.exists() and note.exists(), "it may still be being made"
    os.utime(note, (0.0, 0.0))
    remove_leftovers()
    assert not folder.exists() and not note.exists()


def test_the_keeper_ends_what_notices_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A guest may see its folder vanish and end by itself; a process that is stopped does not."""
    only_here(tmp_path, monkeypatch)
    with workspace() as place, (tmp_path / "log").open("wb") as log:
        sleeper = place.start(["sleep", "600"], output=log, path=os.environ["PATH"])
        assert gone(lambda: not (place.folder / "group").exists())
        sleeper.send_signal(signal.SIGSTOP)
        waiting = threading.Thread(target=sleeper.wait)
        waiting.start()
    waiting.join()
    assert sleeper.returncode == -signal.SIGKILL


def test_a_tmpdir_that_is_not_there_is_not_passed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python takes another folder then; a guest would not start."""
    monkeypatch.setenv("TMPDIR", str(tmp_path / "nowhere"))
    monkeypatch.setattr("tempfile.tempdir", None)
    with workspace() as place, (tmp_path / "log").open("wb") as log:
        started = place.start(["sh", "-c", 'echo "$TMPDIR"'], output=log, path=os.environ["PATH"])
        assert started.wait(20.0) == 0
    assert Path((tmp_path / "log").read_text().strip()).is_dir()


def test_what_is_started_while_all_is_removed_does_not_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file `owner` is removed first."""
    only_here(tmp_path, monkeypatch)
    begun = tmp_path / "begun"
    with workspace() as place, (tmp_path / "log").open("wb") as log:
        (place.folder / "owner").unlink()
        started = place.start(["touch", str(begun)], output=log, path=os.environ["PATH"])
        assert started.wait(20.0) == 1
    assert not begun.exists()


def test_a_run_that_goes_on_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only_here(tmp_path, monkeypatch)
    with workspace() as place:
        remove_leftovers()
        assert place.folder.exists()
    assert not place.folder.exists()


def test_a_folder_without_room_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from narrows.backends import BackendError

    nowhere = tmp_path / "nowhere"
    monkeypatch.setattr("tempfile.tempdir", str(nowhere))
    with pytest.raises(BackendError, match="hint: set TMPDIR"), workspace():
        pass
