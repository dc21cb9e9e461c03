"""Distribution functions of the times and of the ratio."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from narrows.ratio.analysis import Group
from narrows.ratio.plots.axes import TRIPS, ratio_axis
from narrows.records.numbers import Floats
from narrows.records.plotted import SHARES, Axis, Color
from narrows.report.drawing import CYCLE, Curve, Drawing
from narrows.report.evaluate import Waits, distribution
from narrows.report.scales import completed

_PAIRS = Axis("pairs (%)", ends=SHARES)


def times_cdf(group: Group) -> Drawing:
    """Distributions of the times of UDP and TCP, and of TCP's parts if they are known."""
    curves = [
        _steps(values, label, colour)
        for label, name, colour in (
            ("UDP", "udp_ms", "blue"),
            ("TCP", "tcp_ms", "vermilion"),
            ("TCP: handshake", "connect_ms", "green"),
            ("TCP: query to reply", "query_ms", "purple"),
        )
        if len(values := group.table[name].drop_nulls().to_numpy())
    ]
    times = Axis("response time (ms)", log=True)
    title = f"{group.label}: response times"
    return completed(Drawing(title, times, _PAIRS, curves=curves))


def ratio_cdf(groups: Mapping[str, Group], top: float = 6.0) -> Drawing:
    """The ratio's distribution; curves end below 100 % where there are ratios beyond the plot."""
    curves = [
        _steps(group.ratios, label, CYCLE[at % len(CYCLE)], dash=at >= len(CYCLE))
        for at, (label, group) in enumerate(groups.items())
    ]
    return Drawing(
        "Distribution of the ratio",
        ratio_axis(top),
        _PAIRS,
        curves=curves,
        levels=TRIPS,
        height=3.6,
    )


def _steps(values: Floats, label: str, colour: Color, *, dash: bool = False) -> Curve:
    x, y = distribution(Waits(values, np.ones(len(values), dtype=np.bool_)))
    return Curve(label, colour, x, y, "cdf", dash=dash)
