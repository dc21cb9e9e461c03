"""What a link could have carried beyond what it did, over time."""

from __future__ import annotations

from narrows.records.plotted import Axis, Declaration, Series
from narrows.report.plots.over_time import TIME


def spare(link: str) -> Declaration:
    """The time until each sample in which a link was idle."""
    idle = Series("idle", "links", "t_s", ("-", "t_s", "busy_s"), {"link": link})
    axis = Axis("idle (s)", ends=(0.0, None))
    return Declaration(f"spare-{link}", "Idle time", TIME, axis, (idle,), alt="Idle time.")
