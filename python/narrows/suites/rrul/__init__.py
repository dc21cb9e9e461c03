"""Flent's tests for any queue, with data files that Flent draws."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from narrows.backends.outside import Outside
from narrows.flent import write_flent
from narrows.queues import Queue
from narrows.report.files import file_name
from narrows.scenario.suggestions import suggestion
from narrows.suites.conduct import SuiteRun, conduct, run_one
from narrows.suites.contenders import SuiteError, contenders
from narrows.suites.rrul.parts import suite
from narrows.suites.rrul.scenes import TESTS, Line
from narrows.sweeps import Progress

__all__ = ["QUICK", "Line", "keep", "rrul"]

SEEDS = 5
QUICK_SEEDS = 3
QUICK = "20 s"
"""How long the load lasts with `quick`."""


def rrul(
    queues: Sequence[str] | Mapping[str, str | Mapping[str, Any] | Queue],
    *,
    tests: Sequence[str] = (),
    line: Line | None = None,
    out: str | Path | None = None,
    seeds: int | None = None,
    quick: bool = False,
    plugins: Sequence[str | Path] = (),
    workers: int | None = None,
    progress: Callable[[Progress], object] | None = None,
) -> SuiteRun:
    """Runs Flent's tests, or those that are missing in `out`. Ctrl-C ends them, as partial.

    Args:
        queues: As in `rfc7928`.
        tests: Names of tests; all by default.
        line: The line's rates and round trip, and the length of the tests.
        out: The folder of the runs; by default they stay in memory.
        seeds: Runs of each test with each queue; `SEEDS` or `QUICK_SEEDS` by default.
        quick: Fewer seeds, and tests of 20 s unless `line` is given.
        plugins: Shared objects whose queues `queues` names.
        workers: Processes; by default one per core.
        progress: Called now and then with the progress.

    Raises:
        SuiteError: A queue or a test does not exist, or settings are not valid.
        RunFolderError: `out` holds something else, or cannot be written.
    """
    for test in tests:
        if test not in TESTS:
            hint = suggestion(test, list(TESTS)) or f"one of {', '.join(TESTS)}"
            raise SuiteError(f"test {test}", "does not exist", hint)
    chosen = list(dict.fromkeys(tests)) or list(TESTS)
    return conduct(
        suite(chosen, line or (Line(length=QUICK) if quick else Line())),
        contenders(queues),
        seeds=seeds or (QUICK_SEEDS if quick else SEEDS),
        out=None if out is None else Path(out),
        workers=workers,
        plugins=[Path(path) for path in plugins],
        progress=progress,
    )


def keep(run: SuiteRun, folder: Path, plugins: Sequence[str | Path] = ()) -> list[Path]:
    """Runs the first seed of each test and queue again; keeps its run folder and Flent's file.

    Both have the name `TEST-QUEUE`, the file with `.flent.gz`. What is there already stays.

    Raises:
        RunFolderError: They cannot be written.
    """
    written = []
    paths = [Path(path) for path in plugins]
    seed = run.seeds[0]
    folder.mkdir(parents=True, exist_ok=True)
    for scene in run.suite.scenes:
        there = set(run.runs.filter(scene=scene.key, seed=seed)["queue"].to_list())
        for each in (each for each in run.queues if each.name in there):
            path = folder / file_name(f"{scene.key}-{each.name}")
            data = path.with_name(f"{path.name}.flent.gz")
            if path.exists() and data.exists():
                continue
            again = run_one(scene, each, seed, Outside(plugins=paths))
            if not path.exists():
                again = again.save(path)
            if not data.exists():
                written.append(write_flent(again, data, title=each.name))
    return written
