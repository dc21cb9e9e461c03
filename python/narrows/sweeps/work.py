"""Does one run, in any process: it takes an item of a plan and returns a row.

A worker gets the scenario once, and then the values and seed of each run. It validates the scenario
of each combination again, and keeps it for the next seeds.
"""

from __future__ import annotations

import importlib
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from narrows.backends import BackendError, run_changed
from narrows.builds import THIS
from narrows.errors import NarrowsError, one_line
from narrows.results import Run, RunFolderError
from narrows.results.sweep_run import Axis
from narrows.scenario import Scenario
from narrows.sweeps.plan import Item, Plan, combined

if TYPE_CHECKING:
    from narrows.backends.outside import Outside

RUNS = "runs"
"""The folder for run folders, below the sweep's."""

_KEPT_SCENARIOS = 64


class Fatal(Exception):  # noqa: N818 - named after what it is
    """An error that would occur in every other run as well; its text is one line."""


def job_of(plan: Plan, keep: Path | None, measure: str | None = None) -> dict[str, Any]:
    """What a worker needs to know about a plan, as JSON values.

    Args:
        plan: The plan.
        keep: The sweep folder, if it keeps whole run folders.
        measure: `MODULE:FUNCTION` that returns more sections of metrics for a run.

    Raises:
        BackendError: A part from outside cannot be sent to other processes.
    """
    return {
        "narrows": THIS,
        "base": dict(plan.base),
        "file": plan.file,
        "backend": plan.backend,
        "axes": [axis.document() for axis in plan.axes],
        "keep": None if keep is None else str(keep.absolute()),
        "measure": measure,
        "outside": plan.outside.sent() if plan.outside else None,
    }


class Worker:
    """Does the runs of one sweep, one after the other."""

    def __init__(self, job: Mapping[str, Any]) -> None:
        if job["narrows"] != THIS:
            raise Fatal(f"has narrows {THIS}, but this sweep is of {job['narrows']}")
        self._base: Mapping[str, Any] = job["base"]
        self._file: str = job["file"]
        self._backend: str = job["backend"]
        self._axes = tuple(map(Axis.of_document, job["axes"]))
        self._keep = None if job["keep"] is None else Path(job["keep"])
        self._measure = _function(job["measure"])
        self._measure_name: str = job["measure"] or ""
        self._outside = _parts(job["outside"])
        self._scenarios: OrderedDict[tuple[int, ...], Scenario] = OrderedDict()

    def row(self, item: Item, progress: Callable[[float], object] | None = None) -> dict[str, Any]:
        """Runs an item and returns its row; the row of a failed run says why.

        Raises:
            Fatal: The sweep cannot go on, for example because the disk is full.
        """
        values = [axis.values[place] for axis, place in zip(self._axes, item.places, strict=True)]
        try:
            scenario = self._scenario(item.places)
            done, folder = self._run(scenario, item, progress)
            summary = {**done.summary, **self._metrics(done)}
        except NarrowsError as error:
            return failed_row(item, values, str(error))
        except MemoryError:
            return failed_row(item, values, "out of memory")
        except Fatal:
            raise
        except Exception as error:
            return failed_row(item, values, f"a defect: {type(error).__name__}: {error}")
        return {
            "run": item.run,
            "values": values,
            "seed": item.seed,
            "status": done.status,
            "stopped": done.stopped,
            "message": "",
            "end_s": done.end_s,
            "events": done.events,
            "summary": summary,
            "folder": folder,
        }

    def _run(
        self, scenario: Scenario, item: Item, progress: Callable[[float], object] | None
    ) -> tuple[Run, str | None]:
        if self._keep is None:
            return self._one(scenario, item, progress), None
        name = f"{RUNS}/{item.run}"
        folder = self._keep / name
        try:
            if folder.exists():
                # A worker wrote it and died before it could report that. Folders are always whole.
                return Run.load(folder), name
            try:
                return self._one(scenario, item, progress, folder), name
            except RunFolderError:
                if not folder.exists():
                    raise
                return Run.load(folder), name  # another worker was faster
        except RunFolderError as error:
            raise Fatal(str(error)) from None

    def _metrics(self, done: Run) -> Mapping[str, Any]:
        """The results of the user's function for a run."""
        try:
            return self._measure(done)
        except (NarrowsError, MemoryError):
            raise
        except Exception as error:
            what = f"{type(error).__name__}: {error}"
            raise NarrowsError(f"{self._measure_name} failed: {what}") from error

    def _one(
        self,
        scenario: Scenario,
        item: Item,
        progress: Callable[[float], object] | None,
        out: Path | None = None,
    ) -> Run:
        return run_changed(
            scenario,
            {},
            seed=item.seed,
            out=out,
            backend=self._backend,
            progress=progress,
            outside=self._outside,
        )

    def _scenario(self, places: Sequence[int]) -> Scenario:
        at = tuple(places)
        known = self._scenarios.get(at)
        if known is None:
            known = self._scenarios[at] = combined(self._base, self._axes, at, self._file)
            if len(self._scenarios) > _KEPT_SCENARIOS:
                self._scenarios.popitem(last=False)
        return known


def _parts(sent: Mapping[str, Any] | None) -> Outside | None:
    if sent is None:
        return None
    from narrows.backends.outside import Outside

    try:
        return Outside.received(sent)
    except BackendError as error:
        raise Fatal(str(error)) from None


def _function(name: str | None) -> Callable[[Run], Mapping[str, Any]]:
    if name is None:
        return lambda _: {}
    module, _, function = name.partition(":")
    found: Callable[[Run], Mapping[str, Any]] = getattr(importlib.import_module(module), function)
    return found


def failed_row(item: Item, values: Sequence[Any], message: str) -> dict[str, Any]:
    """The row of a run without results."""
    return {
        "run": item.run,
        "values": list(values),
        "seed": item.seed,
        "status": "failed",
        "stopped": "",
        "message": one_line(message),
        "end_s": None,
        "events": None,
        "summary": None,
        "folder": None,
    }
