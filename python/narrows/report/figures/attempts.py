"""At which attempt DNS queries were answered."""

from __future__ import annotations

from matplotlib.figure import Figure

from narrows.report import style
from narrows.report.figures import share_bars
from narrows.report.style import BLUE, VERMILION
from narrows.results import Run

__all__ = ["attempts"]


@style.styled
def attempts(run: Run) -> Figure:
    """Share of the measured queries answered at attempt 1, 2, ..., and of those never answered.

    The first attempt's bar carries its 95 % interval.

    Raises:
        ValueError: The run has no measured query that is done.
    """
    dns = run.summary["dns"]
    if not dns or not dns["queries"]:
        raise ValueError("the run has no measured DNS query")
    names = [f"attempt {n}" for n in range(1, len(dns["answered_at_attempt"]) + 1)]
    shares = [*dns["answered_at_attempt_percent"], dns["unanswered_percent"]]
    counts = [*dns["answered_at_attempt"], dns["unanswered"]]
    figure, axes = style.new_figure(height=1.6 + 0.36 * len(shares))
    colors = [BLUE] * len(names) + [VERMILION]
    axes.barh(range(len(shares)), shares, share_bars.THICK, color=colors)
    low, high = dns["first_attempt_interval_percent"]
    label = "95 % interval of the first attempt's share"
    share_bars.interval(axes, 0, shares[0], (low, high), label)
    for at, (share, count) in enumerate(zip(shares, counts, strict=True)):
        share_bars.say(axes, at, high if at == 0 else share, f"{share:.2f} %  ({count})")
    title = "DNS queries by the attempt that was answered"
    share_bars.complete(axes, [*names, "unanswered"], title)
    style.below(figure)
    return figure
