"""Figures of a sweep over its seeds: which there are, what they are called, means with intervals.

A combination's mean has Student's t interval (95 %) over its seeds. There is none with one seed,
nor where all seeds give the same in everything: then nothing in the scenario is random. Runs that
failed or ended early do not count.
"""

from __future__ import annotations

import difflib
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from narrows.errors import NarrowsError
from narrows.results.metrics import metrics
from narrows.results.student import t_half_width
from narrows.results.sweep import Sweep, SweepRun, canonical
from narrows.results.sweep_table import figures

__all__ = ["Figure", "Point", "figure_named", "figures_of", "is_seedless", "points"]


@dataclass(frozen=True)
class Figure:
    """A figure of a sweep's runs."""

    key: str
    """Its path in the summary."""
    name: str
    """What it is, in words."""
    unit: str
    scale: float
    """From the summary's unit to this one."""


@dataclass(frozen=True)
class Point:
    """A figure of one combination, over the seeds."""

    settings: Mapping[str, Any]
    runs: int
    """Complete runs that have the figure."""
    mean: float
    low: float | None
    """Lower end of the 95 % interval; None where there is none."""
    high: float | None


def figures_of(sweep: Sweep) -> dict[str, Figure]:
    """The figures that complete runs have, by path, in the table's order."""
    named: dict[str, Figure] = {}
    keys: dict[str, None] = {}
    for run in sweep.runs:
        if run.complete:
            found = figures(run.summary)
            if not keys.keys() >= found.keys():
                keys.update(dict.fromkeys(found))
                for metric in metrics(run.summary):
                    name = f"{metric.section}: {metric.name}"
                    named[metric.key] = Figure(metric.key, name, metric.unit, metric.scale)
    return {key: named.get(key) or _unnamed(key) for key in keys}


def figure_named(sweep: Sweep, name: str) -> Figure:
    """A figure by its path, or by the end of its path where that is enough.

    Raises:
        NarrowsError: There is none, or several end so.
    """
    known = figures_of(sweep)
    if name in known:
        return known[name]
    where = sweep.folder or sweep.name
    ending = [key for key in known if key.endswith(f".{name}")]
    if len(ending) == 1:
        return known[ending[0]]
    if ending:
        # What is of the whole run and of all groups is meant before what is of parts.
        whole = [key for key in ending if not _PARTS.intersection(key.split("."))]
        if len(whole) == 1:
            return known[whole[0]]
        raise NarrowsError(
            f"{where}: metric {name}: may mean several; hint: one of {', '.join(ending[:4])}"
        )
    if not known:
        raise NarrowsError(f"{where}: no run is complete, so there are no figures")
    tails = {key.rpartition(".")[2]: key for key in reversed(list(known))}
    close = difflib.get_close_matches(name[:100], list(known), n=1, cutoff=0.5)
    close = close or [
        tails[tail] for tail in difflib.get_close_matches(name[:100], list(tails), n=1, cutoff=0.5)
    ]
    hint = f'did you mean "{close[0]}"?' if close else f"one of {', '.join(list(known)[:6])}, ..."
    raise NarrowsError(f"{where}: metric {name[:100]}: there is none; hint: {hint}")


def points(sweep: Sweep, figure: Figure) -> list[Point]:
    """A figure's mean of every combination that has it, in the table's order."""
    groups: dict[str, list[SweepRun]] = {}
    for run in sweep.runs:
        if run.complete:
            groups.setdefault(canonical(list(run.settings.values())), []).append(run)
    found = []
    for runs in groups.values():
        values = [value for run in runs if (value := _value(run, figure)) is not None]
        if values:
            found.append(_point(runs[0].settings, values, is_seedless(runs)))
    return found


def is_seedless(runs: Sequence[SweepRun]) -> bool:
    """Whether there are several seeds and all gave the same."""
    first, *others = runs
    return bool(others) and all(run.summary == first.summary for run in others)


def _point(settings: Mapping[str, Any], values: Sequence[float], seedless: bool) -> Point:
    mean = statistics.fmean(values)
    if len(values) < 2 or seedless:
        return Point(settings, len(values), mean, None, None)
    half = t_half_width(values)
    return Point(settings, len(values), mean, mean - half, mean + half)


def _value(run: SweepRun, figure: Figure) -> float | None:
    raw = figures(run.summary).get(figure.key)
    return None if raw is None else raw * figure.scale


_PARTS = frozenset({"groups", "dns_groups", "dns_phase"})

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


def _unnamed(key: str) -> Figure:
    """A figure that has no words of its own: its path, and the unit at the end of its name."""
    for ending, unit in _UNITS.items():
        if key.endswith(f"_{ending}"):
            return Figure(key, key.removesuffix(f"_{ending}"), unit, 1.0)
    return Figure(key, key, "", 1.0)
