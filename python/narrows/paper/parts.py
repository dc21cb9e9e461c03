"""What the folder holds of a run or a sweep, and how a reader repeats it."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from narrows import _core
from narrows.errors import NarrowsError, ScenarioError
from narrows.foreign_text import regular_bytes
from narrows.paper.sums import AGAIN
from narrows.report.files import file_name
from narrows.results import RUN_FILE, SWEEP_FILE, Run, RunFolderError, Sweep, summary_table
from narrows.results.folder import is_as_written
from narrows.results.metrics import metrics
from narrows.results.sweep_means import metrics_of, points
from narrows.results.sweep_run import canonical, plain_value
from narrows.results.sweep_text import likely_metrics, sweep_text
from narrows.scenario import Scenario
from narrows.scenario.listings import MOST_BYTES
from narrows.scenario.model import with_files
from narrows.scenario.reading import read
from narrows.scenario.toml_text import toml_text

SCENARIO_FILE = "scenario.toml"
GIVEN_FILE = "given.toml"
PLAN_FILE = "plan.toml"
TABLE_FILE = "table.csv"


@dataclass(frozen=True)
class Part:
    """A run or a sweep in the folder."""

    at: str
    """Its folder, such as `runs/fifo-1`."""
    result: Run | Sweep
    files: Mapping[str, bytes]
    """Below its folder."""
    command: str
    """What repeats it, from the folder."""
    why_not: str
    """Why `narrows paper --check --repeat` cannot repeat it; empty if it can."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """For paper.json."""

    @property
    def again(self) -> str:
        """Where the command writes its results."""
        return f"{AGAIN}/{self.at.partition('/')[2]}"


@dataclass(frozen=True)
class Given:
    """A scenario's file that the user names, as it was given to `narrows run` or `sweep`."""

    path: Path

    def is_of(self, result: Run | Sweep) -> bool:
        """Whether this file was run there."""
        try:
            if isinstance(result, Sweep):
                return canonical(read(self.path)) == canonical(dict(result.scenario))
            resolved = Scenario.load(self.path, set=result.set).resolved()
        except ScenarioError:
            return False
        return _seedless(resolved) == _seedless(result.scenario)


def part_of_run(run: Run, name: str, given: Given | None) -> Part:
    """What the folder holds of a run.

    Raises:
        RunFolderError: A file cannot be read.
    """
    at = f"runs/{name}"
    scenario, lists = _with_lists(run.scenario, given)
    document = run.document()
    files = {
        RUN_FILE: own_bytes(run, RUN_FILE),
        SCENARIO_FILE: _toml(run, scenario),
        **({GIVEN_FILE: regular_bytes(given.path)} if given else {}),
        **lists,
        "summary.tex": f"{summary_table(run).latex()}\n".encode(),
        "summary.csv": _summary_csv(run),
    }
    plugins = run.outside.get("plugins") or []
    words = ["narrows", "run", f"{at}/{SCENARIO_FILE}", "--seed", str(run.seed)]
    words += [] if run.backend == "sim" else ["--backend", run.backend]
    words += [word for plugin in plugins for word in ("--plugin", str(plugin["file"]))]
    words += ["--no-report", "--out", f"{AGAIN}/{name}"]
    facts = {
        "folder": at,
        "scenario": run.name,
        "seed": run.seed,
        "set": dict(run.set),
        "backend": run.backend,
        "narrows": run.narrows,
        "build": run.build,
        "host": dict(run.host),
        "digest": run.digest,
        "as_written": run.folder is not None and is_as_written(run.folder),
        "plan_sha256": _plan_digest(run),
        "plugins": plugins,
    }
    reason = why_not_run(document) or _outside_files(scenario)
    return Part(at, run, files, shlex.join(words), reason, facts)


def part_of_sweep(sweep: Sweep, name: str, given: Given | None) -> Part:
    """What the folder holds of a sweep.

    Raises:
        RunFolderError: A file cannot be read.
    """
    at = f"sweeps/{name}"
    scenario, lists = _with_lists(sweep.scenario, given)
    variants = [axis for axis in sweep.axes if axis.sets is not None]
    plan = {
        "seeds": list(sweep.seeds),
        "vary": {axis.key: list(axis.values) for axis in sweep.axes if axis.sets is None},
        "variants": {name: sets for axis in variants for name, sets in (axis.sets or {}).items()},
    }
    document = json.loads(own_bytes(sweep, SWEEP_FILE))
    files = {
        SWEEP_FILE: own_bytes(sweep, SWEEP_FILE),
        SCENARIO_FILE: _toml(sweep, scenario),
        **({GIVEN_FILE: regular_bytes(given.path)} if given else {}),
        **lists,
        PLAN_FILE: _toml(sweep, {key: value for key, value in plan.items() if value}),
        TABLE_FILE: table_csv(sweep),
        "means.tex": f"{sweep_text(sweep).latex()}\n".encode(),
        "means.csv": _means_csv(sweep),
    }
    words = ["narrows", "sweep", f"{at}/{SCENARIO_FILE}", "--plan", f"{at}/{PLAN_FILE}"]
    words += [] if sweep.backend == "sim" else ["--backend", sweep.backend]
    words += ["--csv", "--out", f"{AGAIN}/{name}"]
    facts = {
        "folder": at,
        "scenario": sweep.name,
        "seeds": list(sweep.seeds),
        "vary": sweep.keys,
        "backend": sweep.backend,
        "narrows": sweep.narrows,
        "build": sweep.build,
        "table_sha256": hashlib.sha256(files[TABLE_FILE]).hexdigest(),
    }
    reason = why_not_sweep(document) or _outside_files(scenario)
    return Part(at, sweep, files, shlex.join(words), reason, facts)


def why_not_run(document: Mapping[str, Any]) -> str:
    """Why a run cannot be repeated by its scenario alone, from its run.json; empty if it can."""
    outside = document.get("outside") or {}
    if document["backend"] != "sim":
        return f"it ran on {document['backend']}, and only the simulator gives the same tables"
    if document["status"] != "complete":
        return f"it is partial ({document['stopped']})"
    if outside.get("queues") or outside.get("controls"):
        return "it has parts in Python; their classes and sources are in run.json (outside)"
    return ""


def why_not_sweep(document: Mapping[str, Any]) -> str:
    """Why a sweep cannot be repeated by its scenario and plan alone; empty if it can."""
    if document.get("backend", "sim") != "sim":
        return f"it ran on {document['backend']}, and only the simulator gives the same tables"
    if document["status"] != "complete":
        return f"its status is {document['status']}"
    if document.get("combinations") is not None:
        return "it has only some combinations of its values"
    if document.get("outside"):
        return "it has parts from outside, which sweep.json names"
    return ""


def table_csv(sweep: Sweep) -> bytes:
    """All runs of a sweep as CSV, without their digests, which depend on where files lie."""
    return sweep.table.drop("run").write_csv().encode()


def own_bytes(result: Run | Sweep, name: str) -> bytes:
    """The bytes of a file in a result's folder.

    Raises:
        RunFolderError: It cannot be read, or is a link.
    """
    assert result.folder is not None, "it was loaded from a folder"
    path = result.folder / name
    try:
        with os.fdopen(os.open(path, _READ), "rb") as file:
            return file.read()
    except OSError as error:
        raise RunFolderError.of_system(path, error) from None


_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def _with_lists(
    scenario: Mapping[str, Any], given: Given | None
) -> tuple[dict[str, Any], dict[str, bytes]]:
    """A scenario that names copies of its files, and the copies.

    A run's folder may come from a stranger, and name any file of this machine. So only those are
    copied that a scenario names which the user gave.
    """
    if given is None:
        return dict(scenario), {}
    copies: dict[str, bytes] = {}
    names: dict[str, str] = {}

    def copied(name: str) -> str:
        if name not in names:
            path = given.path.absolute().parent / name
            names[name] = f"files/{len(names) + 1}-{file_name(path.name)}"
            try:
                copies[names[name]] = regular_bytes(path, MOST_BYTES)
            except OSError as error:
                raise RunFolderError.of_system(path, error) from None
        return names[name]

    return with_files(scenario, copied), copies


def _outside_files(scenario: Mapping[str, Any]) -> str:
    """Says that a scenario names files that are not in the folder; empty if it names none."""
    names = [name for name in files_of(scenario) if not name.startswith("files/")]
    return f"its scenario names {names[0]}, which is not in this folder" if names else ""


def files_of(scenario: Mapping[str, Any]) -> list[str]:
    """The files that a scenario names."""
    found: list[str] = []

    def kept(name: str) -> str:
        found.append(name)
        return name

    with_files(scenario, kept)
    return found


def _plan_digest(run: Run) -> str | None:
    """The SHA-256 of the plan that this version makes of a run's scenario; None of another version.

    The plan is all that the simulator gets.
    """
    if run.narrows != _core.version:
        return None
    try:
        plan = Scenario.from_dict(run.scenario).plan(run.seed)
    except (NarrowsError, ValueError):
        return None
    text = json.dumps(plan, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _summary_csv(run: Run) -> bytes:
    rows = [
        (m.key, f"{m.section}: {m.name}", m.unit, m.value)
        for m in metrics(run.summary, each_group=True, details=True)
    ]
    return _csv(("metric", "name", "unit", "value"), rows)


def _means_csv(sweep: Sweep) -> bytes:
    known = metrics_of(sweep)
    rows = [
        (
            *map(plain_value, point.settings.values()),
            *(key, metric.unit, point.runs, point.mean, point.low, point.high),
        )
        for key in likely_metrics(sweep)
        for metric in [known[key]]
        for point in points(sweep, metric)
    ]
    head = (*sweep.keys, "metric", "unit", "runs", "mean", "ci_low", "ci_high")
    return _csv(head, rows)


def _csv(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> bytes:
    buffer = io.StringIO()
    writer: Any = csv.writer(buffer, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(rows)
    return buffer.getvalue().encode()


def _seedless(scenario: Mapping[str, Any]) -> str:
    return json.dumps(
        {key: value for key, value in scenario.items() if key != "seed"}, sort_keys=True
    )


def _toml(result: Run | Sweep, values: Mapping[str, Any]) -> bytes:
    try:
        return toml_text(values).encode()
    except ValueError as error:
        assert result.folder is not None, "it was loaded from a folder"
        raise RunFolderError(result.folder, f"is damaged (its scenario: {error})") from None


def names_of(folders: Sequence[Path]) -> list[str]:
    """A name of its own for each folder, from the folder's name."""
    found: list[str] = []
    for folder in folders:
        name = file_name(folder.absolute().name)
        number = 1
        while (name if number == 1 else f"{name}-{number}") in found:
            number += 1
        found.append(name if number == 1 else f"{name}-{number}")
    return found
