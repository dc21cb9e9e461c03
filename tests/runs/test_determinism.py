"""The same scenario, seed and version give the same bytes."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from narrows import Scenario, run
from narrows.report import write_run_report

ROOT = Path(__file__).parents[2]


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a run folder but run.json, by its path."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != "run.json")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def document(folder: Path) -> dict[str, object]:
    """run.json without what may differ: wall-clock and host facts, in objects of their own."""
    facts = json.loads((folder / "run.json").read_text())
    return {key: value for key, value in facts.items() if key not in {"wall", "host"}}


def test_two_runs_leave_the_same_bytes(scenario_file: Path, tmp_path: Path) -> None:
    scenario = Scenario.load(scenario_file)
    folders = [tmp_path / name for name in ("first", "second", "other")]
    for folder, seed in zip(folders, (3, 3, 4), strict=True):
        write_run_report(run(scenario, seed=seed, out=folder), folder, ["svg"])
    first, second, other = map(contents, folders)
    assert first == second
    assert any(name.endswith(".parquet") for name in first)
    assert any(name.endswith(".pcapng") for name in first)
    assert any(name.endswith(".svg") for name in first)
    assert "report.html" in first
    assert document(folders[0]) == document(folders[1])
    assert first["queries.parquet"] != other["queries.parquet"]


@pytest.mark.slow
def test_debug_and_release_builds_agree() -> None:
    command = ["cargo", "run", "--quiet", "--locked", "--package", "narrows-sim"]
    example = ["--example", "fingerprint"]
    debug, release = (
        subprocess.run([*command, *flags, *example], cwd=ROOT, check=True, capture_output=True)
        for flags in ([], ["--release"])
    )
    assert len(debug.stdout.splitlines()) == 3
    assert debug.stdout == release.stdout
