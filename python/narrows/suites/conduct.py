"""Runs a suite: every scene with every queue and seed, and keeps the metrics of each run.

Queues of narrows run as sweeps, in processes, with a folder that continues after an interrupt.
Queues from outside run in this process, because they are objects of it.

    FOLDER/runs/                the sweep of all scenes and queues
    FOLDER/runs.parquet         a row for each run: scene, queue, seed, metrics
    FOLDER/suite.json           what `--json` prints
    FOLDER/report.html, plots/  for people
"""

from __future__ import annotations

import copy
import importlib
import itertools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from narrows import _core
from narrows.backends import run
from narrows.backends.outside import Outside
from narrows.controls import Control
from narrows.errors import NarrowsError, argument
from narrows.foreign_text import parsed, regular_bytes
from narrows.queues import Queue
from narrows.results import Run, RunFolderError
from narrows.results.folder import refuse_others
from narrows.scenario.overrides import set_all
from narrows.suites.contenders import Contender, refuse_wrong
from narrows.suites.parts import Scene, Suite
from narrows.sweeps import Progress, sweep

SUITE_FILE = "suite.json"
RUNS_FILE = "runs.parquet"
SECTION = "suite"
"""The section of a run's summary that a suite's function measures."""


@dataclass(frozen=True, repr=False)
class SuiteRun:
    """The results of a suite.

    Attributes:
        suite: What ran.
        queues: The queues, of which the first is the one that others are compared with.
        seeds: The seeds of every scene, the same for all queues.
        runs: A row for each run: `scene`, `queue`, `seed`, and the metrics.
        status: `complete`; `failed` if runs failed; `partial` after an interruption.
        failures: Runs that failed, in words.
        costs: Nanoseconds of processor time for each packet, by queue; None if not measured.
    """

    suite: Suite
    queues: Sequence[Contender]
    seeds: Sequence[int]
    runs: pl.DataFrame
    status: str
    failures: Sequence[str] = ()
    costs: Mapping[str, float] | None = None

    def values(self, scene: str, metric: str, queue: str) -> dict[int, float]:
        """A metric's value for each seed that has one."""
        if metric not in self.runs.columns:
            return {}
        rows = self.runs.filter(scene=scene, queue=queue).drop_nulls(metric)
        return dict(rows.select("seed", metric).sort("seed").iter_rows())

    @cached_property
    def names(self) -> list[str]:
        """The queues' names."""
        return [each.name for each in self.queues]

    def document(self) -> dict[str, Any]:
        """What `--json` prints, as JSON values."""
        return {
            "suite": self.suite.name,
            "narrows": _core.version,
            "status": self.status,
            "seeds": list(self.seeds),
            "queues": {each.name: each.text for each in self.queues},
            "failures": list(self.failures),
            "left_out": list(self.suite.left_out),
            "costs_ns": dict(self.costs or {}),
            "runs": self.runs.to_dicts(),
        }

    def __repr__(self) -> str:
        return (
            f"<SuiteRun {self.suite.name}: {self.status}, {len(self.queues)} queues, "
            f"{len(self.suite.scenes)} scenes, {len(self.seeds)} seeds>"
        )


def conduct(
    suite: Suite,
    queues: Sequence[Contender],
    *,
    seeds: int,
    out: Path | None = None,
    workers: int | None = None,
    plugins: Sequence[Path] = (),
    outside: bool = False,
    controls: Mapping[str, Control] | None = None,
    progress: Callable[[Progress], object] | None = None,
) -> SuiteRun:
    """Runs what is missing. Ctrl-C ends the suite early, as partial.

    Args:
        suite: What to run.
        queues: The queues, of which the first is the one that others are compared with.
        seeds: Runs of each scene with each queue: seeds 1 to this.
        out: The folder; by default, results stay in memory.
        workers: Processes; by default one per core.
        plugins: Shared objects whose queues or congestion controls scenes name.
        outside: Whether scenes name congestion controls from outside, so that all of them run in
            this process.
        controls: These congestion controls by name, if they are objects of this process.
        progress: Called now and then with the progress.

    Raises:
        SuiteError: A queue's settings are not valid.
        RunFolderError: `out` holds something else, or cannot be written.
    """
    for first in suite.scenes[:1]:
        for each in queues:
            refuse_wrong(each, first.scenario, first.places, plugins)
    if out is not None:
        _refuse_loss(out, suite, [each.name for each in queues], seeds)
    numbers = tuple(range(1, seeds + 1))
    total = len(suite.scenes) * len(queues) * len(numbers)

    def report(done: float, label: str) -> None:
        if progress is not None:
            progress(Progress(done, total, 0, label))

    ours, theirs = ([each for each in queues if each.own == own] for own in (False, True))
    parts = Outside(controls=controls or {}, plugins=plugins)
    rows: list[dict[str, Any]] = []
    failures: list[str] = []
    status = "complete"
    for ended in (
        _swept(suite, [] if outside else ours, numbers, out, workers, report),
        _outside(suite, queues if outside else theirs, numbers, parts, total, report),
    ):
        rows += ended.rows
        failures += ended.failures
        status = ended.status if status == "complete" else status
        if status == "partial":
            break
    order = {scene.key: n for n, scene in enumerate(suite.scenes)}
    rows.sort(key=lambda row: (order[row["scene"]], row["seed"]))
    keys = {"scene": pl.String, "queue": pl.String, "seed": pl.Int64}
    metrics = dict.fromkeys((name for row in rows for name in row if name not in keys), pl.Float64)
    table = pl.DataFrame(rows, schema={**keys, **metrics})
    return SuiteRun(suite, queues, numbers, table, status, failures)


def _refuse_loss(out: Path, suite: Suite, queues: Sequence[str], seeds: int) -> None:
    """Refuses a folder with other files, or with results that this suite would not have.

    Raises:
        RunFolderError: It is one, or cannot be read.
    """
    hint = f"choose another folder with {argument('out')}"
    path = out / SUITE_FILE
    try:
        refuse_others(out, marks=[SUITE_FILE], allowed=["runs"])
        if not os.path.lexists(path):
            return
        before = parsed(regular_bytes(path))
        which = before["suite"]
        earlier = [(row["scene"], row["queue"], row["seed"]) for row in before["runs"]]
    except OSError as error:
        raise RunFolderError.of_system(path, error) from None
    except (ValueError, LookupError, TypeError):
        raise RunFolderError(path, "is not that of a suite", hint) from None
    if which != suite.name:
        raise RunFolderError(out, f"holds the suite {which}", hint)
    scenes = {scene.key for scene in suite.scenes}
    for scene, queue, seed in earlier:
        if scene not in scenes or queue not in queues or seed not in range(1, seeds + 1):
            what = f"also has {scene} with {queue} and seed {seed}"
            raise RunFolderError(out, what, f"run that too (a suite may grow), or {hint}")


@dataclass(frozen=True)
class _Ended:
    rows: Sequence[dict[str, Any]] = ()
    failures: Sequence[str] = ()
    status: str = "complete"


def _swept(
    suite: Suite,
    queues: Sequence[Contender],
    seeds: Sequence[int],
    out: Path | None,
    workers: int | None,
    report: Callable[[float, str], object],
) -> _Ended:
    """The runs of all scenes with queues of narrows: one sweep, whose variants are both."""
    of = {f"s{scene.key} {each.name}": (scene, each) for scene in suite.scenes for each in queues}
    if not of:
        return _Ended()
    found = sweep(
        {"name": suite.name, "links": [], "duration": "1 s"},
        variants={name: scenario_of(scene, each) for name, (scene, each) in of.items()},
        seeds=seeds,
        out=None if out is None else out / "runs",
        workers=workers,
        measure=suite.measure,
        progress=lambda at: report(at.done, at.label),
    )
    rows = [
        {"scene": scene.key, "queue": each.name, "seed": ended.seed, **ended.summary[SECTION]}
        for ended in found.runs
        if ended.complete and (pair := of.get(ended.settings["variant"]))
        for scene, each in [pair]
    ]
    return _Ended(rows, [each.failure for each in found.failures], found.status)


def _outside(
    suite: Suite,
    queues: Sequence[Contender],
    seeds: Sequence[int],
    parts: Outside,
    total: int,
    report: Callable[[float, str], object],
) -> _Ended:
    """The runs with parts from outside, one after the other, as the last of all."""
    before = total - len(queues) * len(suite.scenes) * len(seeds)
    rows: list[dict[str, Any]] = []
    failures: list[str] = []
    try:
        for seed, scene, each in itertools.product(seeds, suite.scenes, queues):
            report(before + len(rows) + len(failures), f"{scene.key} {each.name}")
            try:
                metrics = one(suite, scene, each, seed, parts)
            except NarrowsError as error:
                failures.append(f"{scene.key} {each.name}, seed {seed}: {error}")
            else:
                rows.append({"scene": scene.key, "queue": each.name, "seed": seed, **metrics})
    except KeyboardInterrupt:
        return _Ended(rows, failures, "partial")
    return _Ended(rows, failures, "failed" if failures else "complete")


def one(
    suite: Suite, scene: Scene, each: Contender, seed: int, parts: Outside
) -> Mapping[str, Any]:
    """The metrics of one run in this process."""
    module, _, function = suite.measure.partition(":")
    measure = getattr(importlib.import_module(module), function)
    result = run_one(scene, each, seed, parts)
    if result.status != "complete":
        raise NarrowsError(f"stopped early: {result.stopped}")
    metrics: Mapping[str, Any] = measure(result)[SECTION]
    return metrics


def run_one(scene: Scene, each: Contender, seed: int, parts: Outside) -> Run:
    """One run of a scene with a queue, in this process. Other queues in `parts` do not count."""
    plugins = parts.plugins
    used = {group.get("tcp", {}).get("congestion") for group in scene.scenario["traffic"]}
    controls = {name: control for name, control in parts.controls.items() if name in used}
    if isinstance(each.queue, Queue):
        places = {place.removeprefix("links.").removesuffix(".queue") for place in scene.places}
        queues = dict.fromkeys(sorted(places), each.queue)
        return run(scene.scenario, seed=seed, queues=queues, controls=controls, plugins=plugins)
    return run(scenario_of(scene, each), seed=seed, controls=controls, plugins=plugins)


def scenario_of(scene: Scene, each: Contender) -> dict[str, Any]:
    """A scene's scenario with a queue of the language."""
    assert not isinstance(each.queue, Queue), "those are no part of a scenario"
    values = copy.deepcopy(dict(scene.scenario))
    set_all(values, {place: dict(each.queue) for place in scene.places}, scene.key)
    return values
