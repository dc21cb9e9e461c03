"""Distribution functions of the times and of the ratio."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from narrows.ratio.analysis import Group
from narrows.report import style
from narrows.report.style import BLUE, CYCLE, GREEN, MUTED, PURPLE, VERMILION


@style.styled
def times_cdf(group: Group) -> Figure:
    """Distributions of the times of UDP and TCP, and of TCP's parts if they are known."""
    figure, axes = style.new_figure(height=3.4)
    for label, name, colour in (
        ("UDP", "udp_ms", BLUE),
        ("TCP", "tcp_ms", VERMILION),
        ("TCP: handshake", "connect_ms", GREEN),
        ("TCP: query to reply", "query_ms", PURPLE),
    ):
        values = np.sort(group.table[name].drop_nulls().to_numpy())
        if len(values):
            _steps(axes, values, label, colour)
    axes.set_xscale("log")
    style.plain_ticks(axes.xaxis, *axes.get_xlim())
    axes.set_ylim(0.0, 101.0)
    title = f"{group.label}: response times"
    style.name_axes(axes, title, "response time (ms)", "percent of pairs")
    style.below(figure)
    return figure


@style.styled
def ratio_cdf(groups: Mapping[str, Group], top: float = 6.0) -> Figure:
    """The ratio's distribution; curves end below 100 % where there are ratios beyond the plot."""
    figure, axes = style.new_figure(height=3.6)
    for index, (label, group) in enumerate(groups.items()):
        dashes = ("-", (0, (4, 2)), (0, (1, 1.5)))[index // len(CYCLE) % 3]
        _steps(axes, np.sort(group.ratios), label, CYCLE[index % len(CYCLE)], dashes)
    for level in (2.0, 3.0):
        axes.axvline(level, color=MUTED, linewidth=0.9, linestyle=(0, (2, 2)), zorder=0)
    axes.set_xlim(0.0, top)
    axes.set_ylim(0.0, 101.0)
    axes.set_xlabel("TCP response time / UDP response time")
    axes.set_ylabel("percent of pairs")
    axes.set_title("Distribution of the ratio")
    style.below(figure, columns=5)
    return figure


def _steps(axes: Axes, ranked: style.Floats, label: str, colour: str, dashes: Any = "-") -> None:
    percent = 100.0 * np.arange(1, len(ranked) + 1) / len(ranked)
    if len(ranked) > 2_000:
        keep = np.unique(np.linspace(0, len(ranked) - 1, 2_000).round().astype(np.int64))
        ranked, percent = ranked[keep], percent[keep]
    axes.step(
        np.concatenate([ranked[:1], ranked]),
        np.concatenate([[0.0], percent]),
        where="post",
        color=colour,
        linestyle=dashes,
        label=label,
    )
