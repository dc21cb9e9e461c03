"""Nothing follows a link while it writes; a later program removes what a kill left unfinished."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from narrows import run
from narrows.results.folder import check_target
from narrows.unfinished import is_unfinished, make_unfinished, remove_unfinished, write_whole

DEAD = 2**22 + 1
"""A process that does not exist: Linux numbers them below this."""

KILLED = """
import os, signal, sys
from narrows import run, unfinished
real, left = unfinished.os.fsync, [int(sys.argv[2])]
def stop(file):
    real(file)
    left[0] -= 1
    if not left[0]:
        os.kill(os.getpid(), signal.SIGKILL)
unfinished.os.fsync = stop
run(sys.argv[3]).save(sys.argv[1] + "/first")
"""

SCENARIO = """
name = "a"
duration = "0.1 s"
links = [{ name = "a", between = ["x", "y"], rate = "1 Mbit/s" }]
monitor = { capture = ["a"] }
traffic = [{ kind = "udp", name = "u", sender = "x", receiver = "y", rate = "80 kbit/s" }]
"""


def unfinished(folder: Path) -> list[str]:
    return [each.name for each in folder.iterdir() if is_unfinished(each.name)]


@pytest.mark.parametrize("files", [1, 4])
def test_the_next_run_removes_what_a_kill_left(files: int, tmp_path: Path) -> None:
    scenario = tmp_path / "a.toml"
    scenario.write_text(SCENARIO)
    command = [sys.executable, "-c", KILLED, str(tmp_path), str(files), str(scenario)]
    assert subprocess.run(command).returncode == -signal.SIGKILL
    assert len(unfinished(tmp_path)) == 1
    run(scenario).save(tmp_path / "second")
    assert not unfinished(tmp_path)
    assert {each.name for each in tmp_path.iterdir()} == {"a.toml", "second"}


def left(folder: Path, process: int = DEAD, host: str = "") -> Path:
    """A folder that a run left unfinished."""
    made = folder / f".a.{process}-0{host}.unfinished"
    (made / "captures").mkdir(parents=True)
    for name in ("flows.parquet", "run.json", "captures/a.pcapng"):
        (made / name).write_text("")
    return made


def test_what_a_run_left_is_removed(tmp_path: Path) -> None:
    left(tmp_path)
    (tmp_path / f".a.{DEAD}-1.unfinished").mkdir()
    check_target(tmp_path / "b")
    assert not list(tmp_path.iterdir())


def test_what_lives_or_is_not_of_narrows_stays(tmp_path: Path) -> None:
    left(tmp_path, os.getpid())
    left(tmp_path, host="-00000000")
    victim = tmp_path / "victim"
    victim.mkdir()
    (tmp_path / f".b.{DEAD}-0.unfinished").symlink_to(victim)
    for number, name in enumerate(("thesis.txt", ".git", "captures/thesis.txt", "notes.json"), 1):
        other = left(tmp_path / "others", DEAD + number)
        (other / name).write_text("precious")
    linked = left(tmp_path / "others", DEAD + 9)
    (linked / "links.parquet").symlink_to(victim)
    before = sorted(tmp_path.rglob("*"))
    remove_unfinished(tmp_path)
    remove_unfinished(tmp_path / "others")
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="SKIP: only root can give folders away")
def test_what_another_user_left_stays(tmp_path: Path) -> None:
    made = left(tmp_path)
    os.chown(made, 12345, 12345)
    remove_unfinished(tmp_path)
    assert made.exists()


def test_a_link_with_a_temporary_or_final_name_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "page.html").symlink_to(victim)
    made = make_unfinished(tmp_path / "page.html")
    made.rmdir()
    made.symlink_to(victim)
    write_whole(tmp_path / "page.html", b"page")
    assert victim.read_text() == "precious"
    assert not (tmp_path / "page.html").is_symlink()
    assert (tmp_path / "page.html").read_bytes() == b"page"
    assert unfinished(tmp_path) == [made.name], "somebody else's"


def test_a_folder_replaced_by_a_link_is_not_written_into(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its parent may belong to another user, who may rename everything there."""
    victim = tmp_path / "victim"
    victim.mkdir()
    scenario = tmp_path / "a.toml"
    scenario.write_text(SCENARIO)
    result = run(scenario)

    def replaced(folder: Path) -> Path:
        made = make_unfinished(folder)
        made.rename(tmp_path / "moved")
        made.symlink_to(victim)
        return made

    monkeypatch.setattr("narrows.results.folder.check_target", lambda _: None)
    monkeypatch.setattr("narrows.results.folder.make_unfinished", replaced)
    with pytest.raises(Exception, match=r"symbolic links|not a directory"):
        result.save(tmp_path / "b")
    assert not list(victim.iterdir())
