"""Compares two analyses: before and after an upgrade, two servers, IPv4 and IPv6.

If the same vantage points measured both, a bootstrap replicate draws the same ones for both, so
that common effects do not widen the interval of the difference.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from narrows.plot_files import PlotFile
from narrows.ratio.analysis import Group, RatioAnalysis, RatioError
from narrows.ratio.density import SMOOTHED
from narrows.ratio.plots import failures_plot, ratio_cdf, ridges_plot
from narrows.ratio.resampling import Interval, percentile_interval, weights
from narrows.records.numbers import Floats
from narrows.report.files import write_page
from narrows.report.page import Shown, live, render, shown_on_page, write_plots
from narrows.results import TextTable

_REPLICATES = 400


@dataclass(frozen=True)
class Row:
    """One metric of one server in both analyses."""

    server: str
    what: str
    unit: str
    first: float
    second: float
    interval: Interval | None
    """The 95 % interval of the difference."""

    @property
    def difference(self) -> float:
        """The second minus the first."""
        return self.second - self.first


@dataclass(frozen=True)
class RatioComparison:
    """What `narrows compare` says about two analyses."""

    labels: tuple[str, str]
    analyses: tuple[RatioAnalysis, RatioAnalysis]
    rows: tuple[Row, ...]
    paired: bool
    """Whether the same vantage points measured both."""

    def sentences(self) -> list[str]:
        """Warnings about what makes the two hard to compare, and then the real differences."""
        asked = [analysis.asked for analysis in self.analyses]
        cautions = []
        if all(asked) and asked[0] != asked[1]:
            cautions.append(
                f"The questions differ ({self.labels[0]}: {', '.join(asked[0])}; {self.labels[1]}: "
                f"{', '.join(asked[1])}), so differences may not come from the servers."
            )
        said = []
        for row in self.rows:
            if row.interval is None:
                continue
            low, high = row.interval
            if low > 0.0 or high < 0.0:
                word = "higher" if row.difference > 0 else "lower"
                # A difference of shares is in points, not in percent.
                unit = " points" if row.unit == " %" else row.unit
                said.append(
                    f"{row.server}: {row.what} is {word} by {abs(row.difference):.3g}{unit} "
                    f"(95 %: {low:.3g} to {high:.3g})."
                )
        return cautions + (said or ["No difference is larger than chance explains."])

    def table(self) -> TextTable:
        """The metrics for the terminal."""
        sections: dict[str, list[tuple[str, ...]]] = {}
        for row in self.rows:
            name = f"{row.what}{f' ({row.unit.strip()})' if row.unit.strip() else ''}"
            sections.setdefault(row.server, []).append((name, *_cells(row)))
        pairing = "the same vantage points" if self.paired else "different vantage points"
        notes = [*self.sentences(), f"Intervals: a bootstrap over {pairing}."]
        header = ("", *self.labels, "difference", "95 % interval")
        return TextTable("", header, list(sections.items()), notes)

    def document(self) -> dict[str, Any]:
        """The comparison as JSON values."""
        return {
            "labels": list(self.labels),
            "paired": self.paired,
            "rows": [
                {
                    "server": row.server,
                    "what": row.what,
                    "unit": row.unit.strip(),
                    "first": row.first,
                    "second": row.second,
                    "difference": row.difference,
                    "interval": row.interval,
                }
                for row in self.rows
            ],
        }

    def write(self, folder: Path, kinds: Sequence[PlotFile] = ()) -> Path:
        """Writes a report, and its plots as files if types are named.

        Raises:
            RunFolderError: The folder cannot be written.
        """
        groups: dict[str, Group] = {}
        for label, analysis in zip(self.labels, self.analyses, strict=True):
            for group in analysis.by_server:
                name = label if len(analysis.servers) == 1 else f"{label}: {group.server}"
                groups[name] = group
        plots = [
            Shown(
                "density",
                ridges_plot(groups),
                f"Densities of the ratio in {' and '.join(self.labels)}",
                f"Two round trips give 2; the length in a segment of its own gives 3. {SMOOTHED}",
            ),
            Shown("ratio", ratio_cdf(groups), "Distributions of the ratio", ""),
        ]
        for label, analysis, name in zip(
            self.labels, self.analyses, ("failures-1", "failures-2"), strict=True
        ):
            if any(part.asked for part in analysis.failures):
                alt = f"Unanswered queries in {label}"
                shown = Shown(name, failures_plot(analysis.failures), alt, f"{label}.")
                plots.append(shown)
        write_plots(plots, folder / "plots", kinds)
        text = render(
            "ratio_comparison.html",
            title=f"{self.labels[0]} against {self.labels[1]}",
            labels=self.labels,
            sentences=self.sentences(),
            rows=[(row.server, f"{row.what}{row.unit}", *_cells(row)) for row in self.rows],
            paired=self.paired,
            plots=shown_on_page(plots),
            live=live(plots),
        )
        return write_page(folder / "report.html", text)


def compare_ratios(analyses: Mapping[str, RatioAnalysis]) -> RatioComparison:
    """Compares two analyses server by server, or the only server of each.

    Raises:
        RatioError: There are not exactly two, or they have no server in common.
    """
    if len(analyses) != 2:
        raise RatioError(f"{len(analyses)} analyses are given; hint: name two")
    (first_label, first), (second_label, second) = analyses.items()
    pairs: list[tuple[str, Group, Group]] = []
    if len(first.servers) == len(second.servers) == 1:
        one, other = first.by_server[0], second.by_server[0]
        name = one.server if one.server == other.server else f"{one.server} and {other.server}"
        pairs.append((name, one, other))
    else:
        others = {group.server: group for group in second.by_server}
        pairs += [
            (group.server, group, others[group.server])
            for group in first.by_server
            if group.server in others
        ]
    if not pairs:
        raise RatioError(
            f"{first_label} and {second_label} have no server in common; "
            "hint: name analyses of one server each, or of the same servers"
        )
    paired = all(_same_vantages(one, other) for _, one, other in pairs)
    rows: list[Row] = []
    for name, one, other in pairs:
        rows += _rows(name, one, other, paired)
        rows += _failure_rows(name, first, second, one.server, other.server)
    return RatioComparison((first_label, second_label), (first, second), tuple(rows), paired)


def _percent(hits: npt.NDArray[np.bool_]) -> Floats:
    return np.where(hits, 100.0, 0.0).astype(np.float64)


_METRICS: Sequence[tuple[str, str, str, Callable[[Floats], Floats | None]]] = (
    ("median ratio", "", "ratio", lambda values: None),
    ("ratio from 1.8 to 2.2", " %", "ratio", lambda r: _percent((r >= 1.8) & (r <= 2.2))),
    ("ratio from 2.7 to 3.3", " %", "ratio", lambda r: _percent((r >= 2.7) & (r <= 3.3))),
    ("ratio above 4", " %", "ratio", lambda r: _percent(r > 4.0)),
    ("ratio above 10", " %", "ratio", lambda r: _percent(r > 10.0)),
    ("median of TCP - 2 UDP", " ms", "excess_ms", lambda values: None),
    ("median UDP time", " ms", "udp_ms", lambda values: None),
    ("median TCP time", " ms", "tcp_ms", lambda values: None),
)
"""Name, unit, column, and a function to average; if it returns None, the column's median."""


def _same_vantages(one: Group, other: Group) -> bool:
    mine, theirs = set(one.table["vantage"]), set(other.table["vantage"])
    return len(mine & theirs) >= 0.8 * len(mine | theirs)


def _rows(name: str, one: Group, other: Group, paired: bool) -> list[Row]:
    tables = [one.table, other.table]
    if paired:
        common = set(one.table["vantage"]) & set(other.table["vantage"])
        tables = [table.filter(table["vantage"].is_in(common)) for table in tables]
    codes = [
        np.unique(table["vantage"].to_numpy(), return_inverse=True)[1].astype(np.int64)
        for table in tables
    ]
    counts = [int(code.max()) + 1 for code in codes]
    drawn = [np.concatenate(list(weights(count, _REPLICATES))) for count in counts]
    if not paired:
        # With the same seed, both would draw the same vantage numbers.
        drawn[1] = drawn[1][::-1]
    rows = []
    for what, unit, column, hits in _METRICS:
        found = []
        for table, code, draws in zip(tables, codes, drawn, strict=True):
            values = table[column].to_numpy()
            part = hits(values)
            if part is None:
                found.append((float(np.median(values)), _medians(values, code, draws)))
            else:
                found.append((float(part.mean()), _means(part, code, draws)))
        (first, first_draws), (second, second_draws) = found
        few = len(first_draws) != len(second_draws)
        interval = None
        if min(counts) >= 2 and not few:
            interval = percentile_interval(second_draws - first_draws)
        rows.append(Row(name, what, unit, first, second, interval))
    return rows


def _means(values: Floats, code: npt.NDArray[np.int64], draws: npt.NDArray[np.int64]) -> Floats:
    size = draws.shape[1]
    total = draws @ np.bincount(code, minlength=size)
    hit = draws @ np.bincount(code, weights=values, minlength=size)
    result: Floats = np.divide(hit, total, out=np.full(len(hit), np.nan), where=total > 0)
    return result


def _medians(values: Floats, code: npt.NDArray[np.int64], draws: npt.NDArray[np.int64]) -> Floats:
    order = np.argsort(values, kind="stable")
    ranked, owner = values[order], code[order]
    found = np.full(len(draws), np.nan)

    for number, drawn in enumerate(draws):
        reached = np.cumsum(drawn[owner])
        if reached[-1]:
            at = int(np.searchsorted(reached, (reached[-1] + 1) // 2))
            found[number] = ranked[min(at, len(ranked) - 1)]
    return found


def _failure_rows(
    name: str, first: RatioAnalysis, second: RatioAnalysis, one: str, other: str
) -> list[Row]:
    from narrows.results.intervals import newcombe

    rows = []
    for transport in ("udp", "tcp"):
        parts = [
            next(
                (p for p in analysis.failures if (p.server, p.transport) == (server, transport)),
                None,
            )
            for analysis, server in ((first, one), (second, other))
        ]
        if parts[0] is None or parts[1] is None or not parts[0].asked or not parts[1].asked:
            continue
        low, high, _ = newcombe(
            (parts[0].failed, parts[1].failed), (parts[0].asked, parts[1].asked)
        )
        rows.append(
            Row(
                name,
                f"unanswered over {transport.upper()}",
                " %",
                100.0 * parts[0].share,
                100.0 * parts[1].share,
                (100.0 * low, 100.0 * high),
            )
        )
    return rows


def _cells(row: Row) -> tuple[str, ...]:
    interval = "-" if row.interval is None else f"{row.interval[0]:.3g} to {row.interval[1]:.3g}"
    return f"{row.first:.4g}", f"{row.second:.4g}", f"{row.difference:+.3g}", interval
