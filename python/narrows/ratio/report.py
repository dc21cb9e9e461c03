"""The report: one page on all servers, and if there are several, one page for each."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import polars as pl

from narrows.plot_files import PlotFile
from narrows.ratio.analysis import Group, RatioAnalysis
from narrows.ratio.density import SMOOTHED
from narrows.ratio.folder import save
from narrows.ratio.plots import (
    excess_plot,
    failures_plot,
    histogram_plot,
    histograms_plot,
    hover_map,
    line_plot,
    over_day_plot,
    ratio_cdf,
    ridges_plot,
    times_cdf,
)
from narrows.ratio.plots.world import placed
from narrows.ratio.words import HEADER, peaks_row, say_failures, say_server
from narrows.report.drawing import Drawing
from narrows.report.files import file_name, write_page
from narrows.report.page import Shown, live, render, shown_on_page, write_plots

Progress = Callable[[float, str], None]


def write_ratio_report(
    analysis: RatioAnalysis,
    folder: str | Path,
    progress: Progress | None = None,
    kinds: Sequence[PlotFile] = (),
) -> Path:
    """Writes report.html, pages of servers, the analysis, and plots as files of these types.

    Raises:
        RunFolderError: The folder cannot be written.
    """
    target = Path(folder)
    say = progress or (lambda done, label: None)
    save(analysis, target)
    servers = analysis.by_server
    steps = 1 + (len(servers) if len(servers) > 1 else 0)
    pages: dict[str, str] = {}
    if len(servers) > 1:
        for number, group in enumerate(servers):
            say(number / steps, group.label)
            name = _page_name(group.server, pages.values())
            days = [part for part in analysis.by_server_and_day if part.server == group.server]
            pages[group.server] = f"{name}.html"
            _write_page(target, name, group.label, analysis, group, days, {}, kinds)
    say((steps - 1) / steps, "report")
    title = servers[0].label if len(servers) == 1 else f"{len(servers)} servers"
    path = _write_page(
        target,
        "report",
        f"TCP against UDP: {title}",
        analysis,
        analysis.whole,
        analysis.by_server_and_day if len(servers) == 1 else [],
        pages,
        kinds,
    )
    say(1.0, "")
    return path


def _write_page(
    folder: Path,
    name: str,
    title: str,
    analysis: RatioAnalysis,
    group: Group,
    days: list[Group],
    pages: dict[str, str],
    kinds: Sequence[PlotFile],
) -> Path:
    servers = analysis.by_server if pages else [group]
    prefix = "" if name == "report" else f"{name}-"
    plots = _plots(analysis, group, servers, days, prefix)
    write_plots(plots, folder / "plots", kinds)
    points = placed(group, analysis.vantages)
    world = ""
    if points.height:
        alt = f"{points.height} vantage points on a map, coloured by their median ratio"
        world = hover_map(points, f"{prefix}map", alt)
        if kinds:
            _write_map(f"{prefix}map", points, group.label, folder / "plots", kinds)
    failures = [part for part in analysis.failures if pages or part.server in {group.server, title}]
    measured = [part for server in servers for part in analysis.by_source(server.server)]
    groups = [
        *servers,
        *(measured if name != "report" or not pages else []),
        *(days if len(days) > 1 else []),
        *([group] if pages else []),
    ]
    text = render(
        "ratio.html",
        title=title,
        sources=analysis.sources if name == "report" else (),
        header=HEADER,
        rows=[(peaks_row(part), pages.get(part.server, "")) for part in groups],
        sentences=[sentence for part in servers for sentence in say_server(analysis, part)],
        failures=[say_failures(part) for part in failures],
        map=world,
        placed=points.height,
        vantages=group.peaks.vantages,
        plots=shown_on_page(plots),
        live=live(plots),
        files=", ".join(kind.upper() for kind in kinds),
        rules=analysis.rules,
        infinity=float("inf"),
        variants=analysis.variants if name == "report" else (),
        dropped=analysis.dropped if name == "report" else (),
        verdicts=analysis.verdicts if name == "report" else (),
        warnings=analysis.warnings,
        skipped=analysis.skipped if name == "report" else (),
        home="" if name == "report" else "report.html",
    )
    return write_page(folder / f"{name}.html", text)


def _write_map(
    name: str, points: pl.DataFrame, label: str, folder: Path, kinds: Sequence[PlotFile]
) -> None:
    from narrows.ratio.plots.map_file import map_plot
    from narrows.report.picture import Picture, write_pictures

    write_pictures([Picture(name, map_plot(points, label), "", "")], folder, kinds)


# Long: a list of plots with their captions.
def _plots(
    analysis: RatioAnalysis, group: Group, servers: list[Group], days: list[Group], prefix: str
) -> list[Shown]:
    found: list[Shown] = []

    def add(name: str, drawing: Drawing, alt: str, caption: str) -> None:
        found.append(Shown(prefix + name, drawing, alt, caption))

    median = f"{group.peaks.quantiles[0.5]:.2f}"
    labelled = {part.label: part for part in servers}
    if len(servers) > 1:
        add(
            "density-by-server",
            ridges_plot(labelled),
            f"Densities of the ratio for {len(servers)} servers",
            "Two round trips give 2: one for the connection, one for the query. A server that "
            f"sends the length in a segment of its own takes a third. {SMOOTHED}",
        )
        add(
            "histogram-all",
            histograms_plot(labelled),
            f"Histograms of the ratio for {len(servers)} servers",
            "Each server in percent of its own pairs; bins of 0.01.",
        )
    measured = analysis.by_source(group.server) if len(servers) == 1 else []
    if measured:
        add(
            "density-by-measurement",
            ridges_plot({str(part.source): part for part in measured}),
            f"Densities of the ratio in {len(measured)} measurements",
            f"A density for each measurement. {SMOOTHED}",
        )
    if len(days) > 1:
        add(
            "density-by-day",
            ridges_plot({str(part.day): part for part in days}),
            f"Densities of the ratio on {len(days)} days",
            f"Changes at the server show here. {SMOOTHED}",
        )
    add(
        "histogram",
        histogram_plot(group),
        f"Histogram of the ratio, median {median}",
        "Percent of the valid pairs in bins of 0.01.",
    )
    asked = group.table["started_s"]
    if float(asked.max() or 0.0) - float(asked.min() or 0.0) >= _CELL_S:  # type: ignore[arg-type]
        add(
            "over-time",
            over_day_plot(group),
            f"Pairs by time and ratio, median {median}",
            "A point is half an hour and 0.05 of ratio with pairs.",
        )
    line = group.line
    said = "no line" if line is None else f"slope {line.slope:.2f}"
    add(
        "tcp-over-udp",
        line_plot(group),
        f"TCP's over UDP's response time of {group.peaks.vantages} vantage points, {said}",
        "A point is a vantage point's medians. The slope counts round trips; the intercept is what "
        "does not depend on the distance.",
    )
    add(
        "excess",
        excess_plot(group),
        "TCP's time beyond two of UDP's over UDP's",
        "A fixed delay at the server is level here whatever the distance; one more round trip "
        "follows the upper dashed line.",
    )
    add("times", times_cdf(group), "Distributions of the response times", "")
    add(
        "ratio",
        ratio_cdf(labelled),
        f"Distribution of the ratio, median {median}",
        "Curves end below 100 % where there are ratios beyond the plot.",
    )
    failures = [
        part for part in analysis.failures if len(servers) > 1 or part.server == group.server
    ] or list(analysis.failures)
    if any(part.asked for part in failures):
        add(
            "failures",
            failures_plot(failures),
            f"Unanswered queries of {len(failures)} servers and transports",
            "Of the queries that were asked: a vantage point's own refusal is not a failure.",
        )
    return found


_CELL_S = 1800.0
"""Length of a cell in the plot over time, in seconds; shorter analyses have no such plot."""


def _page_name(server: str, taken: Collection[str]) -> str:
    """The name of a server's page, without suffix; it avoids `taken`, which are whole names."""
    plain = file_name(server).strip("-.") or "server"
    tries = (f"server-{plain}{f'-{number}' if number else ''}" for number in itertools.count())
    return next(name for name in tries if f"{name}.html" not in taken)
