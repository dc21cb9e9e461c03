"""Backlogs of one queue in several cases, drawn over each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from narrows.report import marks, seeds, style
from narrows.report.plots.over_time import over_time
from narrows.report.source import NONE, column, queue_facts
from narrows.report.style import CYCLE, INK
from narrows.results import Run


@style.styled
def backlogs(
    runs: Mapping[str, Run], link: str, others: Mapping[str, Sequence[Run]] = NONE
) -> Figure:
    """Backlog of each case, without the ring, and the limits of the queues.

    The unit is packets if all queues count packets, and kB otherwise.

    Args:
        runs: Runs by label.
        link: A link whose queue each of them sampled.
        others: Other seeds of the runs.
    """
    figure, axes = style.new_figure()
    facts = {label: queue_facts(run, link) for label, run in runs.items()}
    packets = all(each is not None and each.unit == "packets" for each in facts.values())
    name, scale, unit = (
        ("backlog_packets", 1.0, "packets") if packets else ("backlog_bytes", 1e-3, "kB")
    )
    top = 0.0
    for index, (label, run) in enumerate(runs.items()):
        samples = [column(each.queues, link, name) for each in (run, *others.get(label, ()))]
        curves = [(times, values * scale) for times, values in samples]
        top = max(top, seeds.draw(axes, curves, label, CYCLE[index % len(CYCLE)]))
    limits = {
        label: threshold.level * scale
        for label, each in facts.items()
        if each is not None and (each.unit == "packets") is packets
        for threshold in each.thresholds
        if threshold.name == "limit"
    }
    top = max(top, _limits(axes, limits, list(runs), unit, _HIGHEST * top))
    over_time(
        axes, list(runs.values()), top, f"Backlog of the queue at {link}", f"backlog ({unit})"
    )
    style.below(figure, 3)
    return figure


def _limits(
    axes: Axes, limits: Mapping[str, float], labels: Sequence[str], unit: str, highest: float
) -> float:
    """Marks limits up to `highest`, one shared by all cases only once; returns the top."""
    shown = {label: limit for label, limit in limits.items() if limit <= highest}
    if len(shown) == len(labels) and len(set(shown.values())) == 1:
        limit = next(iter(shown.values()))
        marks.level(axes, limit, f"limit {limit:.0f} {unit}", INK)
    else:
        for label, limit in shown.items():
            color = CYCLE[labels.index(label) % len(CYCLE)]
            marks.level(axes, limit, f"limit {limit:.0f} {unit}", color)
    return max(shown.values(), default=0.0)


_HIGHEST = 4.0
"""Limits above this many times the highest backlog are not drawn: they would flatten the curves."""
