"""`narrows new`: each kind of crate compiles, passes its tests and runs from a scenario."""

from __future__ import annotations

import os
import subprocess
import tomllib
from pathlib import Path

import pytest

from narrows import Run, Scenario, run
from narrows.cli import main
from narrows.scenario import example

ROOT = Path(__file__).parents[2]
NAME = "of-mine"


def cargo(*words: str, folder: Path) -> None:
    done = subprocess.run(
        ["cargo", *words, "-q", "--offline", "--manifest-path", str(folder / "Cargo.toml")],
        env={**os.environ, "CARGO_TARGET_DIR": str(ROOT / "target" / "new")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.returncode, done.stderr


def found(kind: str, folder: Path, arguments: str = "") -> tuple[Run, Run]:
    """A short run of an example without the part, and one with it."""
    assert main(["new", kind, NAME, "--out", str(folder)]) == 0
    cargo("test", folder=folder)
    cargo("build", folder=folder)
    program = f"program:{ROOT / 'target' / 'new' / 'debug' / NAME}{arguments}"
    scenario = Scenario.load(example("dns-behind-fifo").path, set={"duration": '"20 s"'})
    return run(scenario), run(scenario, backend=program)


@pytest.mark.slow
def test_a_new_queue_keeps_the_backlog_short(tmp_path: Path) -> None:
    without, own = found("queue", tmp_path / "mine")
    backlogs = [each.queues["backlog_packets"].mean() for each in (without, own)]
    assert backlogs[1] < 0.5 * backlogs[0]


@pytest.mark.slow
def test_a_new_control_changes_the_downloads(tmp_path: Path) -> None:
    without, own = found("control", tmp_path / "mine")
    assert not own.flows.equals(without.flows)


@pytest.mark.slow
def test_a_new_application_has_a_table_of_its_own(tmp_path: Path) -> None:
    without, own = found("application", tmp_path / "mine", " downloads home")
    assert "keys" not in without.tables
    assert own.tables["keys"]["group"].unique().to_list() == [NAME]


def test_registry_names_versions_and_no_checkout(tmp_path: Path) -> None:
    assert main(["new", "queue", NAME, "--registry", "--out", str(tmp_path / "mine")]) == 0
    needs = tomllib.loads((tmp_path / "mine" / "Cargo.toml").read_text())["dependencies"]
    version = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    assert needs["narrows-qdisc"] == version
    assert not (tmp_path / "mine" / "Cargo.lock").exists()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["queue", "../mine"], "../mine: is no name of a crate; hint: write it like my-queue"),
        (["queue", "Mine"], "Mine: is no name of a crate; hint: write it like my-queue"),
        (["queue", "narrows-sim"], "is a crate that this one needs; hint: choose another name"),
        (["queue", "rand_pcg"], "is a crate that this one needs; hint: choose another name"),
        (["queue", "rand-pcg"], "is a crate that this one needs; hint: choose another name"),
        (["queue", "build"], "build: is a folder of Cargo's in target; hint: choose another name"),
        (["queue", "a", "--registry", "--checkout", "."], "--registry: excludes --checkout"),
        (["queue", "a", "--checkout", "."], ".: is no checkout of narrows; hint: give its folder"),
        (["queue", "used"], "used: is not empty; hint: move it, or choose another --out"),
        (["queue", "a", "--out", "file"], "file: already exists; hint: move it"),
        (["queue", "a", "--out", "file/a"], "file"),
        (["disc", "a"], "'disc' is not one of"),
    ],
)
def test_what_is_impossible_is_one_line(
    words: list[str],
    why: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "thesis.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    assert main(["new", *words]) == 2
    said = capsys.readouterr().err
    assert why in said
    assert said.count("\n") == 1
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "thesis.txt", "used"]


def test_a_checkout_whose_path_is_no_text_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkout = tmp_path / os.fsdecode(b"co\xff")
    (checkout / "crates" / "engine").mkdir(parents=True)
    (checkout / "crates" / "engine" / "Cargo.toml").touch()
    out = tmp_path / "new"
    assert main(["new", "queue", "a", "--checkout", str(checkout), "--out", str(out)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "has a path that is not UTF-8" in said
    assert not out.exists()
