"""`sweep`: makes the plan, distributes the missing runs, and keeps the results."""

from __future__ import annotations

import contextlib
import copy
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

from narrows.backends import DEFAULT, parts_from_outside
from narrows.backends.interrupts import held
from narrows.backends.own_values import OwnValues
from narrows.errors import NarrowsError, argument
from narrows.progress import shown
from narrows.results.sweep import Status, Sweep
from narrows.results.sweep_run import Axis, canonical
from narrows.scenario import Scenario
from narrows.scenario.overrides import set_all
from narrows.scenario.reading import read
from narrows.sweeps.axes import axes_of, seeds_of
from narrows.sweeps.errors import SweepError
from narrows.sweeps.local import Event, LocalWorkers
from narrows.sweeps.plan import Item, Plan, make_plan
from narrows.sweeps.preview import preview, refuse_wrong_metrics
from narrows.sweeps.store import Store
from narrows.sweeps.variants import variant_axis
from narrows.sweeps.wanted import Wanted
from narrows.sweeps.work import job_of

if TYPE_CHECKING:
    from narrows.controls import Control
    from narrows.queues import Queue


@dataclass(frozen=True)
class Progress:
    """How far a sweep has got."""

    done: float
    """Finished runs, plus the completed shares of those under way."""
    total: int
    before: int
    """Runs that the folder already had when the sweep started, which take no time now."""
    label: str
    """The current work, in a few words."""
    so_far: Callable[[], Sweep] | None = None
    """Makes the sweep of the finished runs; None while combinations are checked."""

    @property
    def share(self) -> float:
        """The completed share of the remaining work, so that the estimated time is right."""
        left = self.total - self.before
        return (self.done - self.before) / left if left else 1.0

    @property
    def words(self) -> str:
        """The number of runs and the current work, in words."""
        return ", ".join(filter(None, (f"{int(self.done)} of {self.total} runs", self.label)))


class Executor(Protocol):
    """Does the runs: processes, or a cluster."""

    def __enter__(self) -> Self:
        """Starts the processes, or connects to the cluster."""

    def __exit__(self, *error: object) -> None:
        """Ends its remaining work."""

    def run(self, job: Mapping[str, Any], items: Iterator[Item]) -> Iterator[Event]:
        """Runs all items; yields an event for each that ends, and sometimes one without a row."""


def sweep(
    scenario: str | Path | Scenario | Mapping[str, Any],
    *,
    vary: Mapping[str, Iterable[Any]] | None = None,
    variants: Mapping[str, Mapping[str, Any]] | None = None,
    seeds: int | Iterable[int] = 1,
    set: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    backend: str = DEFAULT,
    workers: int | None = None,
    dask: str | None = None,
    keep_runs: bool = False,
    csv: bool = False,
    only: Callable[[tuple[int, ...]], bool] | None = None,
    measure: str | None = None,
    metrics: Sequence[str] = (),
    progress: Callable[[Progress], object] | bool | None = None,
    queues: Mapping[str, Queue] | None = None,
    controls: Mapping[str, Control] | None = None,
    plugins: Sequence[str | Path] | None = None,
) -> Sweep:
    """Runs a scenario with every combination of values and every seed.

    A failed run has a row with the reason; the other runs are kept. Ctrl-C ends the sweep early; it
    then returns the runs so far, with the status `partial`. Called again with the same folder, the
    sweep runs what is missing, failed runs included. It may then have more values and seeds than
    before.

    Args:
        scenario: A scenario file, a scenario, or values of TOML's types.
        vary: Values by dotted key: `{"queue.limit": [100, 500]}`. As in `Scenario.load`, text that
            is valid TOML is parsed, and other text is used as it is. A value may be a whole table,
            or a queue of your own: `{"queue": [MyAqm(0.005), {"kind": "codel"}]}`.
        variants: Several keys that change together, by the name of the variant:
            `{"fifo": {}, "red": {"queue.kind": "red", "traffic.tcp.ecn": True}}`. One that
            gives a table's `kind` gives the whole table.
        seeds: The number of seeds (1, 2, ...), or the seeds themselves.
        set: Values for all runs, by dotted key.
        out: The sweep's folder; by default, results stay in memory.
        backend: What does the runs, one of `narrows.backends.BACKENDS`.
        workers: Number of processes; by default one per core.
        dask: Address of a Dask scheduler, whose workers replace the processes.
        keep_runs: Whether to keep whole run folders, below `out`.
        csv: Whether to write the table as CSV too.
        only: Says whether to run a combination, from the index of each value on its axis; by
            default all run.
        measure: `MODULE:FUNCTION` that returns further sections of metrics for a run, by name; the
            row's summary has them beside the run's own.
        metrics: Required metrics, by path or its end. If short runs show that one of them does not
            exist, the sweep does not start. If only its first runs show it, the sweep ends then.
        progress: Called from time to time with the sweep's progress; True shows it on a terminal or
            in a notebook, and writes a line every ten seconds elsewhere.
        queues: Your own queues, as for `narrows.run`. Their classes travel to the workers, also
            from a notebook if cloudpickle is installed. A folder whose runs had another source or
            other arguments is refused.
        controls: Your own congestion controls, likewise. A combination need not use them.
        plugins: Shared objects, as for `narrows.run`; workers load them from the same paths.

    Raises:
        ScenarioError: A key or value, or a combination of values, is not possible.
        BackendError: There is no such backend, it cannot honour a key of a combination, or a part
            from outside cannot travel.
        QueueError: One of `queues` is no queue.
        ControlError: One of `controls` is no congestion control.
        SweepError: The sweep is too large; the cluster cannot be reached or has another version.
        NarrowsError: A required metric does not exist.
        RunFolderError: `out` holds something else or cannot be written.

    Examples:
        >>> from narrows import sweep
        >>> link = {"name": "wan", "between": ["a", "b"], "rate": "2 Mbit/s"}
        >>> bulk = {"kind": "bulk", "name": "f", "sender": "a", "receiver": "b"}
        >>> scenario = {"name": "s", "duration": "1 s", "links": [link], "traffic": [bulk]}
        >>> found = sweep(scenario, vary={"links.wan.rate": ["2 Mbit/s", "4 Mbit/s"]}, workers=1)
        >>> found.table["links.wan.rate", "flows.flows"].rows()
        [('2 Mbit/s', 1.0), ('4 Mbit/s', 1.0)]
    """
    given: dict[str, Any] = {**locals()}
    _refuse_contradictions(workers, dask, out, keep_runs=keep_runs)
    own = OwnValues(queues)
    axes = all_axes(own.varied(vary), own.variants(variants or {}))
    numbers = seeds_of(seeds)
    values = own.plain(scenario, "scenario")
    base, file, written = base_values(values, own.plain(set or {}, "set"))
    folder = None if out is None else Path(out)
    if progress is True:
        with shown(str(base.get("name", "sweep")), quiet=False) as update:
            changed = {"seeds": numbers, "progress": lambda at: update(at.share, at.words)}
            return sweep(**{**given, **changed})
    outside = parts_from_outside(queues, controls, plugins, own)
    tell = progress or (lambda _: None)

    def checked(done: int, total: int) -> None:
        tell(Progress(0.0, total * len(numbers), 0, f"checked {done} of {total} combinations"))

    plan = make_plan(
        base,
        file,
        axes,
        numbers,
        backend=backend,
        written=written,
        only=only,
        progress=checked,
        outside=outside,
    )
    if metrics and measure is None:
        refuse_wrong_metrics(plan, metrics)
    with held() as interrupts, Store(plan, folder) as store:
        job = job_of(plan, folder if keep_runs else None, measure)
        wanted = Wanted(metrics, axes, plan.base)
        try:
            with contextlib.ExitStack() as stack:
                interrupted = _run_missing(
                    plan,
                    store,
                    wanted,
                    lambda items: stack.enter_context(_executor(workers, dask)).run(job, items),
                    tell,
                    interrupts.take,
                )
        except NarrowsError:
            # The results so far should stay readable if the disk allows it.
            with contextlib.suppress(NarrowsError):
                store.finish("partial", csv=csv)
            raise
        return store.finish(_status(plan, store, interrupted), csv=csv)


def sweep_preview(
    scenario: str | Path | Scenario | Mapping[str, Any],
    *,
    vary: Mapping[str, Iterable[Any]] | None = None,
    variants: Mapping[str, Mapping[str, Any]] | None = None,
    set: Mapping[str, Any] | None = None,
    backend: str = DEFAULT,
    plugins: Sequence[str | Path] | None = None,
) -> Sweep:
    """Makes short runs of the same combinations to learn the metrics' names; keeps nothing.

    Raises:
        ScenarioError: A key or value, or a combination of values, is not possible.
        BackendError: There is no such backend, or it cannot honour a key of a combination.
        SweepError: The sweep is too large.
    """
    axes = all_axes(vary or {}, variants or {})
    base, file, written = base_values(scenario, set or {})
    outside = parts_from_outside(plugins=plugins)
    return preview(
        make_plan(base, file, axes, (1,), backend=backend, written=written, outside=outside)
    )


def all_axes(
    vary: Mapping[str, Iterable[Any]], variants: Mapping[str, Mapping[str, Any]]
) -> tuple[Axis, ...]:
    """The axis of variants, then those of keys, which may change keys that a variant leaves alone.

    Raises:
        SweepError: A key has no values, or one twice; a variant is invalid.
    """
    return (*((variant_axis(variants),) if variants else ()), *axes_of(vary))


def base_values(
    scenario: str | Path | Scenario | Mapping[str, Any], set: Mapping[str, Any]
) -> tuple[dict[str, Any], str, dict[str, str]]:
    """A scenario's values with the settings for all runs, its name in errors, and the set keys.

    The keys are in the user's spelling, by their paths.

    Raises:
        ScenarioError: The file cannot be read, or a key leads nowhere.
        SweepError: The seed is set.
    """
    if isinstance(scenario, Scenario):
        values, file = scenario.written(), scenario.name
    elif isinstance(scenario, Mapping):
        values, file = copy.deepcopy(dict(scenario)), "<dict>"
    else:
        values, file = read(scenario), str(scenario)
    if "seed" in set:
        raise SweepError("seed", "is not set like other keys", f"use {argument('seeds')}")
    return values, file, set_all(values, set, file)


def default_folder(
    scenario: str | Path,
    *,
    vary: Mapping[str, Iterable[Any]] | None = None,
    variants: Mapping[str, Mapping[str, Any]] | None = None,
    set: Mapping[str, Any] | None = None,
    backend: str = DEFAULT,
    plugins: Sequence[str | Path] | None = None,
) -> Path:
    """The default folder of a sweep, which is the same for the same backend and values.

    The same command therefore resumes a sweep, and a command with more seeds adds them.

    Raises:
        ScenarioError: The file cannot be read, or a key leads nowhere.
        SweepError: A key has no values, or one twice; a variant is invalid.
    """
    axes = all_axes(vary or {}, variants or {})
    base, _, _ = base_values(scenario, set or {})
    varied = [[axis.key, list(axis.values), *filter(None, [axis.sets])] for axis in axes]
    # A plugin that was built again stays in its folder, which then refuses it.
    named = [[Path(path).name for path in plugins]] if plugins else []
    text = canonical([backend, base, varied, *named])
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    name = base.get("name")
    return Path("runs") / f"{name if isinstance(name, str) else 'sweep'}-sweep-{digest}"


def _refuse_contradictions(
    workers: int | None, dask: str | None, out: str | Path | None, *, keep_runs: bool
) -> None:
    if workers is not None and workers < 1:
        raise SweepError(argument("workers"), "must be at least 1")
    if dask is not None and workers is not None:
        raise SweepError(
            argument("workers"), "a Dask cluster has its own", f"leave it or {argument('dask')} out"
        )
    if keep_runs and out is None:
        raise SweepError(argument("keep_runs"), "needs a folder", f"give {argument('out')} as well")


def _run_missing(
    plan: Plan,
    store: Store,
    wanted: Wanted,
    run: Callable[[Iterator[Item]], Iterator[Event]],
    tell: Callable[[Progress], object],
    interrupted: Callable[[], bool],
) -> bool:
    """Runs what the store lacks, and stores it; returns whether it was interrupted."""
    for row in store.rows:
        wanted.add(row)
    done = store.done
    missing = [item for item in plan.items() if item.run not in done]
    if not missing:
        return False
    total = len(plan.digests) * len(plan.seeds)
    ended = before = total - len(missing)
    so_far = partial(store.sweep, "running")
    for event in run(iter(missing)):
        if event.row is not None:
            store.add(event.row)
            ended += 1
            wanted.add(event.row)
        tell(Progress(ended + event.running, total, before, event.label, so_far))
        if interrupted():
            return True
    return False


def _executor(workers: int | None, dask: str | None) -> Executor:
    if dask is not None:
        from narrows.sweeps.cluster import DaskCluster

        return DaskCluster(dask)
    return LocalWorkers(workers or os.cpu_count() or 1)


def _status(plan: Plan, store: Store, interrupted: bool) -> Status:
    complete = {row["run"] for row in store.rows if row["status"] == "complete"}
    if plan.runs <= complete:
        return "complete"
    return "partial" if interrupted else "failed"
