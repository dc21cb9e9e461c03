"""Time that packets spend in a queue and the ring below it, over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from narrows.report import marks, seeds, style
from narrows.report.plots.over_time import over_time
from narrows.report.source import NONE, column, queue_facts
from narrows.results import Run


@style.styled
def sojourn(
    runs: Mapping[str, Run], link: str, others: Mapping[str, Sequence[Run]] = NONE
) -> Figure:
    """Mean sojourn of each sampling interval; for a single run, the longest and the target too.

    Args:
        runs: Runs by label.
        link: A link whose queue each of them sampled.
        others: Other seeds of the runs.
    """
    figure, axes = style.new_figure(height=3.2)
    top = 0.0
    for color, (label, run) in zip(_colors(len(runs)), runs.items(), strict=True):
        if len(runs) == 1:
            times, longest = column(run.queues, link, "sojourn_max_ms")
            axes.plot(
                *style.thin(times, longest),
                color=style.SKY,
                linewidth=0.8,
                drawstyle="steps-pre",
                label="longest",
            )
            top = max(top, _largest(longest))
        each = [
            column(one.queues, link, "sojourn_mean_ms") for one in (run, *others.get(label, ()))
        ]
        name = "mean of the packets that left" if len(runs) == 1 else label
        top = max(top, seeds.draw(axes, each, name, color, "steps-pre"))
    first = next(iter(runs.values()))
    facts = queue_facts(first, link) if len(runs) == 1 else None
    if facts is not None and facts.target_ms is not None:
        marks.level(axes, facts.target_ms, f"target\n{facts.target_ms:g} ms", style.INK)
        top = max(top, facts.target_ms)
    title = f"Time in queue and ring at {link}"
    over_time(axes, list(runs.values()), top, title, "time in queue (ms)")
    style.below(figure)
    return figure


def _largest(values: style.Floats) -> float:
    finite = values[~np.isnan(values)]
    return float(finite.max()) if len(finite) else 0.0


def _colors(count: int) -> list[str]:
    return [style.CYCLE[i % len(style.CYCLE)] for i in range(count)]
