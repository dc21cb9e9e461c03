"""The simulator as a backend: it drives `narrows._core.Simulation` and keeps its results."""

from __future__ import annotations

import json
import os
import platform
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

from narrows import _core
from narrows.backends.backend import Backend, BackendError, Progress, Refusal
from narrows.backends.interrupts import Held, held
from narrows.errors import MOST_TOGETHER, together

if TYPE_CHECKING:
    from narrows.backends.outside import Outside
    from narrows.results import Run
    from narrows.scenario import Scenario

__all__ = [
    "BACKEND",
    "BackendError",
    "ControlFailed",
    "Engine",
    "PartFailed",
    "Progress",
    "QueueFailed",
    "run_sim",
]

_SLICE_S = 0.05
"""Seconds of real time between checks of signals and progress: short for people, long for the
engine."""

_FIRST_SLICE = 10_000
_LARGEST_SLICE = 50_000_000

_COMPLETE = ("end", "dns-done")


class PartFailed(BackendError):  # noqa: N818 - named after what happened
    """A part from outside raised an exception or broke a rule; `__cause__` says which.

    `partial` is the run as far as it came.
    """

    partial: Run


class QueueFailed(PartFailed):
    """The part is a queue."""


class ControlFailed(PartFailed):
    """The part is a congestion control."""


_FAILED = {
    "queue": (QueueFailed, "queue-failed", "a queue"),
    "control": (ControlFailed, "control-failed", "a congestion control"),
}


def failure_of(simulation: Engine, error: Exception) -> str:
    """One line about a part from outside that has failed: its kind, place and class, and why."""
    kind, name = getattr(simulation, "failed_part", None) or ("queue", "")
    words = str(error)
    # The text of a fault begins with the name.
    if not isinstance(error, _core.QueueFault | _core.ControlFault):
        raised = traceback.format_exception_only(error)[-1].strip().replace("\n", " ")
        words = f"{name}: {raised}" if name else raised
    return f"{_FAILED[kind][2]} from outside failed: {words}"


class Engine(Protocol):
    """The parts of `_core.Simulation` that this module uses."""

    @property
    def now_s(self) -> float:
        """Simulated time, in seconds."""

    @property
    def progress(self) -> float:
        """The completed share of the run, from 0 to 1."""

    @property
    def events(self) -> int:
        """Events handled so far."""

    @property
    def stopped(self) -> str:
        """Why it has stopped; `running` if it has not."""

    def advance(self, max_events: int) -> bool:
        """Handles events; returns True once the run has stopped."""

    def interrupt(self) -> None:
        """Stops the run where it is."""

    def tables(self) -> Mapping[str, Mapping[str, Any]]:
        """Columns by table and name."""

    def capture(self, number: int) -> bytes:
        """The packets of one of the plan's captures, as pcapng."""


def run_sim(
    scenario: Scenario,
    *,
    seed: int | None = None,
    progress: Progress | None = None,
    event_limit: int | None = None,
    engine: Callable[[str], Engine] | None = None,
    backend: str = "sim",
    outside: Outside | None = None,
) -> Run:
    """Runs a scenario in the simulator.

    An interrupt (Ctrl-C) ends the run early and returns the results so far, with the status
    `partial`. Other exceptions from `progress` propagate.

    Args:
        scenario: What to run.
        seed: Replaces the scenario's own.
        progress: Called at most about twenty times a second, and once at the end.
        event_limit: Events after which the run stops; by default the scenario's own.
        engine: Makes the simulation from a plan as JSON; by default the compiled simulator.
        backend: The backend's name in the run.
        outside: Parts from outside, in the compiled simulator.

    Raises:
        PartFailed: One of these parts failed.
        BackendError: The simulator refuses the plan, the seed or the event limit. If it has
            several reasons, the error's `others` hold the rest.
    """
    chosen = scenario.seed if seed is None else seed
    with held() as interrupts:
        if outside:
            with outside.watched():
                return _run(
                    scenario,
                    chosen,
                    progress,
                    event_limit,
                    outside.engine,
                    backend,
                    interrupts,
                    outside,
                )
        return _run(scenario, chosen, progress, event_limit, engine, backend, interrupts, None)


def _run(
    scenario: Scenario,
    seed: int,
    progress: Progress | None,
    event_limit: int | None,
    engine: Callable[[str], Engine] | None,
    backend: str,
    interrupts: Held,
    outside: Outside | None,
) -> Run:
    # Import it here, because checking a scenario needs no library for tables.
    from narrows.results import Run

    started = datetime.now(UTC)
    clock = time.perf_counter()
    try:
        plan = scenario.plan(seed, event_limit=event_limit)
    except ValueError as error:
        raise BackendError(scenario.name, str(error)) from None
    captured = [capture["name"] for capture in plan["captures"]]
    text = json.dumps(plan)
    # The plan of a large network takes as much memory as the run.
    del plan
    try:
        simulation = (engine or _core.Simulation)(text)
    except ValueError as error:
        # What a plan's check does not know is the fault of a part from outside.
        refused = [] if outside else _core.check_plan(text)[:MOST_TOGETHER]
        refused = refused or [str(error)]
        raise together([BackendError(scenario.name, why) for why in refused]) from None
    del text
    failure: Exception | None = None
    try:
        failure = _drive(simulation, progress, interrupts, outside)
    except KeyboardInterrupt:
        simulation.interrupt()
    if failure is not None:
        simulation.interrupt()
    simulated = time.perf_counter() - clock
    failed, stopped = PartFailed, simulation.stopped
    if failure is not None:
        kind, _ = getattr(simulation, "failed_part", None) or ("queue", "")
        failed, stopped, _ = _FAILED[kind]
        why = failure_of(simulation, failure)
    end_s, events = simulation.now_s, simulation.events
    captures = {name: simulation.capture(number) for number, name in enumerate(captured)}
    # A name in a million rows is one Python object.
    if isinstance(simulation, _core.Simulation):
        columns: Mapping[str, Mapping[str, Any]] = simulation.tables(coded=True)
    else:
        columns = simulation.tables()
    # The state of many connections takes as much memory as the tables.
    del simulation
    run = Run.from_columns(
        columns,
        scenario=scenario.resolved(),
        seed=seed,
        backend=backend,
        status="complete" if stopped in _COMPLETE else "partial",
        stopped=stopped,
        end_s=end_s,
        events=events,
        narrows=_core.version,
        build=_core.build,
        wall={
            "started": started.isoformat(timespec="seconds"),
            "simulation_s": simulated,
            "events_per_s": events / simulated if simulated > 0 else None,
        },
        host=host_facts(),
        captures=captures,
        outside=outside.record if outside else {},
    )
    if failure is not None:
        raised = failed(scenario.name, why)
        raised.partial = run
        raise raised from failure
    return run


def host_facts() -> dict[str, Any]:
    """The machine and its versions. They change no results, so run.json keeps them apart."""
    import numpy as np
    import polars as pl

    return {
        "system": platform.system(),
        "release": platform.release(),
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "polars": pl.__version__,
        "profile": _core.profile,
    }


def _drive(
    simulation: Engine, progress: Progress | None, interrupts: Held, outside: Outside | None
) -> Exception | None:
    """Advances to the end, in slices of about `_SLICE_S`, whatever an event costs.

    The ends of slices do not affect the results. Returns the exception of a part from outside.

    Raises:
        KeyboardInterrupt: An interrupt came before the end.
    """
    events = _FIRST_SLICE
    finished = False
    while not finished:
        clock = time.perf_counter()
        if outside:
            try:
                interrupts.raising = True
                # Code from outside may not return, so an earlier interrupt would wait forever.
                if interrupts.take():
                    raise KeyboardInterrupt
                finished = simulation.advance(events)
            except Exception as error:
                return error
            finally:
                interrupts.raising = False
                outside.returned()
        else:
            finished = simulation.advance(events)
        took = time.perf_counter() - clock
        factor = min(4.0, max(0.25, _SLICE_S / took)) if took > 0 else 4.0
        events = min(_LARGEST_SLICE, max(1_000, int(events * factor)))
        if progress is not None:
            progress(1.0 if finished else min(1.0, simulation.progress))
        if not finished and interrupts.take():
            raise KeyboardInterrupt
    return None


def unknown_controls(
    scenario: Scenario, offered: frozenset[str] = frozenset()
) -> Sequence[Refusal]:
    """Congestion controls that neither the simulator nor a part from outside has."""
    from narrows.scenario.suggestions import suggestion
    from narrows.scenario.tcp import CONTROLS, own_controls

    own = "pass controls={...} or plugins=[...] to run(), or --plugin FILE"
    return [
        Refusal(
            key,
            f"no class and no plugin offers {name}",
            f"{suggestion(name, [*CONTROLS, *sorted(offered)])}; {own}",
        )
        for key, name in own_controls(scenario)
        if name not in offered
    ]


BACKEND = Backend("sim", run_sim, unknown_controls)
"""The simulator. It honours every key, and congestion controls that it has."""
