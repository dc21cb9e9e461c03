"""TCP's time against UDP's at each vantage point, and the time beyond two round trips."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from narrows.ratio.analysis import Group
from narrows.ratio.plots.colours import RANGES, range_of
from narrows.report import style
from narrows.report.style import INK, MUTED

LEGEND = "Each point: one vantage point's medians. Colour: TCP's time divided by UDP's"
"""The heading of the legend, which explains points and colours."""


@style.styled
def line_plot(group: Group) -> Figure:
    """Medians of each vantage point, the line through them, and two and three round trips."""
    figure, axes = style.new_figure(height=4.2)
    each = group.by_vantage
    udp, tcp = each["udp_ms"].to_numpy(), each["tcp_ms"].to_numpy()
    _points(axes, udp, tcp, each["ratio"].to_numpy())
    low, high = 0.8 * float(udp.min()), 1.25 * float(udp.max())
    span = np.geomspace(low, high, 100)
    for trips in (2, 3):
        axes.plot(span, trips * span, color=MUTED, linewidth=0.9, linestyle=(0, (2, 2)))
        axes.annotate(
            f"{trips} x",
            (high, trips * high),
            xytext=(3, 0),
            textcoords="offset points",
            fontsize=8.5,
            color=MUTED,
            va="center",
            annotation_clip=False,
        )
    line = group.line
    if line is not None:
        fitted = line.slope * span + line.intercept_ms
        axes.plot(span[fitted > 0], fitted[fitted > 0], color=INK, linewidth=1.4)
        sign = "-" if line.intercept_ms < -0.05 else "+"
        apart = f"{sign} {abs(line.intercept_ms):.1f} ms"
        title = f"{group.label}: TCP = {line.slope:.3f} x UDP {apart}"
    else:
        title = group.label
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(low, high)
    style.name_axes(axes, title, "UDP response time (ms)", "TCP response time (ms)")
    style.plain_ticks(axes.xaxis, low, high)
    style.plain_ticks(axes.yaxis, *axes.get_ylim())
    style.below(figure, columns=3, markers=2.5, title=LEGEND)
    return figure


@style.styled
def excess_plot(group: Group) -> Figure:
    """Milliseconds beyond two round trips: a fixed delay is level, a further round trip rises."""
    figure, axes = style.new_figure(height=3.8)
    each = group.by_vantage
    udp, excess = each["udp_ms"].to_numpy(), each["excess_ms"].to_numpy()
    _points(axes, udp, excess, each["ratio"].to_numpy())
    low, high = 0.8 * float(udp.min()), 1.25 * float(udp.max())
    span = np.geomspace(low, high, 100)
    axes.plot(span, 0.0 * span, color=MUTED, linewidth=0.9, linestyle=(0, (2, 2)))
    axes.plot(span, span, color=MUTED, linewidth=0.9, linestyle=(0, (2, 2)))
    bounds = np.quantile(excess, (0.02, 0.98))
    axes.set_ylim(
        min(1.2 * float(bounds[0]), -0.1 * float(bounds[1]), -1.0), max(1.2 * float(bounds[1]), 2.0)
    )
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    title = f"{group.label}: beyond two round trips (dashed: none, and one more)"
    style.name_axes(axes, title, "UDP response time (ms)", "TCP - 2 UDP (ms)")
    style.plain_ticks(axes.xaxis, low, high)
    style.below(figure, columns=3, markers=2.5, title=LEGEND)
    return figure


def _points(axes: Axes, x: style.Floats, y: style.Floats, ratio: style.Floats) -> None:
    kind = range_of(ratio)
    size = 14.0 if len(x) < 400 else 5.0
    for number, part in enumerate(RANGES):
        chosen = kind == number
        if chosen.any():
            axes.scatter(
                x[chosen],
                y[chosen],
                s=size,
                color=part.colour,
                alpha=0.7 if len(x) < 400 else 0.45,
                linewidths=0,
                label=part.words,
                rasterized=len(x) > 3_000,
            )
