"""Backlogs of one queue in several runs, drawn over each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from narrows.report import style
from narrows.report.figures.over_time import over_time
from narrows.report.source import NONE, column
from narrows.report.style import CYCLE
from narrows.results import Run

__all__ = ["backlogs"]


@style.styled
def backlogs(
    runs: Mapping[str, Run], link: str, others: Mapping[str, Sequence[Run]] = NONE
) -> Figure:
    """Backlog in kB of each run, without the ring.

    Args:
        runs: Runs by label.
        link: A link whose queue each of them sampled.
        others: Other seeds of the runs, which are drawn faintly.
    """
    figure, axes = style.new_figure()
    top = 0.0
    for index, (label, run) in enumerate(runs.items()):
        times, values = column(run.queues, link, "backlog_bytes")
        color = CYCLE[index % len(CYCLE)]
        axes.plot(*style.thin(times, values * 1e-3), color=color, linewidth=0.9, label=label)
        top = max(top, float(values.max()) * 1e-3 if len(values) else 0.0)
        for other in others.get(label, ()):
            times, values = column(other.queues, link, "backlog_bytes")
            style.faint(axes, *style.thin(times, values * 1e-3), color)
            top = max(top, float(values.max()) * 1e-3 if len(values) else 0.0)
    title = f"Backlog of the queue at {link}"
    over_time(axes, list(runs.values()), top, title, "backlog (kB)")
    style.below(figure, 3)
    return figure
