"""What a link could have carried beyond what it did, over time."""

from __future__ import annotations

from matplotlib.figure import Figure

from narrows.report import style
from narrows.results import Run


@style.styled
def spare(run: Run, link: str) -> Figure:
    """The time between samples in which a link was idle."""
    figure, axes = style.new_figure(height=3.0)
    rows = run.links.filter(run.links.get_column("link") == link)
    times = rows.get_column("t_s")
    axes.plot(times, times - rows.get_column("busy_s").cum_sum())
    return figure
