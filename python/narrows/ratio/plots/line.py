"""TCP's time against UDP's at each vantage point, and the time beyond two round trips."""

from __future__ import annotations

import numpy as np

from narrows.ratio.analysis import Group
from narrows.ratio.plots.colours import RANGES, range_of
from narrows.records.numbers import Floats
from narrows.records.plotted import Axis
from narrows.report.drawing import Curve, Drawing
from narrows.report.scales import completed

LEGEND = "Each point: one vantage point's medians. Colour: TCP's time divided by UDP's"
"""The heading of the legend, which explains points and colours."""


def line_plot(group: Group) -> Drawing:
    """Medians of each vantage point, the line through them, and two and three round trips."""
    each = group.by_vantage
    udp, tcp = each["udp_ms"].to_numpy(), each["tcp_ms"].to_numpy()
    curves = _points(udp, tcp, each["ratio"].to_numpy())
    low, high = 0.8 * float(udp.min()), 1.25 * float(udp.max())
    span = np.geomspace(low, high, 100)
    curves += [_guide(span, trips * span, f"{trips} x") for trips in (2, 3)]
    line = group.line
    title = group.label
    if line is not None:
        fitted = line.slope * span + line.intercept_ms
        above = fitted > 0
        curves.append(Curve("line through them", "ink", span[above], fitted[above]))
        sign = "-" if line.intercept_ms < -0.05 else "+"
        apart = f"{sign} {abs(line.intercept_ms):.1f} ms"
        title = f"{group.label}: TCP = {line.slope:.3f} x UDP {apart}"
    return completed(
        Drawing(
            title,
            Axis("UDP response time (ms)", ends=(low, high), log=True),
            Axis("TCP response time (ms)", log=True),
            curves=curves,
            legend=LEGEND,
            height=4.2,
        )
    )


def excess_plot(group: Group) -> Drawing:
    """Milliseconds beyond two round trips: a fixed delay is level, a further round trip rises."""
    each = group.by_vantage
    udp, excess = each["udp_ms"].to_numpy(), each["excess_ms"].to_numpy()
    low, high = 0.8 * float(udp.min()), 1.25 * float(udp.max())
    span = np.geomspace(low, high, 100)
    least, most = (float(each) for each in np.quantile(excess, (0.02, 0.98)))
    ends = min(1.2 * least, -0.1 * most, -1.0), max(1.2 * most, 2.0)
    curves = _points(udp, excess, each["ratio"].to_numpy())
    curves += [_guide(span, 0.0 * span, ""), _guide(span, span, "")]
    return Drawing(
        f"{group.label}: beyond two round trips (dashed: none, and one more)",
        Axis("UDP response time (ms)", ends=(low, high), log=True),
        Axis("TCP - 2 UDP (ms)", ends=ends),
        curves=curves,
        legend=LEGEND,
        height=3.8,
    )


def _guide(x: Floats, y: Floats, name: str) -> Curve:
    return Curve("", "muted", x, y, width=0.9, dash=True, margin=name)


def _points(x: Floats, y: Floats, ratio: Floats) -> list[Curve]:
    kind = range_of(ratio)
    size = 3.7 if len(x) < 400 else 2.2
    return [
        Curve(part.words, part.colour, x[chosen], y[chosen], "points", size)
        for number, part in enumerate(RANGES)
        if (chosen := kind == number).any()
    ]
