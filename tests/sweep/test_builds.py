"""A sweep does not mix the runs of two builds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from narrows import Sweep, _core, sweep
from narrows.builds import THIS
from narrows.results import RunFolderError
from narrows.results.sweep import ROWS_FILE, SWEEP_FILE
from narrows.sweeps import axes_of
from narrows.sweeps.plan import make_plan
from narrows.sweeps.work import Fatal, Worker, job_of

VARY: dict[str, Any] = {"traffic.connections": [1, 2]}
OTHER = f"{_core.version} (0123456789ab)"


@pytest.mark.parametrize(
    ("changed", "theirs"),
    [
        ({"build": "0123456789ab"}, OTHER),
        # Sweeps of early versions have no build.
        ({"build": ""}, _core.version),
        ({"narrows": "0.0.1"}, f"0.0.1 ({_core.build})"),
    ],
)
def test_a_sweep_of_another_build_is_not_continued(
    small: dict[str, Any], tmp_path: Path, changed: dict[str, str], theirs: str
) -> None:
    out = tmp_path / "sweep"
    sweep(small, vary=VARY, workers=1, out=out)
    document = json.loads((out / SWEEP_FILE).read_text())
    assert document["build"] == Sweep.load(out).build == _core.build
    (out / SWEEP_FILE).write_text(json.dumps({**document, **changed}))
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    with pytest.raises(RunFolderError) as caught:
        sweep(small, vary=VARY, seeds=2, workers=1, out=out)
    assert str(caught.value) == (
        f"{out}: holds a sweep of narrows {theirs}, but this is {THIS}; "
        "hint: choose another folder with `out`, or go on with the earlier narrows"
    )
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    assert len(Sweep.load(out).runs) == 2, "it can be read"


@pytest.mark.parametrize("build", [None, 1, ["0123456789ab"], {}])
def test_a_build_that_is_no_text_is_damage(
    small: dict[str, Any], tmp_path: Path, build: object
) -> None:
    sweep(small, workers=1, out=tmp_path)
    document = json.loads((tmp_path / SWEEP_FILE).read_text())
    (tmp_path / SWEEP_FILE).write_text(json.dumps({**document, "build": build}))
    with pytest.raises(RunFolderError, match="build is missing or of a wrong type"):
        Sweep.load(tmp_path)


def test_rows_do_not_name_the_build(small: dict[str, Any], tmp_path: Path) -> None:
    """Two builds with the same results write the same table."""
    sweep(small, vary=VARY, workers=1, out=tmp_path)
    assert _core.build not in (tmp_path / ROWS_FILE).read_text()


@pytest.mark.parametrize("theirs", [OTHER, _core.version, "", None])
def test_a_worker_of_another_build_does_nothing(small: dict[str, Any], theirs: object) -> None:
    job = job_of(make_plan(small, "", axes_of(VARY), [1]), None)
    Worker(job)
    with pytest.raises(Fatal) as caught:
        Worker({**job, "narrows": theirs})
    assert str(caught.value) == f"has narrows {THIS}, but this sweep is of {theirs}"
