"""The report of a comparison: one HTML file that needs nothing else, and its plots as files."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from narrows.plot_files import PlotFile
from narrows.records import Declaration
from narrows.report import plots
from narrows.report.bars import MOST_GROUPS
from narrows.report.extras import extra_plots
from narrows.report.files import file_name, write_page
from narrows.report.page import Shown, live, render, shown_on_page, write_plots
from narrows.report.plots.differences import Change, differences
from narrows.report.plots.first_attempt import Share, first_attempt
from narrows.report.run_report import PLOTS, REPORT_FILE
from narrows.report.shown import shown_of
from narrows.report.source import ends_text, monitored_links, monitored_queues
from narrows.results import Run
from narrows.results.compare import Comparison, Group, Sample
from narrows.results.compare_text import FIRST, arranged, chosen
from narrows.results.extras import records
from narrows.results.intervals import of_seeds, wilson
from narrows.results.success import FIRST_ATTEMPT, WITHIN_1S, counted

T = TypeVar("T")

RESULT_FILE = "comparison.json"

_SHARES = {
    FIRST_ATTEMPT: ("first-attempt", "at the first attempt"),
    WITHIN_1S: ("within-a-second", "within a second"),
}
"""The shares of queries that may lead: the plot's name, and how queries were answered, in words.
"""


def write_comparison(
    comparison: Comparison | Sequence[Comparison],
    out: str | Path,
    kinds: Sequence[PlotFile] = (),
) -> Path:
    """Writes `report.html` and `comparison.json`, and plots in `plots/` if kinds are named.

    Args:
        comparison: A comparison, or several, each with its setting.
        out: The folder.
        kinds: The file types in which plots are written.

    Returns:
        The page's path.

    Raises:
        RunFolderError: They cannot be written.
    """
    folder = Path(out)
    several = [comparison] if isinstance(comparison, Comparison) else list(comparison)
    shown = [comparison_plots(one) for one in several]
    if len(several) > 1:
        shown = [
            [replace(plot, name=f"{number}-{plot.name}") for plot in of_one]
            for number, of_one in enumerate(shown, start=1)
        ]
    for one, of_one in zip(several, shown, strict=True):
        write_plots(of_one, folder / PLOTS, kinds, one)
    documents = [one.document() for one in several]
    document = documents[0] if isinstance(comparison, Comparison) else {"comparisons": documents}
    write_page(folder / RESULT_FILE, json.dumps(document, indent=2) + "\n")
    parts = [_part(one, of_one) for one, of_one in zip(several, shown, strict=True)]
    on_page = [plot for part in parts for plot in (*part["head"], *part["plots"])]
    sweeps = [_of_sweeps(one) for one in several]
    # Comparisons of the same sweeps have the same seeds, unless runs failed.
    shared = sweeps[0] if len(sweeps) > 1 and all(one == sweeps[0] for one in sweeps) else []
    for part, of_sweeps in zip(parts, sweeps, strict=True):
        part["of_sweeps"] = of_sweeps
    page = render("comparison.html", parts=parts, shared=shared, live=live(on_page))
    return write_page(folder / REPORT_FILE, page)


def comparison_plots(comparison: Comparison) -> list[Shown]:
    """The plots that the groups allow, with every seed of each.

    A sweep's runs have no tables, so only the differences are drawn for them.
    """
    shown = [
        Shown(
            "differences" + (f"-{number}" if len(comparison.groups) > 2 else ""),
            differences(changes, f"How {group.label} differs from {comparison.groups[0].label}"),
            f"Lines: relative difference of each metric of {group.label}, with its interval.",
            "95 % intervals; blue: lower, vermilion: higher, grey: no difference seen."
            + _verdicts_explained(changes),
        )
        for number, group in enumerate(comparison.groups)
        if (changes := _changes(comparison, number))
    ]
    firsts = {group.label: group.runs[0] for group in comparison.groups}
    runs = {label: run for label, run in firsts.items() if isinstance(run, Run)}
    if len(runs) < len(firsts):
        return shown
    others = {
        group.label: [run for run in group.runs[1:] if isinstance(run, Run)]
        for group in comparison.groups
    }
    declared = declared_comparison(runs)
    others_shown = [shown_of(each, runs, others) for each in declared]
    return [*shown, *_share_bars(comparison), *others_shown, *extra_plots(runs, others)]


def declared_comparison(runs: Mapping[str, Run]) -> list[Declaration]:
    """The plots in which several runs, by label, have a curve each."""
    found = [*_response_plots(runs)]
    for link in _common([monitored_queues(run) for run in runs.values()]):
        found += _queue_plots(runs, link)
    for link, ecn in _common([plots.waiting_classes(run) for run in runs.values()]):
        found.append(
            replace(
                plots.waits(runs, link, ecn),
                alt=f"Curves: how long {ecn} packets waited at {link} in each case.",
                caption="Every packet that was sent counts; times are exact to 1.6 %.",
            )
        )
    for group, direction in _common([plots.delayed_groups(run) for run in runs.values()]):
        found.append(
            replace(
                plots.delays(runs, (group, direction)),
                alt=f"Curves: how long packets of {group} took {direction} in each case.",
                caption="Every packet that arrived counts; times are exact to 1.6 %.",
            )
        )
    for link in _common([monitored_links(run) for run in runs.values()]):
        found.append(
            replace(
                plots.utilisation(runs, link),
                alt=f"Curves: throughput of {link} in each case{_busy(runs, link)}.",
                caption="What the link carried, framing included.",
            )
        )
    common = _common([plots.goodput_groups(run) for run in runs.values()])
    for series in common:
        name = plots.series_name(series, common)
        found.append(
            replace(
                plots.goodputs(runs, series, name),
                name=f"goodput-{file_name(name)}",
                alt=f"Curves: goodput of {name} in each case.",
                caption="Payload that reached the receiving applications in order.",
            )
        )
    return found


def _busy(runs: Mapping[str, Run], link: str) -> str:
    """How busy a link was in each case, where that is known."""
    shares = {
        label: run.summary["links"][link]["run"]["utilisation_percent"]
        for label, run in runs.items()
    }
    known = [f"{share:.1f} % in {label}" for label, share in shares.items() if share is not None]
    return f"; it was busy {', '.join(known)} of the time" if known else ""


def _share_bars(comparison: Comparison) -> list[Shown]:
    """Bars of the leading share of queries; several DNS groups have bars of their own."""
    share = WITHIN_1S if comparison.attempts_mislead else FIRST_ATTEMPT
    name, words = _SHARES[share]
    asking: list[str | None] = [*_dns_groups(comparison)] or [None]
    bars = [
        bar for asked in asking for group in comparison.groups if (bar := _bar(group, share, asked))
    ]
    if len(bars) < len(comparison.groups):
        return []
    values = ", ".join(f"{bar.label} {bar.percent:.2f} %" for bar in bars)
    return [
        Shown(
            name,
            first_attempt(bars, f"DNS queries answered {words}"),
            f"Bars: queries answered {words}: {values}.",
            "Intervals: Student's t over the seeds where they show a spread, else Wilson's "
            "over the queries.",
        )
    ]


def _response_plots(runs: Mapping[str, Run]) -> list[Declaration]:
    """Response times, if each run has measured queries; several DNS groups have one plot each."""
    if not all((run.summary.get("dns") or {}).get("queries") for run in runs.values()):
        return []
    found = []
    asking: list[str | None] = [*_groups_of(list(runs.values()))] or [None]
    for asked in asking:
        declared = plots.response_cdf(runs, asked)
        found.append(
            replace(
                declared,
                name=declared.name if asked is None else f"response-cdf-{file_name(asked)}",
                alt=f"Curves: response time of {asked or 'DNS queries'} in each case.",
                caption="Steps far to the right come from lost packets, for which a timer has to "
                "end, or from connections that the server refused or closed.",
            )
        )
    return found


def _dns_groups(comparison: Comparison) -> list[str]:
    return _groups_of([run for group in comparison.groups for run in group.runs[:1]])


def _groups_of(runs: Sequence[Sample]) -> list[str]:
    """The DNS groups with plots of their own; empty for one group, or for too many."""
    found = [str(name) for run in runs for name in (run.summary.get("dns_groups") or {})]
    names = list(dict.fromkeys(found))
    return names if 1 < len(names) <= MOST_GROUPS else []


def _queue_plots(runs: Mapping[str, Run], link: str) -> list[Declaration]:
    found = [
        replace(
            plots.backlog(runs, link),
            alt=f"Curves: backlog at {link} in each case.",
            caption="What waits in the queue, without the card's ring.",
        )
    ]
    means = [run.summary["queues"][link]["run"]["sojourn_mean_ms"] for run in runs.values()]
    if any(mean is not None for mean in means):
        found.append(
            replace(
                plots.sojourn(runs, link),
                alt=f"Curves: time in queue and ring at {link} in each case.",
                caption="Mean over the packets that left since the last sample.",
            )
        )
    found.append(
        replace(
            plots.drop_rate(runs, link),
            alt=f"Curves: drops at {link} in each case.",
            caption="Counted in slots of 100 ms and smoothed as V(n) = 0.9 V(n-1) + 0.1 P(n).",
        )
    )
    return found


def _changes(comparison: Comparison, number: int) -> list[Change]:
    """The changes of a group's metrics, in percent, for metrics that have an interval."""
    found = []
    for row in comparison.telling:
        difference = row.differences[number]
        if difference is None or difference.relative is None:
            continue
        if difference.relative_low is None or difference.relative_high is None:
            continue
        if row.is_score or (row.key == FIRST_ATTEMPT and comparison.attempts_mislead):
            continue
        if difference.verdict != "same":
            found.append(
                Change(
                    row.section,
                    row.name + (f" ({row.unit})" if row.unit else ""),
                    100.0 * difference.relative,
                    100.0 * difference.relative_low,
                    100.0 * difference.relative_high,
                    row.word(number),
                )
            )
    return found


def _verdicts_explained(changes: Sequence[Change]) -> str:
    if not any(change.word for change in changes):
        return ""
    return " At the right: whether a difference is better or worse, if that is known."


def _part(comparison: Comparison, shown: list[Shown]) -> dict[str, Any]:
    """The page's data on a comparison."""
    sections = chosen(comparison)
    # A few metrics fit into one table.
    count = 1 if sections and sections[0][0] == FIRST else len(sections)
    header, leading = arranged(comparison, sections[:count])
    _, others = arranged(comparison, sections[count:])
    head = _head(comparison, shown)
    on_page = shown_on_page(shown)
    return {
        "comparison": comparison,
        "header": header,
        "leading": leading,
        "ends": _ends(comparison),
        "head": on_page[head : head + 1],
        "plots": on_page[:head] + on_page[head + 1 :],
        "others": others,
        "has_curves": any(each.alt.startswith("Curves") for each in shown),
        "has_seeds": any(len(group.runs) > 1 for group in comparison.groups),
    }


def _ends(comparison: Comparison) -> str:
    """Where links lead, if they lead to the same nodes in all groups; else empty."""
    firsts = [group.runs[0] for group in comparison.groups]
    found = {ends_text(run) if isinstance(run, Run) else "" for run in firsts}
    return found.pop() if len(found) == 1 else ""


def _head(comparison: Comparison, shown: Sequence[Shown]) -> int:
    """The index of the plot at the top, which shows what matters most."""
    table = next((row.key.partition(".")[0] for row in comparison.leading), "")
    wanted = [name for name, _ in _SHARES.values()]
    if table in records():
        wanted += [plot.name for plot in records()[table].plots]
    for name in wanted:
        for place, each in enumerate(shown):
            if re.match(rf"(\d+-)?{re.escape(name)}(-|$)", each.name):
                return place
    return 0


def _of_sweeps(comparison: Comparison) -> list[tuple[str, str]]:
    """Groups and their seeds if all runs are of sweeps that kept no folders; else empty."""
    runs = [run for group in comparison.groups for run in group.runs]
    if any(run.folder or isinstance(run, Run) for run in runs):
        return []
    return [(group.label, _seeds(group.seeds)) for group in comparison.groups]


def _seeds(seeds: list[int]) -> str:
    if len(seeds) > 2 and sorted(seeds) == list(range(min(seeds), max(seeds) + 1)):
        return f"{min(seeds)} to {max(seeds)}"
    return ", ".join(map(str, seeds))


def _asked_by(run: Sample, name: str) -> Any:
    """The metrics of a DNS group; None if the run does not have it."""
    groups = run.summary.get("dns_groups")
    if groups:
        return groups.get(name)
    only = isinstance(run, Run) and name in run.queries.get_column("group")
    return run.summary.get("dns") if only else None


def _bar(group: Group, share: str, asked: str | None = None) -> Share | None:
    """A bar for a share of the queries, of all or of one DNS group, with its interval.

    None without measured queries.
    """
    summaries: list[Mapping[str, Any]] = [
        run.summary if asked is None else {"dns": _asked_by(run, asked)} for run in group.runs
    ]
    label = group.label if asked is None else f"{asked}, {group.label}"
    shares = [(summary.get("dns") or {}).get(share.removeprefix("dns.")) for summary in summaries]
    known = [value for value in shares if value is not None]
    if not known or len(known) < len(shares):
        return None
    mean = sum(known) / len(known)
    if over_seeds := of_seeds(known, 0.0, 100.0):
        return Share(label, mean, *over_seeds)
    of_queries = counted(summaries, share)
    low, high = wilson(*of_queries) if of_queries else (mean / 100.0, mean / 100.0)
    return Share(label, mean, 100.0 * low, 100.0 * high)


def _common(found: list[list[T]]) -> list[T]:
    """The entries that every list has, in the order of the first."""
    return [each for each in found[0] if all(each in others for others in found)]
