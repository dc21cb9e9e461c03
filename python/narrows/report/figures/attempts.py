"""At which attempt DNS queries were answered."""

from __future__ import annotations

from matplotlib.figure import Figure

from narrows.report import style
from narrows.report.style import BLUE, INK, VERMILION
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
    axes.barh(range(len(shares)), shares, 0.62, color=colors)
    low, high = dns["first_attempt_interval_percent"]
    axes.errorbar(
        shares[0],
        0,
        xerr=[[shares[0] - low], [high - shares[0]]],
        color=INK,
        capsize=4,
        linewidth=1.4,
        label="95 % interval of the first attempt's share",
    )
    for at, (share, count) in enumerate(zip(shares, counts, strict=True)):
        axes.annotate(
            f"{share:.2f} %  ({count})",
            (high if at == 0 else share, at),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            fontsize=9.5,
        )
    axes.set_yticks(range(len(shares)), [*names, "unanswered"])
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.set_xlim(0.0, 125.0)
    axes.set_xticks(range(0, 101, 20))
    axes.set_title("DNS queries by the attempt that was answered")
    axes.set_xlabel("share of the measured queries (%)")
    style.below(figure)
    return figure
