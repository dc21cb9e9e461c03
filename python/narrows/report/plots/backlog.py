"""Backlog of a queue over time, with the levels at which the queue acts."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from narrows.report import marks, style
from narrows.report.plots.over_time import over_time
from narrows.report.source import QueueFacts, column, queue_facts
from narrows.report.style import BLUE, GREEN, INK, MUTED, ORANGE, VERMILION
from narrows.results import Run

_COLORS = {"min": GREEN, "max": VERMILION, "limit": INK}


@style.styled
def backlog(run: Run, link: str) -> Figure:
    """Backlog, ring occupancy and RED's average of one monitored queue.

    The unit is what the queue counts, packets or kB. Thresholds come from the run's scenario.
    """
    facts = queue_facts(run, link)
    packets = facts is not None and facts.unit == "packets"
    scale, unit = (1.0, "packets") if packets else (1e-3, "kB")
    kind = "packets" if packets else "bytes"
    figure, axes = style.new_figure(height=3.8)
    top = 0.0
    times, ring = column(run.queues, link, f"ring_{kind}")
    if len(ring) and ring.max() > 0:
        shown = style.thin(times, ring * scale)
        axes.fill_between(*shown, color=MUTED, alpha=0.18, linewidth=0)
        name = "in transmission" if facts and not facts.has_ring else "in the card's ring"
        axes.plot(*shown, color=MUTED, linewidth=0.5, label=name)
        top = max(top, float(ring.max()) * scale)
    times, values = column(run.queues, link, f"backlog_{kind}")
    axes.plot(*style.thin(times, values * scale), color=BLUE, linewidth=1.0, label="in the queue")
    top = max(top, float(values.max()) * scale if len(values) else 0.0)
    times, mean = column(run.queues, link, f"average_{kind}")
    if not np.isnan(mean).all():
        axes.plot(
            *style.thin(times, mean * scale), color=ORANGE, linewidth=2.0, label="RED's average"
        )
    if facts is not None:
        top = max(top, _thresholds(axes, facts, scale, unit))
    name = f"{facts.label} queue" if facts else "Queue"
    over_time(axes, [run], top, f"{name} at {link}: backlog", f"backlog ({unit})")
    style.below(figure)
    return figure


def _thresholds(axes: Axes, facts: QueueFacts, scale: float, unit: str) -> float:
    """Draws the thresholds; returns the highest."""
    for threshold in facts.thresholds:
        level = threshold.level * scale
        label = f"{threshold.name} {level:.0f} {unit}"
        if facts.unit == "bytes" and threshold.name == "limit" and len(facts.rates) == 1:
            label += f"\n= {threshold.level * 8e3 / facts.rates[0][1]:.0f} ms"
        marks.level(axes, level, label, _COLORS[threshold.name])
    return max((threshold.level for threshold in facts.thresholds), default=0.0) * scale
