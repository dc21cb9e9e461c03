"""The ratio over the day: the number of pairs in each half hour and 0.05 of ratio."""

from __future__ import annotations

import datetime as dt
import math
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, LogNorm
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from narrows.ratio.analysis import Group
from narrows.ratio.density import over_the_day
from narrows.report import style
from narrows.report.style import BLUE, INK, MUTED, SKY

# The lightest colour is that of a single pair, which must be visible on white.
_COLOURS = LinearSegmentedColormap.from_list("narrows", ["#b9d7ea", SKY, BLUE, INK])


# Formats of ticks by the unit that changes from one to the next, from year to second; and formats
# for ticks whose smaller units are all zero.
_TIMES = ["%Y", "%Y-%m", "%m-%d", "%H:%M", "%H:%M", "%H:%M:%S"]
_DAYS = ["", "%Y", "%Y-%m", "%m-%d", "%H:%M", "%H:%M"]


@style.styled
def over_day_plot(group: Group, top: float = 6.0) -> Figure:
    """Counts of pairs by time and ratio."""
    figure, axes = style.new_figure(height=3.6)
    seconds = group.table["started_s"].to_numpy()
    start = np.floor(seconds.min() / 86_400.0) * 86_400.0
    times, ratios, counts = over_the_day(seconds - start, group.ratios)
    keep = ratios < top
    shown = np.ma.masked_equal(counts[:, keep].T, 0)
    # The type is Any, because the stubs only know numbers on the axis.
    edges: Any = [
        dt.datetime.fromtimestamp(start + second, dt.UTC) for second in [*times, times[-1] + 1800.0]
    ]
    mesh = axes.pcolormesh(
        edges,
        np.append(ratios[keep], top),
        shown,
        cmap=_COLOURS,
        norm=LogNorm(1, max(2, int(counts.max(initial=1)))),
        rasterized=True,
    )
    for level in (2.0, 3.0):
        axes.axhline(level, color=MUTED, linewidth=0.9, linestyle=(0, (2, 2)))
    used = np.flatnonzero(counts.sum(axis=1))
    axes.set_xlim(edges[int(used[0])], edges[int(used[-1]) + 1])
    _ticks(axes, edges[int(used[0])], edges[int(used[-1]) + 1])
    axes.set_ylim(0.0, top)
    axes.set_xlabel(f"UTC, {edges[int(used[0])].year}")
    axes.set_ylabel("TCP / UDP")
    axes.grid(visible=False)
    axes.set_title(f"{group.label}: pairs in half an hour and 0.05 of ratio")
    bar = figure.colorbar(mesh, ax=axes, pad=0.015, aspect=30, label="pairs")
    bar.ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    bar.ax.yaxis.set_minor_formatter(NullFormatter())
    bar.outline.set_visible(False)
    return figure


def _ticks(axes: Axes, first: Any, last: Any) -> None:
    """Ticks at times of the day; for more than four days, evenly spaced days across months."""
    days = (last - first) / dt.timedelta(days=1)
    if days > 4.0:
        midnight = first.replace(hour=0, minute=0, second=0, microsecond=0)
        step = math.ceil(days / 8.0)
        at = [midnight + dt.timedelta(days=day) for day in range(0, math.ceil(days) + 1, step)]
        within = [tick for tick in at if first <= tick <= last]
        axes.set_xticks(within, [f"{tick:%m-%d}" for tick in within])
        return
    locator = AutoDateLocator(tz=dt.UTC)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    formatter = ConciseDateFormatter(  # type: ignore[no-untyped-call]
        locator, tz=dt.UTC, formats=_TIMES, zero_formats=_DAYS, show_offset=False
    )
    axes.xaxis.set_major_formatter(formatter)
