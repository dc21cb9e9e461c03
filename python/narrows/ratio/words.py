"""An analysis in words and as a table."""

from __future__ import annotations

from collections.abc import Sequence

from narrows.ratio.analysis import Group, RatioAnalysis
from narrows.ratio.failures import Failures
from narrows.ratio.regression import is_pattern, say_line
from narrows.ratio.resampling import Interval
from narrows.results import TextTable
from narrows.results.exchanges import NEAR_MS

HEADER = (
    "",
    "pairs",
    "vantages",
    "median",
    "95 % interval",
    "mode",
    "1.8-2.2",
    "2.7-3.3",
    "above 4",
    "above 10",
    "excess (ms)",
)
"""The columns of `peaks_row`."""


def peaks_row(group: Group) -> tuple[str, ...]:
    """A group's metrics as text."""
    peaks = group.peaks
    shares = [f"{100 * peaks.shares[name]:.1f} %" for name in _SHARES]
    return (
        group.label,
        f"{peaks.count}",
        f"{peaks.vantages}",
        f"{peaks.quantiles[0.5]:.3f}",
        _interval(peaks.median_interval),
        f"{peaks.mode:.3f}",
        *shares,
        f"{group.excess_ms[0]:+.2f}",
    )


_SHARES = ("around_2", "around_3", "above_4", "above_10")


def say_group(group: Group) -> list[str]:
    """Says in sentences what a group's ratios show about its server."""
    peaks = group.peaks
    said = _truncated(group)
    if why := _too_little(group):
        return [f"{group.label}: {why}.", *said]
    tall = [peak for peak in peaks.peaks if peak.share >= 0.1]
    if len(tall) == 1:
        said.append(f"{group.label}: the ratios cluster at {tall[0].ratio:.2f}.")
    elif tall:
        at = " and ".join(f"{peak.ratio:.2f} ({100 * peak.share:.0f} %)" for peak in tall)
        said.append(f"{group.label}: the ratios have {len(tall)} peaks, at {at}.")
    else:
        said.append(f"{group.label}: the ratios have no peak with a tenth of the pairs.")
    if peaks.shares["above_4"] >= 0.1:
        said.append(
            f"{100 * peaks.shares['above_4']:.0f} % of the pairs are above 4: TCP waits for "
            "something, such as a free slot for a connection."
        )
    line = group.line
    if len(tall) > 1 and line is not None and is_pattern(line):
        said.append(
            "A line through medians does not describe several peaks: look at the days and the "
            "vantage points separately."
        )
    elif line is not None:
        said.append(say_line(line))
    return said


def _truncated(group: Group) -> list[str]:
    """Sentences on the additional wait of clients if every answer over UDP was truncated."""
    if not group.all_truncated or group.udp_ms < NEAR_MS:
        return []
    ratio = group.peaks.quantiles[0.5]
    return [
        f"{group.label}: all answers over UDP are truncated, and clients wait for those too: the "
        f"median ratio is {ratio:.2f}; {1.0 + ratio:.2f} with the truncated query before it."
    ]


def _too_little(group: Group) -> str:
    """Why `say_group` says nothing about a group's peaks; empty if it does."""
    if group.peaks.count < FEWEST:
        return (
            f"{group.peaks.count} pair{'' if group.peaks.count == 1 else 's'} show no peaks; at "
            f"least {FEWEST} are needed"
        )
    udp_ms = group.udp_ms
    if udp_ms < NEAR_MS:
        return (
            f"UDP takes {udp_ms:.2g} ms; below {NEAR_MS:g} ms a ratio depends on the machines, "
            "not on the path"
        )
    return ""


FEWEST = 30
"""With fewer pairs, a density has peaks by chance."""


def say_failures(part: Failures) -> str:
    """Describes one transport's failures in a sentence."""
    where = f"{part.server} over {part.transport.upper()}"
    left = sum(part.left_out.values())
    tail = f"; {left} more were never asked or only half seen" if left else ""
    if not part.asked:
        return f"{where}: nothing was asked{tail}."
    kinds = ", ".join(f"{count} {kind}" for kind, count in part.kinds.items())
    detail = f": {kinds}" if kinds else ""
    return (
        f"{where}: {part.failed} of {part.asked} unanswered "
        f"({100 * part.share:.2f} %{_percent(part.interval)}{_trials(part)}){detail}{tail}."
    )


def _trials(part: Failures) -> str:
    if part.trials is None:
        return ""
    return (
        f"; queries of a vantage point are not independent, so the interval counts {part.trials} "
        "vantage points"
    )


def say_server(analysis: RatioAnalysis, group: Group) -> list[str]:
    """Says what a server's ratios show; if it has several measurements, for each of them."""
    parts = analysis.by_source(group.server)
    if not parts:
        return say_group(group)
    said = [sentence for part in parts for sentence in say_group(part)]
    return [
        *said,
        f"{group.server}: its own row combines {len(parts)} measurements, which may differ; hint: "
        "narrows compare compares two of them.",
    ]


def summary_text(analysis: RatioAnalysis) -> TextTable:
    """The table that `narrows ratio` prints."""
    groups: Sequence[Group] = analysis.by_server
    rows = [peaks_row(group) for group in groups]
    sections = [("", rows)]
    measured = [part for group in groups for part in analysis.by_source(group.server)]
    if measured:
        sections.append(("by measurement", [peaks_row(group) for group in measured]))
    if len(analysis.days) > 1:
        sections.append(("by day", [peaks_row(group) for group in analysis.by_server_and_day]))
    if len(groups) > 1:
        sections.append(("together", [peaks_row(analysis.whole)]))
    notes = [f"warning: {warning}" for warning in analysis.warnings]
    notes += [sentence for group in groups[:13] for sentence in say_server(analysis, group)]
    notes += analysis.verdicts[:26]
    notes += [say_failures(part) for part in analysis.failures[:26]]
    return TextTable("", HEADER, sections, notes)


def _interval(interval: Interval | None) -> str:
    return "-" if interval is None else f"{interval[0]:.3f} to {interval[1]:.3f}"


def _percent(interval: Interval | None) -> str:
    if interval is None:
        return ""
    return f", 95 %: {100 * interval[0]:.2f} to {100 * interval[1]:.2f}"
