"""RFC 7928, "Characterization Guidelines for Active Queue Management", by its sections."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from narrows.backends.outside import Outside
from narrows.queues import Queue
from narrows.report.picture import Picture
from narrows.suites.conduct import SuiteRun, conduct, run_one
from narrows.suites.contenders import SuiteError, contenders
from narrows.suites.cost import costs
from narrows.suites.parts import Part
from narrows.suites.plots import over_time, trade_off
from narrows.suites.rfc7928.parts import PARTS, suite
from narrows.suites.rfc7928.scenes import cost_scene
from narrows.sweeps import Progress

__all__ = ["COST", "QUICK_SEEDS", "SEEDS", "pictures", "rfc7928"]

SEEDS = 5
QUICK_SEEDS = 3
QUICK = 1 / 3
"""The length of runs with `quick`, as a share of the usual one."""
COST = "11"


def rfc7928(
    queues: Sequence[str] | Mapping[str, str | Mapping[str, Any] | Queue],
    *,
    out: str | Path | None = None,
    seeds: int | None = None,
    quick: bool = False,
    sections: Sequence[str] = (),
    ecn: bool = False,
    plugins: Sequence[str | Path] = (),
    workers: int | None = None,
    progress: Callable[[Progress], object] | None = None,
    scale: float | None = None,
) -> SuiteRun:
    """Runs RFC 7928's tests, or those that are missing in `out`. Ctrl-C ends it, as partial.

    Args:
        queues: The queues, of which the first is the one that others are compared with: texts such
            as `codel` or `codel:target=1 ms`, or texts, tables and queues of your own by name.
        out: The folder of its sweeps; by default they stay in memory. `output.write` adds the page.
        seeds: Runs of each scene with each queue; `SEEDS` or `QUICK_SEEDS` by default.
        quick: Fewer seeds, and runs of a third of the length.
        sections: Numbers of sections, such as `5.1` or `8`; all by default.
        ecn: Whether all TCP senders negotiate ECN.
        plugins: Shared objects whose queues `queues` names.
        workers: Processes; by default one per core.
        progress: Called now and then with the progress.
        scale: The length of runs, as a share of the usual one.

    Raises:
        SuiteError: A queue or a section does not exist, or settings are not valid.
        RunFolderError: `out` holds something else, or cannot be written.

    Examples:
        >>> from narrows.suites import rfc7928
        >>> short = dict(seeds=2, sections=["8.2.2"], workers=1, scale=0.2)
        >>> run = rfc7928(["pfifo", "codel"], **short)
        >>> waits = {name: run.values("8.2.2", "delay_mean", name)[1] for name in run.names}
        >>> waits["pfifo"] > 5 * waits["codel"]
        True
    """
    length = scale if scale is not None else QUICK if quick else 1.0
    wanted = tuple(each.strip().rstrip(".") for each in sections)
    known = [*(part.number for part in PARTS), COST]
    for each in wanted:
        if not any(f"{number}.".startswith(f"{each}.") for number in known):
            raise SuiteError(f"section {each}", "is not run", f"one of {', '.join(known)}")
    which = contenders(queues)
    paths = [Path(path) for path in plugins]
    folder = None if out is None else Path(out)
    found = conduct(
        suite(length, wanted, ecn=ecn),
        which,
        seeds=seeds or (QUICK_SEEDS if quick else SEEDS),
        out=folder,
        workers=workers,
        plugins=paths,
        progress=progress,
    )
    if found.status == "partial" or (wanted and COST not in wanted):
        return found
    return replace(found, costs=costs(cost_scene(length), which, paths))


def pictures(run: SuiteRun, plugins: Sequence[str | Path] = ()) -> list[tuple[str, Picture]]:
    """The plots, each with the number of its part."""
    found = []
    for part in run.suite.parts:
        for scene, kind in part.plots.items():
            drawn = (
                trade_off(run, part, scene)
                if kind == "trade-off"
                else _over_time(run, part, scene, plugins)
            )
            if drawn is not None:
                found.append((part.number, drawn))
    return found


def _over_time(
    run: SuiteRun, part: Part, scene: str, plugins: Sequence[str | Path]
) -> Picture | None:
    """Runs one seed again, because sweeps keep no samples."""
    (which,) = (each for each in run.suite.scenes if each.key == scene)
    seed = run.seeds[0]
    paths = [Path(path) for path in plugins]
    # A queue that failed is missing in the plot, too.
    there = set(run.runs.filter(scene=scene, seed=seed)["queue"].to_list())
    runs = {
        each.name: run_one(which, each, seed, Outside(plugins=paths))
        for each in run.queues
        if each.name in there
    }
    return over_time(runs, part, scene, seed)
