"""Unanswered queries by kind, server and transport."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from narrows.ratio.failures import Failures
from narrows.report import style
from narrows.report.style import BLUE, GREEN, INK, MUTED, ORANGE, PURPLE, SKY, VERMILION

_COLOURS = {
    "timeout": BLUE,
    "closed": VERMILION,
    "reset": ORANGE,
    "refused": GREEN,
    "unreachable": SKY,
    "malformed": PURPLE,
    "mismatched": MUTED,
    "handshake-failed": INK,
    "failed": "#999999",
}


@style.styled
def failures_plot(failures: Sequence[Failures]) -> Figure:
    """A bar for each server and transport: percent of the queries that were asked."""
    shown = [part for part in failures if part.asked]
    figure, axes = style.new_figure(height=1.5 + 0.28 * len(shown))
    named: set[str] = set()
    longest = max((100.0 * part.share for part in shown), default=0.0)
    for row, part in enumerate(reversed(shown)):
        left = 0.0
        for kind, count in part.kinds.items():
            width = 100.0 * count / part.asked
            axes.barh(
                row,
                width,
                left=left,
                height=0.7,
                color=_COLOURS.get(kind, MUTED),
                label=None if kind in named else kind,
            )
            named.add(kind)
            left += width
        axes.text(
            left + 0.01 * max(longest, 0.01),
            row,
            f"{100.0 * part.share:.2f} %",
            va="center",
            fontsize=8.5,
        )
    axes.set_yticks(
        range(len(shown)), [f"{part.server}, {part.transport}" for part in reversed(shown)]
    )
    # A row without a bar needs space too.
    axes.set_ylim(-0.6, len(shown) - 0.4)
    # If nothing failed, the axis ends at one percent; a shorter axis would suggest failures.
    axes.set_xlim(0.0, 1.15 * longest or 1.0)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("percent of the queries that were asked")
    axes.set_title("Unanswered")
    if named:
        style.below(figure, columns=5)
    return figure
