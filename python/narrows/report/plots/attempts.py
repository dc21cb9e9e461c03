"""At which attempt DNS queries were answered."""

from __future__ import annotations

from narrows.records.plotted import Axis, Declaration, Shares
from narrows.report.bars import PERCENT


def attempts() -> Declaration:
    """Share of the measured queries answered at attempt 1, 2, ..., and of those never answered.

    Each DNS group has bars of its own. The first attempt's bar carries its 95 % interval.
    """
    return Declaration(
        "attempts",
        "DNS queries by the attempt that was answered",
        PERCENT,
        Axis(""),
        bars=Shares(
            "queries",
            "attempt",
            "attempt {value}",
            "unanswered",
            {"measured": True},
            done="end_s",
            each="group",
            interval="95 % interval of the first attempt's share",
        ),
    )
