"""Plots and headlines that kinds of traffic bring to a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from narrows.records import Declaration, Plot, Record, Series
from narrows.report.bars import MOST_GROUPS
from narrows.report.drawing import CYCLE
from narrows.report.files import file_name
from narrows.report.page import Shown
from narrows.report.shown import shown_of
from narrows.report.source import NONE
from narrows.results import Run
from narrows.results.extras import by_group, records
from narrows.results.metrics import value_text


def extra_plots(runs: Mapping[str, Run], others: Mapping[str, Sequence[Run]] = NONE) -> list[Shown]:
    """The plots for which every run has something to draw.

    In the plot of a single run, each group has a curve. With several runs, each group has its own
    plot with a curve for each run; other seeds of the run count for its curve.
    """
    if len(runs) == 1:
        return [shown_of(each, runs) for each in declared_extras(*runs.values())]
    shown = []
    for record in _common(runs):
        for each in record.plots:
            if all(each.says(run.summary[record.table.name]) for run in runs.values()):
                shown += _compared(each, record, runs, others)
    return shown


def declared_extras(run: Run) -> list[Declaration]:
    """The plots of a run's kinds of traffic, with a curve for each group."""
    found = []
    for record in _common({run.name: run}):
        rows = run.table(record.table.name)
        apart = "flow" in rows.columns and "group" not in rows.columns
        groups = by_group(rows, run.flows) if apart else {}
        each = 1 < len(groups) <= len(CYCLE)
        for plot in record.plots:
            alt = plot.says(run.summary[record.table.name])
            if alt is not None:
                series = [_named(one, run.name, each=each) for one in plot.series]
                found.append(replace(plot.declaration, series=tuple(series), alt=alt))
    return found


def _named(series: Series, label: str, *, each: bool = False) -> Series:
    """A series with the name of the run, or of each of its groups."""
    if series.label:
        return series
    return (
        replace(series, label="{group}", each=("group",)) if each else replace(series, label=label)
    )


def _compared(
    plot: Plot, record: Record, runs: Mapping[str, Run], others: Mapping[str, Sequence[Run]]
) -> list[Shown]:
    """A plot of several runs; if there are several groups, one plot for each."""
    name = record.table.name
    cases = {} if plot.single else others
    parts = {
        label: [by_group(each.table(name), each.flows) for each in (run, *cases.get(label, ()))]
        for label, run in runs.items()
    }
    groups = list(dict.fromkeys(group for each in parts.values() for group in each[0]))
    declared = replace(plot.declaration, alt=f"Curves, in each case: {plot.title}.")
    if not 1 < len(groups) <= MOST_GROUPS:
        return [shown_of(declared, runs, cases)]
    shown = []
    for group in groups:
        title = f"{plot.title}: {group}"
        having = {
            label: run for label, run in runs.items() if all(group in part for part in parts[label])
        }
        if having:
            of_group = replace(
                declared,
                name=f"{plot.name}-{file_name(group)}",
                title=title,
                alt=f"Curves, in each case: {title}.",
                series=tuple(replace(each, where={"group": group}) for each in plot.series),
                bars=declared.bars and replace(declared.bars, where={"group": group}),
            )
            shown.append(shown_of(of_group, having, cases))
    return shown


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
