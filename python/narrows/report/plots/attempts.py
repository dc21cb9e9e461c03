"""At which attempt DNS queries were answered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from matplotlib.figure import Figure

from narrows.report import style
from narrows.report.plots import share_bars
from narrows.report.source import asked
from narrows.report.style import BLUE, VERMILION
from narrows.results import Run


@style.styled
def attempts(run: Run) -> Figure:
    """Share of the measured queries answered at attempt 1, 2, ..., and of those never answered.

    Each DNS group has bars of its own. The first attempt's bar carries its 95 % interval.

    Raises:
        ValueError: The run has no measured query that is done.
    """
    known = {group: dns for group, dns in asked(run.summary).items() if dns["queries"]}
    if not known:
        raise ValueError("the run has no measured DNS query")
    rows = {group: _rows(dns, is_alone=len(known) == 1) for group, dns in known.items()}
    figure, axes = style.new_figure(height=1.6 + 0.36 * sum(map(len, rows.values())))
    label = "95 % interval of the first attempt's share"
    names: list[str] = []
    for group, dns in known.items():
        first = len(names)
        low, high = dns["first_attempt_interval_percent"]
        for at, (name, share, count) in enumerate(rows[group], start=first):
            color = VERMILION if name == _UNANSWERED else BLUE
            axes.barh(at, share, share_bars.THICK, color=color)
            right = high if at == first else share
            share_bars.say(axes, at, right, f"{share:.2f} %  ({count})")
            names.append(f"{group}, {name}" if group else name)
        share = dns["first_attempt_percent"]
        share_bars.interval(axes, first, share, (low, high), "" if first else label)
    share_bars.complete(axes, names, "DNS queries by the attempt that was answered")
    style.below(figure)
    return figure


_UNANSWERED = "unanswered"


def _rows(dns: Mapping[str, Any], *, is_alone: bool) -> list[tuple[str, float, int]]:
    """The name of each bar, its share in percent and its count.

    If there are several groups, only those with unanswered queries have a bar for these.
    """
    counts, shares = dns["answered_at_attempt"], dns["answered_at_attempt_percent"]
    rows = [
        (f"attempt {number}", share, count)
        for number, (share, count) in enumerate(zip(shares, counts, strict=True), start=1)
    ] or [("attempt 1", 0.0, 0)]
    if is_alone or dns["unanswered"]:
        rows.append((_UNANSWERED, dns["unanswered_percent"], dns["unanswered"]))
    return rows
