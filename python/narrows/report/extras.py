"""Plots and headlines that kinds of traffic bring to a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl
from matplotlib.figure import Figure

from narrows.records import Plot, Record
from narrows.report import style
from narrows.report.page import Shown, file_name
from narrows.report.pen import PlotPen, SeedsPen
from narrows.report.source import MOST_GROUPS, NONE
from narrows.results import Run
from narrows.results.extras import by_group, records
from narrows.results.metrics import value_text


def extra_plots(runs: Mapping[str, Run], others: Mapping[str, Sequence[Run]] = NONE) -> list[Shown]:
    """The plots for which every run has something to draw.

    In the plot of a single run, each group has a curve. With several runs, each group has its own
    plot with a curve for each run; other seeds of the run count for its curve.
    """
    shown = []
    for record in _common(runs):
        for each in record.plots:
            said = [each.says(run.summary[record.table.name]) for run in runs.values()]
            if None in said:
                continue
            if len(runs) == 1:
                assert said[0] is not None, "what has nothing to say was left out"
                shown.append(Shown(each.name, plot(each, record, runs), said[0], each.caption))
            else:
                shown += _compared(each, record, runs, others)
    return shown


def _compared(
    drawn: Plot, record: Record, runs: Mapping[str, Run], others: Mapping[str, Sequence[Run]]
) -> list[Shown]:
    """A plot of several runs; if there are several groups, one plot for each."""
    name = record.table.name
    cases = {label: [run, *others.get(label, ())] for label, run in runs.items()}
    if drawn.single:
        cases = {label: each[:1] for label, each in cases.items()}
    parts = {
        label: [by_group(run.table(name), run.flows) for run in each]
        for label, each in cases.items()
    }
    groups = list(dict.fromkeys(group for each in parts.values() for group in each[0]))
    if not 1 < len(groups) <= MOST_GROUPS:
        rows = {label: [run.table(name) for run in each] for label, each in cases.items()}
        figure = _seeds_plot(drawn, drawn.title, rows)
        alt = f"Curves, in each case: {drawn.title}."
        return [Shown(drawn.name, figure, alt, drawn.caption)]
    shown = []
    for group in groups:
        title = f"{drawn.title}: {group}"
        of_group = {
            label: [part[group] for part in each]
            for label, each in parts.items()
            if all(group in part for part in each)
        }
        if of_group:
            figure = _seeds_plot(drawn, title, of_group)
            name = f"{drawn.name}-{file_name(group)}"
            shown.append(Shown(name, figure, f"Curves, in each case: {title}.", drawn.caption))
    return shown


@style.styled
def plot(drawn: Plot, record: Record, runs: Mapping[str, Run]) -> Figure:
    """A plot of one run, or of the first seeds of several, by their labels."""
    figure, axes = style.new_figure(height=3.2)
    pen = PlotPen(axes)
    drawn.draw(pen, _rows(record, runs))
    return _named(figure, pen, drawn, drawn.title)


@style.styled
def _seeds_plot(drawn: Plot, title: str, rows: Mapping[str, Sequence[pl.DataFrame]]) -> Figure:
    """A plot of several cases, with the rows of each seed."""
    figure, axes = style.new_figure(height=3.2)
    pen = SeedsPen(axes)
    for number in range(max(map(len, rows.values()))):
        drawn.draw(pen, {label: each[number] for label, each in rows.items() if number < len(each)})
    pen.finish()
    return _named(figure, pen, drawn, title)


def _named(figure: Figure, pen: PlotPen, drawn: Plot, title: str) -> Figure:
    style.name_axes(figure.axes[0], title, drawn.x, drawn.y)
    if pen.labels > 1:
        style.below(figure, 3)
    return figure


def _rows(record: Record, runs: Mapping[str, Run]) -> dict[str, pl.DataFrame]:
    """The rows of each curve: those of each run, or of each group of a single run."""
    name = record.table.name
    tables = {label: run.table(name) for label, run in runs.items()}
    if len(runs) > 1:
        return tables
    ((label, rows),) = tables.items()
    if "flow" not in rows.columns or "group" in rows.columns:
        return tables
    groups = by_group(rows, runs[label].flows)
    return groups if 1 < len(groups) <= len(style.CYCLE) else tables


def headlines(run: Run) -> list[tuple[str, str]]:
    """Numbers with units, and the text below each; several groups have one number each."""
    found = []
    for record in _common({"": run}):
        if record.headline is None:
            continue
        metric = next(each for each in record.metrics if each.key == record.headline.key)
        section = run.summary[record.table.name]
        for group, metrics in (section.get("groups") or {"": section}).items():
            value = metrics.get(metric.key)
            if value is not None:
                number = f"{value_text(value * metric.scale)} {metric.unit}".rstrip()
                words = record.headline.words
                found.append((number, f"{words}, {group}" if group else words))
    return found


def _common(runs: Mapping[str, Run]) -> list[Record]:
    """The records for which all runs have rows."""
    return [
        record
        for name, record in records().items()
        if all(run.summary.get(name) for run in runs.values())
    ]
