"""How long bursts of data take: the distribution of completion times."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from narrows.report import style
from narrows.report.style import CYCLE
from narrows.results import Run

__all__ = ["burst_cdf"]


@style.styled
def burst_cdf(runs: Mapping[str, Run]) -> Figure:
    """Share of the bursts that were acknowledged within a time; unfinished ones never were."""
    figure, axes = style.new_figure(height=3.2)
    longest = 0.0
    for index, (label, run) in enumerate(runs.items()):
        bursts = run.bursts
        times = np.sort(
            (bursts.get_column("end_s") - bursts.get_column("start_s")).drop_nulls().to_numpy()
        )
        if len(times) == 0:
            continue
        x = np.concatenate([[0.0], times])
        shares = 100.0 * np.arange(len(times) + 1) / bursts.height
        keep = np.unique(np.linspace(0, len(x) - 1, min(len(x), 2_000)).astype(int))
        axes.step(x[keep], shares[keep], where="post", color=CYCLE[index % len(CYCLE)], label=label)
        longest = max(longest, float(times[-1]))
    axes.set_xlim(0.0, 1.05 * longest if longest else 1.0)
    axes.set_ylim(0.0, 104.0)
    axes.set_title("Burst completion time, until all of it is acknowledged")
    axes.set_xlabel("completion time (s)")
    axes.set_ylabel("bursts completed\nwithin it (%)")
    if len(runs) > 1:
        style.below(figure, 3)
    return figure
