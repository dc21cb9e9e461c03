"""The report of a comparison: one HTML file that needs nothing else, and its figures as files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from narrows.report import figures
from narrows.report.extras import extra_figures
from narrows.report.figures import Bar, Change
from narrows.report.page import Shown, render, shown_on_page, write_figures, write_page
from narrows.report.run_report import FIGURES, REPORT_FILE
from narrows.report.source import monitored_links, monitored_queues
from narrows.results import Run
from narrows.results.compare import Comparison, Group, interval_text, signed
from narrows.results.intervals import wilson
from narrows.results.metrics import value_text
from narrows.results.student import t_half_width

__all__ = ["comparison_figures", "write_comparison"]

RESULT_FILE = "comparison.json"


def write_comparison(comparison: Comparison | Sequence[Comparison], out: str | Path) -> Path:
    """Writes `report.html`, `comparison.json` and `figures/*.png` and `.svg` into ``out``.

    Args:
        comparison: A comparison, or several, each of which has a setting.
        out: Folder.

    Returns:
        The page's path.

    Raises:
        RunFolderError: They cannot be written.
    """
    folder = Path(out)
    several = [comparison] if isinstance(comparison, Comparison) else list(comparison)
    shown = [comparison_figures(one) for one in several]
    if len(several) > 1:
        shown = [
            [replace(figure, name=f"{number}-{figure.name}") for figure in of_one]
            for number, of_one in enumerate(shown, start=1)
        ]
    write_figures([figure for of_one in shown for figure in of_one], folder / FIGURES)
    documents = [one.document() for one in several]
    document = documents[0] if isinstance(comparison, Comparison) else {"comparisons": documents}
    write_page(folder / RESULT_FILE, json.dumps(document, indent=2) + "\n")
    parts = [_part(one, of_one) for one, of_one in zip(several, shown, strict=True)]
    return write_page(folder / REPORT_FILE, render("comparison.html", parts=parts))


def comparison_figures(comparison: Comparison) -> list[Shown]:
    """The figures that the groups allow; of each group, its first run is drawn.

    A sweep's runs have no tables, and of these the differences alone are drawn.
    """
    shown = [
        Shown(
            "differences" + (f"-{number}" if len(comparison.groups) > 2 else ""),
            figures.differences(changes, f"{group.label} against {comparison.groups[0].label}"),
            f"Lines: relative difference of each figure of {group.label}, with its interval.",
            "95 % intervals; blue: lower, vermilion: higher, grey: no difference seen.",
        )
        for number, group in enumerate(comparison.groups)
        if (changes := _changes(comparison, number))
    ]
    firsts = {group.label: group.runs[0] for group in comparison.groups}
    runs = {label: run for label, run in firsts.items() if isinstance(run, Run)}
    if len(runs) < len(firsts):
        return shown
    bars = [bar for bar in map(_bar, comparison.groups) if bar is not None]
    if len(bars) == len(comparison.groups):
        values = ", ".join(f"{bar.label} {bar.percent:.2f} %" for bar in bars)
        shown.append(
            Shown(
                "first-attempt",
                figures.first_attempt(bars, "share, with 95 % interval"),
                f"Bars: queries answered at the first attempt: {values}.",
                "Intervals: Student's t over the seeds where there are two or more, else Wilson's "
                "over the queries.",
            )
        )
        shown.append(
            Shown(
                "response-cdf",
                figures.response_cdf(runs),
                "Curves: response time of DNS queries in each case.",
                "Steps far to the right are lost packets: each costs a timer.",
            )
        )
    for link in _common([monitored_queues(run) for run in runs.values()]):
        shown += _queue_figures(runs, link)
    for link in _common([monitored_links(run) for run in runs.values()]):
        shown.append(
            Shown(
                f"throughput-{link}",
                figures.utilisation(runs, link),
                f"Curves: throughput of {link} in each case.",
                "What the link carried, framing included.",
            )
        )
    return shown + extra_figures(runs)


def _queue_figures(runs: dict[str, Run], link: str) -> list[Shown]:
    return [
        Shown(
            f"backlog-{link}",
            figures.backlogs(runs, link),
            f"Curves: backlog at {link} in each case.",
            "What waits in the queue, without the card's ring.",
        ),
        Shown(
            f"sojourn-{link}",
            figures.sojourn(runs, link),
            f"Curves: time in queue and ring at {link} in each case.",
            "Mean over the packets that left since the last sample.",
        ),
        Shown(
            f"drops-{link}",
            figures.drop_rate(runs, link),
            f"Curves: drops at {link} in each case.",
            "Counted in slots of 100 ms and smoothed as V(n) = 0.9 V(n-1) + 0.1 P(n).",
        ),
    ]


def _changes(comparison: Comparison, number: int) -> list[Change]:
    """What a group's figures have changed by, in percent; those that have an interval."""
    found = []
    for row in comparison.rows:
        difference, first = row.differences[number], row.values[0]
        if difference is None or difference.low is None or difference.high is None or not first:
            continue
        if difference.verdict != "same":
            each = 100.0 / abs(first)
            found.append(
                Change(
                    row.section,
                    row.name + (f" ({row.unit})" if row.unit else ""),
                    each * difference.value,
                    each * difference.low,
                    each * difference.high,
                )
            )
    return found


def _part(comparison: Comparison, shown: list[Shown]) -> dict[str, object]:
    """What the page says of a comparison."""
    sections: dict[str, list[list[str]]] = {}
    for row in comparison.rows:
        cells = [row.name + (f" ({row.unit})" if row.unit else "")]
        for n, (value, difference) in enumerate(zip(row.values, row.differences, strict=True)):
            cells.append(value_text(value))
            if n and difference is not None:
                cells += [signed(difference.value), interval_text(difference)]
            elif n:
                cells += ["-", "-"]
        sections.setdefault(row.section, []).append(cells)
    return {
        "comparison": comparison,
        "figures": shown_on_page(shown),
        "sections": sections,
    }


def _bar(group: Group) -> Bar | None:
    """First-attempt success with an interval; None without measured queries."""
    of_runs = [run.summary.get("dns") for run in group.runs]
    if not all(dns and dns["queries"] for dns in of_runs):
        return None
    shares = [dns["first_attempt_percent"] for dns in of_runs if dns]
    mean = sum(shares) / len(shares)
    if len(shares) > 1:
        half = t_half_width(shares)
        return Bar(group.label, mean, max(0.0, mean - half), min(100.0, mean + half))
    total = sum(dns["queries"] for dns in of_runs if dns)
    first = sum(dns["answered_at_attempt"][0] for dns in of_runs if dns)
    low, high = wilson(first, total)
    return Bar(group.label, mean, 100.0 * low, 100.0 * high)


def _common(names: list[list[str]]) -> list[str]:
    """What is in every list, in the order of the first."""
    return [name for name in names[0] if all(name in others for others in names)]
