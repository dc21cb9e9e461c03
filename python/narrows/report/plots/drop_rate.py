"""Drops and marks per second over time, smoothed as in Figure 2 of Harhalakis et al. 2011."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from narrows.report import seeds, style
from narrows.report.plots.over_time import over_time
from narrows.report.source import NONE, counter
from narrows.report.style import BLUE, CYCLE, VERMILION, Floats
from narrows.results import Run
from narrows.results.schema import DROPS, MARKS

SLOT_S = 0.1
"""The paper counts drops in slots of 100 ms."""

KEPT = 0.9
"""The paper's a: the weight of the old average."""


def ewma(times: Floats, total: Floats) -> tuple[Floats, Floats]:
    """The paper's curve, `V(n) = 0.9 V(n-1) + 0.1 P(n)`, from a cumulative counter.

    P(n) is the count in the n-th slot of 100 ms, times 10: a rate per second. If samples are not
    100 ms apart, the counter is interpolated between them.

    Args:
        times: The times of the samples in seconds, the first at zero.
        total: The counter at these times.

    Returns:
        Ends of the slots in seconds, and V at them, per second.

    Examples:
        >>> t, v = ewma(np.array([0.0, 0.1, 0.2]), np.array([0.0, 10.0, 10.0]))
        >>> [round(float(x), 3) for x in v]
        [10.0, 9.0]
    """
    slots = round(float(times[-1]) / SLOT_S) if len(times) else 0
    ends: Floats = SLOT_S * np.arange(slots + 1, dtype=np.float64)
    rates = np.diff(np.interp(ends, times, total)) / SLOT_S
    values = np.empty(slots)
    value = 0.0
    for n, rate in enumerate(rates.tolist()):
        value = KEPT * value + (1.0 - KEPT) * rate
        values[n] = value
    return ends[1:], values


@style.styled
def drop_rate(
    runs: Mapping[str, Run], link: str, others: Mapping[str, Sequence[Run]] = NONE
) -> Figure:
    """Smoothed drops per second of each run; for a single run, its marks too.

    Args:
        runs: Runs by label.
        link: A link whose queue each of them sampled.
        others: Other seeds of the runs.
    """
    figure, axes = style.new_figure(height=3.2)
    top = 0.0
    for index, (label, run) in enumerate(runs.items()):
        curves = [("drops", DROPS, VERMILION if len(runs) == 1 else CYCLE[index % len(CYCLE)])]
        if len(runs) == 1:
            curves.append(("marks", MARKS, BLUE))
        for what, columns, color in curves:
            counters = [
                counter(each.queues, link, *columns.values())
                for each in (run, *others.get(label, ()))
            ]
            if what == "marks" and all(total[-1] == 0.0 for _, total in counters):
                continue
            name = what if len(runs) == 1 else label
            top = max(top, seeds.draw(axes, [ewma(*each) for each in counters], name, color))
    title = f"Drops at {link}" if len(runs) > 1 else f"Drops and marks at {link}"
    over_time(axes, list(runs.values()), top, title, "smoothed over\nabout 1 s (packets/s)")
    style.below(figure)
    return figure
