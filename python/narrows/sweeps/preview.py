"""Finds the metrics that a sweep will have, before it starts, by short runs that are not kept.

A metric's path contains names of the scenario's groups and links, and kinds of traffic add their
own metrics. A short run in the simulator has nearly all of them. Metrics of events that have not
happened by its end may be missing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from narrows.backends.sim import run_sim
from narrows.errors import NarrowsError
from narrows.results.sweep import Sweep
from narrows.results.sweep_run import SweepRun
from narrows.sweeps.plan import Plan, combined
from narrows.sweeps.wanted import Wanted, with_metrics

EVENTS = 1_000_000
"""The most events of a short run, which take a fraction of a second."""

MOST_RUNS = 16


def preview(plan: Plan) -> Sweep:
    """A sweep of short runs, one for each variant, table and text; its numbers mean nothing."""
    runs = tuple(_runs(plan))
    return Sweep(
        name=plan.name,
        scenario=plan.base,
        axes=plan.axes,
        seeds=plan.seeds[:1],
        runs=runs,
        narrows="",
        status="complete",
        combinations=len(runs),
    )


def refuse_wrong_metrics(plan: Plan, names: Sequence[str]) -> None:
    """Checks before a sweep starts that the required metrics will exist.

    Raises:
        NarrowsError: Some do not exist; the message names all of them.
    """
    wanted = Wanted(names, plan.axes, plan.base)
    for run in _runs(plan):
        wanted.add(
            {"status": "complete", "values": list(run.settings.values()), "summary": run.summary}
        )
        if wanted.are_found:
            return


def _runs(plan: Plan) -> Iterator[SweepRun]:
    seen: set[tuple[str, str]] = set()
    number = 0
    for places, digest in plan.digests.items():
        brings = with_metrics(plan.axes, places)
        if (number and brings <= seen) or number == MOST_RUNS:
            continue
        number += 1
        seen |= brings
        # A run that fails here fails in the sweep too, and has a row there.
        with contextlib.suppress(NarrowsError):
            scenario = combined(plan.base, plan.axes, places, plan.file)
            limit = min(EVENTS, scenario.event_limit)
            run = run_sim(scenario, seed=plan.seeds[0], event_limit=limit, outside=plan.outside)
            if run.stopped == "interrupted":
                raise KeyboardInterrupt
            axes = zip(plan.axes, places, strict=True)
            yield SweepRun(
                run=digest,
                settings={axis.key: axis.values[place] for axis, place in axes},
                seed=plan.seeds[0],
                status="complete",
                stopped=run.stopped,
                message="",
                end_s=run.end_s,
                events=run.events,
                summary=run.summary,
            )
