"""Runs everything in a folder again, and compares the tables' bytes.

Only the simulator runs, in this process and its workers. Shared objects are loaded only if the user
names them, and if they are those that the run had.
"""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from narrows import _core
from narrows.backends import run
from narrows.builds import THIS, named
from narrows.errors import NarrowsError
from narrows.foreign_text import regular_bytes
from narrows.paper.parts import (
    PLAN_FILE,
    SCENARIO_FILE,
    TABLE_FILE,
    files_of,
    table_csv,
    why_not_run,
    why_not_sweep,
)
from narrows.paper.sums import check, read_sums
from narrows.results import RUN_FILE, SWEEP_FILE, RunFolderError
from narrows.results.folder import read_document
from narrows.results.sweep import read_document as read_sweep
from narrows.scenario.model import file_keys
from narrows.scenario.reading import read, value_of
from narrows.sweeps import read_plan, sweep

Progress = Callable[[float], object]


@dataclass(frozen=True)
class Repeated:
    """What came out of a run or a sweep that ran again."""

    at: str
    """Its folder."""
    outcome: Literal["same", "differs", "not repeated"]
    words: str
    """Which tables differ, or why it was not repeated."""


def repeat(
    folder: str | Path,
    plugins: Sequence[str | Path] = (),
    progress: Progress | None = None,
    workers: int | None = None,
) -> Iterator[Repeated]:
    """Runs again what is in a folder that `narrows paper` wrote.

    Args:
        folder: The folder.
        plugins: The shared objects that runs in it had. They run with your rights.
        progress: Called with the completed share of the run that is being repeated, from 0 to 1.
        workers: Processes for sweeps; by default one for each core.

    Yields:
        What came out of each run and each sweep, in order of their names.

    Raises:
        RunFolderError: The folder is not as it was written, or a plugin cannot be read.
    """
    home = Path(folder)
    faults = check(home)
    if faults:
        raise RunFolderError(home, faults[0], "narrows paper --check DIR shows all differences")
    files = read_sums(home)
    given = _digests(plugins)
    for at in sorted({name.rpartition("/")[0] for name in files}):
        kind = at.count("/") == 1 and at.partition("/")[0]
        if kind == "runs" and f"{at}/{RUN_FILE}" in files:
            again = partial(_run, home, at, files, given, progress)
        elif kind == "sweeps" and f"{at}/{SWEEP_FILE}" in files:
            again = partial(_sweep, home, at, files, progress, workers)
        else:
            continue
        try:
            yield again()
        except NarrowsError as error:
            yield Repeated(at, "differs", str(error))


def _run(
    home: Path,
    at: str,
    files: Mapping[str, str],
    given: Mapping[str, str | Path],
    progress: Progress | None,
) -> Repeated:
    document = read_document(home / at)
    wanted = [str(each.get("sha256")) for each in _recorded(document)]
    lacking = [
        str(each.get("file")) for each in _recorded(document) if each.get("sha256") not in given
    ]
    reason = (
        why_not_run(document)
        or _other_version(document)
        or _elsewhere(home, at, files)
        or (f"it needs the plugin {lacking[0]}; hint: --plugin FILE" if lacking else "")
    )
    if reason:
        return Repeated(at, "not repeated", reason)
    with tempfile.TemporaryDirectory(prefix="narrows-paper-") as temporary:
        again = run(
            home / at / SCENARIO_FILE,
            seed=document["seed"],
            plugins=[given[digest] for digest in wanted] or None,
            out=Path(temporary) / "run",
            progress=progress,
        )
        if again.stopped == "interrupted":
            raise KeyboardInterrupt
        found = json.loads(regular_bytes(Path(temporary) / "run" / RUN_FILE))["files"]
    before = document.get("files") or {}
    differing = [name for name in {**before, **found} if before.get(name) != found.get(name)]
    if not differing:
        return Repeated(at, "same", f"{len(found)} tables")
    reasons = _other_build(document)
    if document["host"].get("polars") != again.host["polars"]:
        reasons.append(f"they were written with polars {document['host'].get('polars')}")
    return _differs(at, ", ".join(differing), reasons)


def _sweep(
    home: Path,
    at: str,
    files: Mapping[str, str],
    progress: Progress | None,
    workers: int | None,
) -> Repeated:
    document = read_sweep(home / at)
    reason = why_not_sweep(document) or _other_version(document) or _elsewhere(home, at, files)
    if reason:
        return Repeated(at, "not repeated", reason)
    plan = read_plan(home / at / PLAN_FILE)
    scenario = read(home / at / SCENARIO_FILE)
    parts = {key: scenario[key] for key in ("links", "traffic") if key in scenario}
    for name in _possible_files("", [parts, plan.vary, plan.variants]):
        if f"{at}/{name}" not in files:
            return Repeated(
                at, "not repeated", f"its plan names {name}, which is not in this folder"
            )
    found = sweep(
        home / at / SCENARIO_FILE,
        vary=plan.vary,
        variants=plan.variants,
        seeds=document["seeds"],
        workers=workers,
        progress=None if progress is None else lambda now: progress(now.share),
    )
    if found.status == "partial":
        raise KeyboardInterrupt
    if table_csv(found) == regular_bytes(home / at / TABLE_FILE):
        return Repeated(at, "same", f"{len(found.runs)} runs")
    return _differs(at, TABLE_FILE, _other_build(document))


def _possible_files(key: str, value: Any) -> Iterator[str]:
    """Every text that names a file, if the kinds of links and traffic around it can vary."""
    if isinstance(value, Mapping):
        for inner, each in value.items():
            yield from _possible_files(str(inner), each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _possible_files(key, each)
    elif isinstance(value, str):
        parsed = value_of(value)
        if not isinstance(parsed, str):
            yield from _possible_files(key, parsed)
        elif parsed and re.split(r"[.\[\]]+", key.rstrip("]"))[-1].strip("\"' ") in file_keys():
            yield parsed


def _digests(plugins: Sequence[str | Path]) -> dict[str, str | Path]:
    """The plugins by their SHA-256."""
    found: dict[str, str | Path] = {}
    for path in plugins:
        try:
            found[hashlib.sha256(regular_bytes(Path(path))).hexdigest()] = path
        except OSError as error:
            raise RunFolderError.of_system(path, error) from None
    return found


def _recorded(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The plugins that a run had, as its run.json has them."""
    found = (document.get("outside") or {}).get("plugins")
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _other_version(document: Mapping[str, Any]) -> str:
    if document["narrows"] == _core.version:
        return ""
    return f"it comes from narrows {document['narrows']}, and this is {_core.version}"


def _other_build(document: Mapping[str, Any]) -> list[str]:
    """Says that another build of this version ran it; empty if it was this one."""
    theirs = named(document["narrows"], document.get("build"))
    return [] if theirs == THIS else [f"they come from narrows {theirs}, and this is {THIS}"]


def _differs(at: str, what: str, reasons: Sequence[str]) -> Repeated:
    why = f"; {', and '.join(reasons)}, which may be why" if reasons else ""
    return Repeated(at, "differs", f"{what}{why}")


def _elsewhere(home: Path, at: str, files: Mapping[str, str]) -> str:
    """Says that the scenario names a file that is not in the folder; empty if it names none."""
    for name in files_of(read(home / at / SCENARIO_FILE)):
        if f"{at}/{name}" not in files:
            return f"its scenario names {name}, which is not in this folder"
    return ""
