"""The backends, which run scenarios, and `run`, which chooses one.

A backend takes a scenario and returns a `narrows.results.Run`. It refuses a key that it cannot
honour, and names that key. It never runs something else without saying so.

To add a backend, write a module with a `Backend`, and add a line to `BACKENDS`.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Never

from narrows.backends.backend import Backend, BackendError, Progress, Refusal
from narrows.backends.interrupts import held
from narrows.progress import shown

if TYPE_CHECKING:
    from narrows.backends.outside import Outside
    from narrows.backends.own_values import OwnValues
    from narrows.controls import Control
    from narrows.queues import Queue
    from narrows.results import Run
    from narrows.scenario import Scenario

__all__ = [
    "BACKENDS",
    "DEFAULT",
    "Backend",
    "BackendError",
    "Progress",
    "Refusal",
    "get",
    "parts_from_outside",
    "run",
    "run_changed",
]

BACKENDS: Mapping[str, str] = {
    "sim": "narrows.backends.sim",
    "kernel": "narrows.backends.kernel.backend",
    "kernel-host": "narrows.backends.kernel.backend:HOST",
    "kernel-virtual": "narrows.backends.kernel.backend:VIRTUAL",
    "kernel-real": "narrows.backends.kernel.backend:REAL",
    "kernel-2010": "narrows.backends.kernel.backend:OF_2010",
    "kernel-7": "narrows.backends.kernel.backend:LINUX_7",
}
"""For each backend, its module and its name in that module (`BACKEND` by default). A module is
imported when it is first needed."""

DEFAULT = "sim"
"""The default backend."""


def get(name: str) -> Backend:
    """The backend of that name.

    Raises:
        BackendError: There is none.
    """
    if ":" in name:
        from narrows.results.foreign import PROGRAM

        if name.startswith(PROGRAM):
            from narrows.backends.program import backend

            return backend(name)
    if name not in BACKENDS:
        known = ", ".join(sorted(BACKENDS))
        raise BackendError(
            "backend", f"{name!r} is not known", f"one of {known}, or program:COMMAND"
        )
    module, _, label = BACKENDS[name].partition(":")
    found = getattr(import_module(module), label or "BACKEND")
    assert isinstance(found, Backend), "a backend's module has one"
    return found


def parts_from_outside(
    queues: Mapping[str, Queue] | None = None,
    controls: Mapping[str, Control] | None = None,
    plugins: Sequence[str | Path] | None = None,
    values: OwnValues | None = None,
) -> Outside | None:
    """The parts from outside that these arguments of `run` name; None if there are none.

    `values` are queues that are values of the scenario's keys.

    Raises:
        QueueError: Something is no queue.
        ControlError: Something is no congestion control, or has the name of one of narrows'.
    """
    named = values.queues if values else {}
    if not (queues or controls or plugins or named):
        return None
    from narrows.backends.outside import Outside

    found = Outside.of(queues, controls, plugins)
    return replace(found, queues={**found.queues, **named}, valued=frozenset(named))


def chosen_for(name: str, outside: Outside | None) -> Backend:
    """The backend of that name, for scenarios with these parts from outside.

    Raises:
        BackendError: There is none, or it runs no such parts.
    """
    chosen = get(name)
    if not outside:
        return chosen
    if name != DEFAULT:
        raise BackendError(
            "backend",
            f"queues and congestion controls from outside run in the simulator, not on {name}",
            "leave it out",
        )
    from narrows.backends.sim import unknown_controls

    offered = outside.offered
    return replace(chosen, refusals=lambda scenario: unknown_controls(scenario, offered))


def run(
    scenario: str | Path | Scenario | Mapping[str, Any],
    *,
    set: Mapping[str, Any] | None = None,
    seed: int | None = None,
    out: str | Path | None = None,
    backend: str = DEFAULT,
    progress: Progress | bool | None = None,
    event_limit: int | None = None,
    queues: Mapping[str, Queue] | None = None,
    controls: Mapping[str, Control] | None = None,
    plugins: Sequence[str | Path] | None = None,
    **unknown: Never,
) -> Run:
    """Runs a scenario.

    Ctrl-C ends the run early: it returns the results so far and saves them to ``out``, with the
    status `partial`. A second Ctrl-C, or one after the end of the simulation, raises
    KeyboardInterrupt once the run is saved.

    Args:
        scenario: A scenario file, a scenario, or its values as TOML has them.
        set: Keys to change, as `Scenario.with_` takes them: `{"queue.limit": 100}`. A queue of your
            own may be a value here and in the scenario: `{"queue": MyAqm(0.005)}`.
        seed: The seed to use instead of the scenario's.
        out: Folder to save the run to; it must be new or empty. By default nothing is saved.
        backend: One of `BACKENDS`, or `program:` and the command that starts a simulator with
            your own components (docs/extending.md).
        progress: Called now and then with the completed share of the run, from 0 to 1. True shows
            progress on a terminal or in a notebook; elsewhere, it writes a line every ten seconds.
        event_limit: Events after which the run stops; by default the scenario's limit.
        queues: Your own queues (`narrows.queues.Queue`), by link and direction:
            `{"bottleneck.forward": MyAqm(0.005)}`, or by the name of a queue with `kind = "plugin"`
            in the scenario. They run in the simulator only.
        controls: Your own congestion controls, by the name that `tcp.congestion` has:
            `{"mine": MyControl()}` (`narrows.controls.Control`).
        plugins: Shared objects whose queues (`kind = "plugin"`) and congestion controls the
            scenario names. They are code that runs with your rights.
        **unknown: Refused: there are no other arguments; `seeds` belongs to `sweep`.

    Raises:
        TypeError: An argument is unknown.
        QueueError: One of `queues` is no queue.
        ControlError: One of `controls` is no congestion control.
        PartFailed: One of your parts raised an exception, which is the cause, or broke a rule.
            `partial` is the run as far as it came; it is saved, too.
        ScenarioError: The file cannot be read, or the scenario is invalid.
        BackendError: There is no such backend, it cannot honour a key of the scenario, or it cannot
            do the run.
        RunFolderError: ``out`` holds something or cannot be written. This is checked before the run
            if possible.
    """
    from narrows.scenario import Scenario
    from narrows.scenario.suggestions import suggestion

    own: OwnValues | None = None
    if set or isinstance(scenario, Mapping):
        from narrows.backends.own_values import OwnValues

        own = OwnValues(queues)
        set, scenario = own.plain(set, "set"), own.plain(scenario, "scenario")
    outside = parts_from_outside(queues, controls, plugins, own)
    for name in unknown:
        hint = suggestion(name, [*inspect.signature(run).parameters][:-1])
        if name == "seeds":
            hint = "seed=3 for one run, or narrows.sweep(..., seeds=3) for several"
        raise TypeError(f"run() has no argument {name}; hint: {hint}")
    loaded = Scenario.of(scenario, set)
    if outside:
        outside.refuse_unused(loaded)
    return run_changed(
        loaded,
        set or {},
        seed=seed,
        out=out,
        backend=backend,
        progress=progress,
        event_limit=event_limit,
        outside=outside,
    )


def run_changed(
    scenario: Scenario,
    changed: Mapping[str, Any],
    *,
    seed: int | None = None,
    out: str | Path | None = None,
    backend: str = DEFAULT,
    progress: Progress | bool | None = None,
    event_limit: int | None = None,
    outside: Outside | None = None,
) -> Run:
    """Runs a scenario whose keys have already been changed; the run records them as `changed`.

    The other arguments and the exceptions are those of `run`.
    """
    from narrows.backends.sim import PartFailed, run_sim
    from narrows.results.folder import check_target
    from narrows.scenario.overrides import plain

    chosen = chosen_for(backend, outside)
    chosen.check(scenario)
    if out is not None:
        check_target(Path(out))
    with shown(scenario.name, quiet=progress is not True) as update, held():
        callback = update if progress is True else progress or None
        failed: PartFailed | None = None
        try:
            if outside:
                result = run_sim(
                    scenario, seed=seed, progress=callback, event_limit=event_limit, outside=outside
                )
            else:
                result = chosen.run(scenario, seed=seed, progress=callback, event_limit=event_limit)
        except PartFailed as error:
            failed, result = error, error.partial
        if changed:
            result = replace(result, set={key: plain(value) for key, value in changed.items()})
        saved = result if out is None else result.save(out)
        if failed is not None:
            failed.partial = saved
            raise failed
        return saved
