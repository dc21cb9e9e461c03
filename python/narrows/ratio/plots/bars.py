"""Unanswered queries by kind, server and transport."""

from __future__ import annotations

from collections.abc import Sequence

from narrows.ratio.failures import Failures
from narrows.records.plotted import Axis
from narrows.report.drawing import Bar, Drawing, Part

_COLOURS = {
    "timeout": "blue",
    "closed": "vermilion",
    "reset": "orange",
    "refused": "green",
    "unreachable": "sky",
    "malformed": "purple",
    "mismatched": "muted",
    "handshake-failed": "ink",
    "failed": "grid",
}


def failures_plot(failures: Sequence[Failures]) -> Drawing:
    """A bar for each server and transport: percent of the queries that were asked."""
    bars = []
    longest = 0.0
    for each in failures:
        if not each.asked:
            continue
        parts: list[Part] = []
        end = 0.0
        for kind, count in each.kinds.items():
            begin, end = end, end + 100.0 * count / each.asked
            parts.append(Part(begin, end, _COLOURS.get(kind, "muted"), kind))
        longest = max(longest, end)
        text = f"{100.0 * each.share:.2f} %"
        bars.append(Bar(f"{each.server}, {each.transport}", parts, text=text))
    # If nothing failed, the axis ends at one percent; a shorter axis would suggest failures.
    return Drawing(
        "Unanswered",
        Axis("share of the queries that were asked (%)", ends=(0.0, longest or 1.0)),
        Axis(""),
        bars=bars,
        height=1.5 + 0.28 * len(bars),
    )
