"""Declared bars, evaluated against the tables of runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from narrows.records.plotted import Axis, Shares, Spans
from narrows.report.drawing import CYCLE, Bar, Drawing, Part
from narrows.results.intervals import wilson

Tables = Mapping[str, pl.DataFrame]

MOST_GROUPS = 6
"""The most groups that have bars of their own."""

PERCENT = Axis("share of the measured queries (%)", ends=(0.0, 100.0))


def bars_of(
    declared: Spans | Shares, cases: Sequence[tuple[str, Tables]], drawing: Drawing
) -> Drawing:
    """A drawing with the bars of each case, which has a name and the tables of one run."""
    if isinstance(declared, Spans):
        return _spans(declared, cases, drawing)
    bars = [bar for _, tables in cases for bar in _shares(declared, tables)]
    height = 1.6 + 0.36 * len(bars)
    return replace(drawing, bars=bars, interval=declared.interval, height=height)


def _shares(declared: Shares, tables: Tables) -> list[Bar]:
    rows = _selected(declared, tables)
    if declared.done:
        rows = rows.filter(pl.col(declared.done).is_not_null())
    parts = {"": rows}
    if declared.each:
        found = rows.partition_by(declared.each, as_dict=True, maintain_order=True)
        if 1 < len(found) <= MOST_GROUPS:
            parts = {str(key): part for (key,), part in found.items()}
    bars = []
    for group, part in parts.items():
        if part.is_empty():
            continue
        counts = dict(part.group_by(declared.value).len().iter_rows())
        most = max(1, max(counts))
        numbers = [*range(1, most + 1), *([0] if len(parts) == 1 or 0 in counts else [])]
        for number in numbers:
            count = counts.get(number, 0)
            share = 100.0 * count / part.height
            name = declared.name.format(value=number) if number else declared.none
            low, high = wilson(counts.get(1, 0), part.height)
            bars.append(
                Bar(
                    f"{group}, {name}" if group else name,
                    [Part(0.0, share, "blue" if number else "vermilion")],
                    (100.0 * low, 100.0 * high) if number == 1 else None,
                    text=f"{share:.2f} %  ({count})",
                )
            )
    return bars


def _spans(declared: Spans, cases: Sequence[tuple[str, Tables]], drawing: Drawing) -> Drawing:
    bars: list[Bar] = []
    whose: list[str] = []
    last = 0.0
    for number, (label, tables) in enumerate(cases):
        rows = _first(_selected(declared, tables), declared)
        if rows.is_empty():
            continue
        moments = [rows.get_column(name).to_list() for name in declared.moments]
        zero = min(moments[0])
        latest = max(each for times in moments for each in times if each is not None)
        whose.append(filled(declared.whose, rows.row(0, named=True)))
        if len(cases) > 1:
            bars.append(Bar(label, head=True))
        color = CYCLE[number % len(CYCLE)]
        names = rows.get_column(declared.name).to_list()
        for name, *(begin, thick, end) in zip(names, *moments, strict=True):
            begin, thick = begin - zero, thick - zero
            end = (latest if end is None else end) - zero
            parts = [Part(begin, thick, color, thin=True), Part(thick, end, color)]
            bars.append(Bar(str(name), parts))
        last = max(last, latest - zero)
    subtitle = "; ".join(dict.fromkeys(whose))
    axis = replace(drawing.x, ends=(0.0, 1.05 * last if last else 1.0))
    height = 1.4 + 0.16 * len(bars)
    return replace(drawing, bars=bars, x=axis, subtitle=subtitle, height=height)


def _selected(declared: Spans | Shares, tables: Tables) -> pl.DataFrame:
    rows = tables[declared.table]
    for column, value in (declared.where or {}).items():
        rows = rows.filter(pl.col(column) == value)
    return rows


def _first(rows: pl.DataFrame, declared: Spans) -> pl.DataFrame:
    """The rows that belong to the one whose first moment is the earliest."""
    begin, thick, _ = declared.moments
    if rows.is_empty():
        return rows
    first = rows.row(rows.get_column(begin).arg_min() or 0, named=True)
    same = [pl.col(key) == first[key] for key in declared.same]
    return rows.filter(*same).filter(pl.col(thick).is_not_null())


def filled(text: str, row: Mapping[str, Any]) -> str:
    """A text with the values of columns in place of their names in braces."""
    for key, value in row.items():
        text = text.replace("{" + key + "}", str(value))
    return text
