"""A forest plot: how much the metrics of one case differ from another's, with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from narrows.records.plotted import Axis
from narrows.report.drawing import Bar, Drawing

LINEAR_TO = 100.0
"""The percentage up to which the axis is linear if a change is larger than `WIDE`."""
WIDE = 300.0


@dataclass(frozen=True)
class Change:
    """A metric's relative difference."""

    section: str
    """The section to which the metric belongs."""
    label: str
    percent: float
    low: float
    """Lower end of the 95 % interval, in percent."""
    high: float
    word: str = ""
    """`better` or `worse`; empty if neither is known."""


def differences(changes: Sequence[Change], title: str) -> Drawing:
    """A line for each metric, below its section, with its change in percent and interval.

    Blue is lower, vermilion is higher, and grey is not clearly different from zero. A word at the
    right says whether a change is better or worse. If a change is very large, the axis is
    logarithmic beyond 100 %.
    """
    bars: list[Bar] = []
    for section in dict.fromkeys(change.section for change in changes):
        bars.append(Bar(section, head=True))
        bars += [_bar(change) for change in changes if change.section == section]
    ends = [0.0, *(end for c in changes for end in (c.low, c.high, c.percent))]
    low, high = min(ends), max(ends)
    wide = max(-low, high) > WIDE
    margin = 0.06 * (high - low) or 1.0
    beyond = f", logarithmic beyond {LINEAR_TO:g} %" if wide else ""
    return Drawing(
        title,
        Axis(
            f"difference as a share of the first, with 95 % interval{beyond} (%)",
            ends=(low - margin, high + margin),
            linear_to=LINEAR_TO if wide else None,
        ),
        Axis(""),
        bars=bars,
        height=1.4 + 0.23 * len(bars),
    )


def _bar(change: Change) -> Bar:
    color = "blue" if change.high < 0 else "vermilion" if change.low > 0 else "muted"
    return Bar(
        change.label,
        interval=(change.low, change.high),
        at=change.percent,
        color=color,
        text=change.word,
        aside=True,
    )
