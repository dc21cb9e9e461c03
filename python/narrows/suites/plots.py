"""The plots of suites: delay against goodput, and delay over time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from narrows.report.picture import Picture
from narrows.report.style import CYCLE, INK, MUTED, below, name_axes, new_figure, styled
from narrows.results import Run
from narrows.suites.conduct import SuiteRun
from narrows.suites.parts import Part
from narrows.suites.seen import ellipse, number

_MARKERS = ("o", "s", "^", "D", "v")
_COLUMNS = 2


def looks(names: Sequence[str]) -> dict[str, tuple[str, str]]:
    """A colour and a marker for each queue, the same in all plots."""
    colours = (*CYCLE, INK, MUTED)
    return {
        name: (colours[n % len(colours)], _MARKERS[n // len(colours) % len(_MARKERS)])
        for n, name in enumerate(names)
    }


@styled
def trade_off(run: SuiteRun, part: Part, scene: str) -> Picture | None:
    """Goodput against delay, which falls to the right as RFC 7928 (2.7) draws it."""
    points = {name: pairs for name in run.names if (pairs := _pairs(run, scene, name))}
    if not points:
        return None
    figure, axes = new_figure(height=4.2)
    for name, (colour, marker) in looks(run.names).items():
        if name in points:
            _queue(axes, points[name], name, colour, marker)
    axes.set_xscale("log")
    axes.invert_xaxis()
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.xaxis.set_minor_formatter(
        lambda value, _: f"{value:g}" if _leading(value) in (2, 5) else ""
    )
    title = f"{part.heading}: goodput against delay"
    name_axes(axes, title, "mean queueing delay, ms (better to the right)", "goodput, Mbit/s")
    below(figure, columns=5)
    means = "; ".join(
        f"{name} {number(found.x, 1)} ms, {number(found.y, 2)} Mbit/s"
        for name, pairs in points.items()
        for found in [ellipse(*zip(*pairs, strict=True))]
    )
    return Picture(
        f"{scene}-trade-off",
        figure,
        f"Goodput against mean queueing delay: {means}.",
        "A small dot is a run. The large mark is the mean over seeds, and the ellipse has one "
        "standard deviation (Winstein and Balakrishnan). Up and to the right is better; a tilted "
        "ellipse means that runs with more delay have more, or less, goodput.",
    )


def _leading(value: float) -> int:
    return int(value / 10 ** math.floor(math.log10(value)) + 0.5) if value > 0.0 else 0


def _pairs(run: SuiteRun, scene: str, name: str) -> list[tuple[float, float]]:
    delay, goodput = (run.values(scene, metric, name) for metric in ("delay_mean", "goodput"))
    return [(delay[seed], goodput[seed]) for seed in delay if seed in goodput and delay[seed] > 0.0]


def _queue(
    axes: Axes, pairs: Sequence[tuple[float, float]], name: str, colour: str, marker: str
) -> None:
    xs, ys = ([pair[n] for pair in pairs] for n in (0, 1))
    found = ellipse(xs, ys)
    axes.plot(xs, ys, marker, color=colour, markersize=3, alpha=0.5, linestyle="none")
    axes.plot(
        [found.x], [found.y], marker, color=colour, markersize=8, linestyle="none", label=name
    )
    # The axis is logarithmic, so the ellipse is drawn as a line of points.
    turn = np.linspace(0.0, 2.0 * math.pi, 90)
    angle = math.radians(found.angle)
    along, across = found.major * np.cos(turn), found.minor * np.sin(turn)
    x = found.x + along * math.cos(angle) - across * math.sin(angle)
    y = found.y + along * math.sin(angle) + across * math.cos(angle)
    axes.plot(np.where(x > 0.0, x, np.nan), y, color=colour, linewidth=1.2)


@styled
def over_time(runs: Mapping[str, Run], part: Part, scene: str, seed: int) -> Picture | None:
    """The delay of each queue over time, in one run each, on axes of its own."""
    series = {name: _series(run) for name, run in runs.items()}
    if not any(len(times) for times, _ in series.values()):
        return None
    rows = math.ceil(len(series) / _COLUMNS)
    figure = Figure(figsize=(7.6, 0.9 + 1.35 * rows), layout="constrained")
    panels = list(figure.subplots(rows, _COLUMNS, sharex=True, sharey=True, squeeze=False).flat)
    colours = looks(list(series))
    for axes, (name, (times, waits)) in zip(panels, series.items(), strict=False):
        axes.plot(times, waits, color=colours[name][0], linewidth=1.0)
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.set_title(name, fontsize=10)
    for axes in panels[len(series) :]:
        axes.set_axis_off()
    figure.suptitle(f"{part.heading}: delay over time", x=0.01, ha="left", weight="bold")
    figure.supxlabel("time, s", fontsize=10.5)
    figure.supylabel("queueing delay, ms", fontsize=10.5)
    longest = "; ".join(
        f"{name} {number(max(waits, default=0.0), 0)} ms" for name, (_, waits) in series.items()
    )
    return Picture(
        f"{scene}-over-time",
        figure,
        f"Queueing delay over time; the longest: {longest}.",
        f"Means of 0.1 s, seed {seed}. Look for how soon the delay falls again after each change.",
    )


def _series(run: Run) -> tuple[list[float], list[float]]:
    rows = run.queues.filter(link="bottleneck.forward").drop_nulls("sojourn_mean_ms")
    # A logarithmic axis has no zero.
    waits = rows["sojourn_mean_ms"].clip(lower_bound=0.1)
    return rows["t_s"].to_list(), waits.to_list()
