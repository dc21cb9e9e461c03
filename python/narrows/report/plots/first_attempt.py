"""First-attempt success of DNS queries, or another share of them, with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from narrows.records.plotted import Axis
from narrows.report.bars import PERCENT
from narrows.report.drawing import Bar, Drawing, Part


@dataclass(frozen=True)
class Share:
    """The share of one case."""

    label: str
    percent: float
    """Percent of the queries answered at the first attempt, or the share that the title names."""
    low: float
    """Lower end of the interval, in percent."""
    high: float
    """Upper end of the interval, in percent."""


def first_attempt(shares: Sequence[Share], title: str) -> Drawing:
    """A bar for each case, from zero, with its interval."""
    bars = [
        Bar(
            share.label,
            [Part(0.0, share.percent)],
            (share.low, share.high),
            text=f"{share.percent:.2f} %",
        )
        for share in shares
    ]
    return Drawing(
        title,
        PERCENT,
        Axis(""),
        bars=bars,
        interval="95 % interval",
        height=1.6 + 0.36 * len(bars),
    )
