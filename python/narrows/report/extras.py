"""Figures and headlines that kinds of traffic bring to a report."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl
from matplotlib.figure import Figure

from narrows.records import Picture, Record
from narrows.report import style
from narrows.report.page import Shown
from narrows.report.pen import FigurePen
from narrows.results import Run
from narrows.results.extras import by_group, records
from narrows.results.metrics import value_text

__all__ = ["extra_figures", "headlines", "picture"]


def extra_figures(runs: Mapping[str, Run]) -> list[Shown]:
    """The figures for which every one of the runs has something to draw."""
    shown = []
    for record in _common(runs):
        for each in record.pictures:
            said = [each.says(run.summary[record.table.name]) for run in runs.values()]
            if None in said:
                continue
            alt = said[0] if len(runs) == 1 else f"Curves, in each case: {each.title}."
            assert alt is not None, "what has nothing to say was left out"
            shown.append(Shown(each.name, picture(each, record, runs), alt, each.caption))
    return shown


@style.styled
def picture(drawn: Picture, record: Record, runs: Mapping[str, Run]) -> Figure:
    """A figure of one run or of several, by their labels."""
    figure, axes = style.new_figure(height=3.2)
    pen = FigurePen(axes)
    drawn.draw(pen, _rows(record, runs))
    style.name_axes(axes, drawn.title, drawn.x, drawn.y)
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
    """Numbers with their units, and the text below each; one of each group if there are several."""
    found = []
    for record in _common({"": run}):
        if record.headline is None:
            continue
        figure = next(each for each in record.figures if each.key == record.headline.key)
        section = run.summary[record.table.name]
        for group, figures in (section.get("groups") or {"": section}).items():
            value = figures.get(figure.key)
            if value is not None:
                number = f"{value_text(value * figure.scale)} {figure.unit}".rstrip()
                words = record.headline.words
                found.append((number, f"{words}, {group}" if group else words))
    return found


def _common(runs: Mapping[str, Run]) -> list[Record]:
    """The records of which all runs have rows."""
    return [
        record
        for name, record in records().items()
        if all(run.summary.get(name) for run in runs.values())
    ]
