"""The plots of the reproduction: Tables I, II and IV as bars, Figure 2, and response times."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from narrows.report.picture import Picture, pictures
from narrows.report.style import BLUE, INK, MUTED, VERMILION, new_figure, styled
from narrows.reproduce.harhalakis_2011 import kernel, published
from narrows.reproduce.harhalakis_2011.cells import ECN_TITLES
from narrows.reproduce.queue_colours import QUEUE_COLOURS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from narrows.reproduce.claims import Series
    from narrows.reproduce.measurements import Measurements

_PUBLISHED, _OURS, _KERNEL = "#b3bac3", BLUE, VERMILION
_FIFO, _RED, _ECN = (QUEUE_COLOURS[queue] for queue in ("fifo", "red", "red-ecn"))
_QUEUES = {"fifo-300": ("FIFO", _FIFO), "red-300-none": ("RED", _RED)}
_RESPONSES = {
    "fifo-300": ("FIFO", _FIFO, "-"),
    "red-300-none": ("RED, no ECN", _RED, "-"),
    "red-300-half": ("RED, 50 % ECN", _ECN, "--"),
    "red-300-all": ("RED, only ECN", _ECN, "-"),
}
"""Name, colour and line."""


@styled
def plots(outcome: Measurements) -> list[Picture]:
    """The plots that the runs allow."""
    marked = _NEIGHBOURS_CAPTION if outcome.runs(kernel.NEIGHBOURS) else ""
    drawn = (
        ("first-attempt", _success(outcome), _SUCCESS_CAPTION + marked),
        ("drop-rate", _drop_rate(outcome), _DROP_CAPTION),
        ("response-time", _responses(outcome), _RESPONSE_CAPTION),
    )
    return pictures(drawn)


_SUCCESS_CAPTION = (
    "Success of the first attempt: what the paper printed, what Linux 6.1 gave in the same test "
    "bed (User-Mode Linux, in virtual time; the middle and the range of its runs), and the mean of "
    "narrows with its 95 % interval. Where there is no bar of the kernel, it was not measured."
)
_NEIGHBOURS_CAPTION = (
    " ARP decides the cell marked *: both the kernel and narrows give 0 % there when neighbour "
    "entries are permanent."
)
_DROP_CAPTION = (
    "Figure 2: drop rate as the paper's moving average (a = 0.9 over slots of 100 ms). DNS starts "
    "at 10 s. The strong line is the mean over seeds, the faint one a single run."
)
_RESPONSE_CAPTION = (
    "Response time of measured queries, from the first attempt's sending to the answer. The steps "
    "a little after 1, 3 and 5 s are the second attempt and those that follow, as the Windows "
    "schedule sends them."
)


def _success(outcome: Measurements) -> Figure | None:
    cells = [cell for cell in published.FIRST_ATTEMPT_PERCENT if outcome.runs(cell)]
    if not cells:
        return None
    figure, axes = new_figure(4.6, max(8.0, 0.86 * len(cells) + 0.8))
    labelled: set[str] = set()

    def bar(
        place: float,
        value: float,
        width: float,
        colour: str,
        label: str,
        half: float,
        mark: str = "",
    ) -> None:
        axes.bar(
            place,
            value,
            width,
            color=colour,
            yerr=half or None,
            error_kw={"ecolor": INK, "capsize": 2.5, "linewidth": 1.1},
            label=None if label in labelled else label,
        )
        labelled.add(label)
        axes.annotate(
            f"{value:.1f}{mark}",
            (place, value + half),
            textcoords="offset points",
            xytext=(0, 3),
            ha="center",
            fontsize=7.2,
        )

    # Few cases get narrower bars in units of the axis, so that they look as wide as many cases'.
    narrow = min(1.0, max(0.4, len(cells) / 8))
    for place, cell in enumerate(cells):
        ours = outcome.interval(cell, "first_attempt")
        assert ours is not None, "the cell was run"
        values = kernel.first_attempt(cell, judged=True)
        width = narrow * (0.31 if values else 0.4)
        shift = width if values else width / 2
        printed = published.FIRST_ATTEMPT_PERCENT[cell]
        bar(place - shift, printed, width, _PUBLISHED, "published", 0.0)
        if values:
            middle = (min(values) + max(values)) / 2
            half = (max(values) - min(values)) / 2
            bar(
                place,
                middle,
                width,
                _KERNEL,
                "Linux 6.1 in User-Mode Linux, range of its runs",
                half,
            )
        half = ours.half_width if ours.count > 1 else 0.0
        mark = "*" if cell == kernel.NEIGHBOURS else ""
        bar(place + shift, ours.mean, width, _OURS, "narrows, 95 % interval", half, mark)
    axes.set_xticks(range(len(cells)), [_tick(cell) for cell in cells], fontsize=9)
    axes.set_xlabel("queue, share of the background with ECN, delay ± jitter of the Internet link")
    axes.set_ylabel("queries answered at the first attempt, %")
    axes.set_ylim(0, 104)
    axes.grid(visible=False, axis="x")
    axes.set_xlim(-0.55, len(cells) - 0.45)
    axes.set_title("DNS queries answered at the first attempt, by queue")
    figure.legend(loc="outside lower left", ncols=3, fontsize=9.5)
    return figure


def _tick(cell: str) -> str:
    queue, _, rest = cell.partition("-")
    delay = {"300": "100±25 ms", "200-20": "20±5 ms", "200-50": "50±5 ms"}
    if queue == "fifo":
        return f"FIFO\n{delay[rest]}"
    place, _, share = rest.rpartition("-")
    return f"RED\n{ECN_TITLES[share]}\n{delay[place]}"


def _drop_rate(outcome: Measurements) -> Figure | None:
    curves = {cell: outcome.curves(cell, "ewma") for cell in _QUEUES}
    if not any(curves.values()):
        return None
    figure, axes = new_figure(4.2, 8.0)
    for cell, found in curves.items():
        if not found:
            continue
        name, colour = _QUEUES[cell]
        times, mean = _mean(found)
        axes.plot(found[0][0], found[0][1], color=colour, linewidth=0.8, alpha=0.4)
        axes.plot(times, mean, color=colour, linewidth=2.0, label=name)
    start = published.FIGURE_2_DNS_START_S
    axes.axvline(start, color=MUTED, linewidth=1.0, linestyle="--")
    axes.annotate(
        "DNS starts",
        (start, 1.0),
        xycoords=("data", "axes fraction"),
        textcoords="offset points",
        xytext=(3, 3),
        fontsize=8.5,
        color=MUTED,
    )
    axes.set_title("Figure 2: drops over time, FIFO and RED", pad=20.0)
    axes.set_xlabel("time, s (strong lines: mean of all seeds; faint: one seed)")
    axes.set_ylabel("drops per second, moving average")
    axes.set_ylim(bottom=0)
    axes.margins(x=0)
    axes.legend(loc="lower right")
    return figure


def _mean(curves: list[Series]) -> Series:
    length = min(len(times) for times, _ in curves)
    columns = ([values[index] for _, values in curves] for index in range(length))
    return curves[0][0][:length], [statistics.fmean(column) for column in columns]


def _responses(outcome: Measurements) -> Figure | None:
    curves = {cell: outcome.curves(cell, "cdf") for cell in _RESPONSES}
    if not any(curves.values()):
        return None
    figure, axes = new_figure(4.2, 8.0)
    for cell, found in curves.items():
        if not found:
            continue
        name, colour, line = _RESPONSES[cell]
        shares = found[0][1]
        # Quantiles averaged over seeds.
        times = [statistics.fmean(column) for column in zip(*(t for t, _ in found), strict=True)]
        percent = [100.0 * share for share in shares]
        axes.step(times, percent, line, color=colour, where="post", label=name)
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(10, subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_title("Response time of DNS queries, delay 100±25 ms")
    axes.set_xlabel("response time, ms (logarithmic)")
    axes.set_ylabel("queries answered within this time, %")
    axes.set_ylim(0, 101)
    axes.legend(loc="lower right")
    return figure
