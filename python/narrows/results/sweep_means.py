"""Metrics of a sweep over its seeds: their names, and means with intervals.

A combination's mean has a 95 % interval over its seeds: Student's, for percentages on a scale that
keeps it between 0 and 100, and cut off at 0 for other metrics that are never negative. There is no
interval with one seed, nor if all seeds give the same value, because they do not show how much
another seed would differ. Percentages have no interval with two seeds either, nor if more than half
of the seeds give 0 % or 100 % (`intervals.is_short_of_seeds`). Close to an end, the interval would
reach from nearly 0 to 100 %. Runs that failed or ended early do not count.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from narrows.errors import NarrowsError
from narrows.results.intervals import is_short_of_seeds, of_seeds
from narrows.results.metric_names import PARTS, NoSuchMetric, metrics_table
from narrows.results.metrics import metrics, possible
from narrows.results.sweep import Sweep
from narrows.results.sweep_run import SweepRun, canonical
from narrows.results.sweep_table import by_path
from narrows.results.text import TextTable


@dataclass(frozen=True)
class SweepMetric:
    """A metric of a sweep's runs."""

    key: str
    """Its path in the summary."""
    name: str
    """The metric in words."""
    unit: str
    scale: float
    """The factor from the summary's unit to `unit`."""
    range: tuple[float, float] | None = None
    """The lowest and highest possible value, if it is a score."""


@dataclass(frozen=True)
class Point:
    """A metric of one combination, over the seeds."""

    settings: Mapping[str, Any]
    runs: int
    """The number of complete runs that have the metric."""
    mean: float
    low: float | None
    """Lower end of the 95 % interval; None if there is no interval."""
    high: float | None
    values: tuple[float, ...] = ()
    """The value of each seed."""
    is_short_of_seeds: bool = False
    """Whether a percentage has no interval because too few seeds are away from 0 % and 100 %."""


NO_INTERVAL = (
    'no interval ("-"): a percentage needs three seeds or more, at least half of them away from '
    "0 % and 100 %"
)
"""A note that is shown once if a point has too few seeds."""


def metrics_of(sweep: Sweep) -> dict[str, SweepMetric]:
    """The metrics that complete runs have, by path, in the table's order."""
    named: dict[str, SweepMetric] = {}
    keys: dict[str, None] = {}
    for run in sweep.runs:
        if run.complete:
            found = by_path(run.summary)
            if not keys.keys() >= found.keys():
                keys.update(dict.fromkeys(found))
                for metric in metrics(run.summary, each_group=True, details=True):
                    name = f"{metric.section}: {metric.name}"
                    named[metric.key] = SweepMetric(
                        metric.key, name, metric.unit, metric.scale, metric.range
                    )
    return {key: named.get(key) or _unnamed(key) for key in keys}


def metric_named(sweep: Sweep, name: str) -> SweepMetric:
    """A metric by its path, or by the end of its path if that is unique.

    Raises:
        NoSuchMetric: There is no such metric.
        NarrowsError: There are several, or no run is complete.
    """
    known = metrics_of(sweep)
    if name in known:
        return known[name]
    where = sweep.folder or sweep.name
    ending = [key for key in known if key.endswith(f".{name}")]
    if len(ending) == 1:
        return known[ending[0]]
    if ending:
        # Metrics of the whole run and of all groups come before those of parts.
        whole = [key for key in ending if not PARTS.intersection(key.split("."))]
        if len(whole) == 1:
            return known[whole[0]]
        raise NarrowsError(
            f"{where}: metric {name}: several metrics end like this; "
            f"hint: one of {', '.join(ending[:4])}"
        )
    if not known:
        raise NarrowsError(f"{where}: no run is complete, so there are no metrics")
    raise NoSuchMetric(name, list(known), where)


def table_of_metrics(sweep: Sweep) -> TextTable:
    """All metrics of a sweep, for people: paths, words, units.

    Raises:
        NarrowsError: No run is complete.
    """
    known = metrics_of(sweep)
    if not known:
        raise NarrowsError(
            f"{sweep.folder or sweep.name}: no run is complete, so there are no metrics"
        )
    return metrics_table(sweep.name, [(f.key, f.name, _units(f)) for f in known.values()])


def points(sweep: Sweep, metric: SweepMetric) -> list[Point]:
    """The mean of a metric for every combination that has it, in the table's order."""
    groups: dict[str, list[SweepRun]] = {}
    for run in sweep.runs:
        if run.complete:
            groups.setdefault(canonical(list(run.settings.values())), []).append(run)
    of_groups = [
        (runs, [value for run in runs if (value := _value(run, metric)) is not None])
        for runs in groups.values()
    ]
    known = [value for _, values in of_groups for value in values]
    bounds = possible(known, metric.unit)
    return [
        _point(runs[0].settings, values, is_seedless(runs), bounds)
        for runs, values in of_groups
        if values
    ]


def is_seedless(runs: Sequence[SweepRun]) -> bool:
    """Whether there are several seeds and all gave the same metrics."""
    first, *others = runs
    return bool(others) and all(run.summary == first.summary for run in others)


def _point(
    settings: Mapping[str, Any],
    values: Sequence[float],
    seedless: bool,
    bounds: tuple[float, float],
) -> Point:
    mean, each = statistics.fmean(values), tuple(values)
    low, high = (None if seedless else of_seeds(values, *bounds)) or (None, None)
    is_short = len(values) > 1 and not seedless and is_short_of_seeds(values, *bounds)
    return Point(settings, len(values), mean, low, high, each, is_short)


def _value(run: SweepRun, metric: SweepMetric) -> float | None:
    raw = by_path(run.summary).get(metric.key)
    return None if raw is None else raw * metric.scale


_UNITS = {
    "mbit_per_s": "Mbit/s",
    "per_s": "1/s",
    "percent": "%",
    "bytes": "B",
    "packets": "packets",
    "ms": "ms",
    "us": "us",
    "s": "s",
}


def _unnamed(key: str) -> SweepMetric:
    """A metric without its own words: its name is its path, which ends in the unit.

    Examples:
        >>> _unnamed("flows.web.srtt_median_ms").unit, _unnamed("run.drops_per_s.early").unit
        ('ms', '1/s')
    """
    for ending, unit in _UNITS.items():
        if key.endswith(f"_{ending}"):
            return SweepMetric(key, key.removesuffix(f"_{ending}"), unit, 1.0)
        if f"_{ending}." in key:
            return SweepMetric(key, key, unit, 1.0)
    return SweepMetric(key, key, "", 1.0)


def _units(metric: SweepMetric) -> str:
    """The unit of the table's column, and that of plots if it is another."""
    if metric.scale == 1.0:
        return metric.unit
    return f"{_unnamed(metric.key).unit} ({metric.unit} in plots)"
