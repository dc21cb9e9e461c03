"""Declared plots, evaluated against the tables of runs: the drawings of `drawing`.

`report/evaluate.js` does the same in a browser, and a test holds both against each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import and_
from typing import Any

import numpy as np
import polars as pl

from narrows.records.numbers import Floats
from narrows.records.plotted import (
    Axis,
    Counter,
    Declaration,
    Expression,
    Extreme,
    Mark,
    Means,
    Points,
    Series,
    Where,
)
from narrows.report.bars import bars_of, filled
from narrows.report.drawing import CYCLE, Curve, Drawing, Level
from narrows.report.scales import completed

Pair = tuple[Floats, Floats]


@dataclass(frozen=True)
class Data:
    """What plots need of a run."""

    tables: Mapping[str, pl.DataFrame]
    end_s: float
    selections: dict[object, pl.DataFrame] = field(default_factory=dict, repr=False)
    """Rows that several plots select."""


@dataclass(frozen=True)
class Case:
    """A run with its other seeds, if there are any."""

    label: str
    runs: Sequence[Data]


def evaluate(declared: Declaration, cases: Sequence[Case]) -> Drawing:
    """The drawing of a declared plot.

    Of several cases or seeds, each case has a curve: the mean of its seeds, or the distribution of
    all their values, with a thin curve for each seed behind it.
    """
    single = len(cases) == 1 and len(cases[0].runs) == 1
    end_s = max(run.end_s for case in cases for run in case.runs)
    curves: list[Curve] = []
    for series in declared.series:
        if isinstance(series, Points):
            curves.append(_points(series, end_s))
        elif single:
            curves += _of_run(series, cases[0].runs[0], len({c.color for c in curves if c.label}))
        elif series.several:
            curves += _of_cases(series, cases)
    x = _until(declared.x, end_s)
    levels = _levels(declared.marks, curves, x, cases[0].runs[0])
    drawing = Drawing(
        title=declared.title,
        x=x,
        y=declared.y,
        curves=curves,
        levels=levels,
        height=declared.height,
    )
    if declared.bars is not None:
        return bars_of(
            declared.bars, [(case.label, case.runs[0].tables) for case in cases], drawing
        )
    return completed(drawing)


def points_of(series: Series, run: Data) -> dict[str, Pair]:
    """The curves of a series by name, before they are thinned."""
    rows = selected(run, series.table, series.where)
    every = run.tables.get(series.table, rows) if series.by else rows
    change = series.change
    if change is not None and isinstance(change.least_s, Extreme):
        change = replace(change, least_s=extreme(change.least_s, run) or 0.0)
    found = {}
    for name, part in _parts(rows, series):
        x, y = _xy(part, series, run.end_s, every)
        if change is not None and len(x):
            x, y = changed(x, y, change)
        found[name] = (x, y)
    return found


def selected(run: Data, table: str, where: Where | None) -> pl.DataFrame:
    """The rows of a table that have these values; none if the run lacks the table."""
    wanted = dict(where or {})
    key = (table, *wanted.items())
    if key not in run.selections:
        rows = run.tables.get(table, pl.DataFrame())
        if "group" not in rows.columns and "flow" in rows.columns and "flows" in run.tables:
            of_flow = run.tables["flows"].select("flow", "group")
            rows = rows.join(of_flow, on="flow", how="left", maintain_order="left")
        if wanted and not rows.is_empty():
            # As series, because a lazy query for each selection takes longer than the rest.
            masks = [rows.get_column(name) == value for name, value in wanted.items()]
            rows = rows[reduce(and_, masks).arg_true()]
        run.selections[key] = rows
    return run.selections[key]


def extreme(wanted: Extreme, run: Data) -> float | None:
    """The least or the largest value; None if there is none."""
    rows = selected(run, wanted.table, wanted.where)
    if rows.is_empty():
        return None
    values = value(rows, wanted.value, run.end_s)
    known = values[~np.isnan(values)]
    if not len(known):
        return None
    return float(known.min() if wanted.of == "min" else known.max())


def value(rows: pl.DataFrame, expression: Expression, end_s: float) -> Floats:
    """An expression's value for each row; NaN where it is missing."""

    def column(name: str) -> Floats:
        # `cast` and `fill_null` would each be a query, which waits for all of Polars' threads.
        return rows.get_column(name).to_numpy().astype(np.float64, copy=False)

    def place(name: str, names: Sequence[str]) -> Floats:
        of = {each: float(at) for at, each in enumerate(names)}
        return np.asarray([of.get(each, math.nan) for each in rows.get_column(name)])

    functions = {"place": place, "end": lambda: end_s}
    return np.broadcast_to(_computed(expression, column, functions), rows.height)


def changed(x: Floats, y: Floats, change: Counter | Means) -> Pair:
    """Applies a change to points in the order of x."""
    if isinstance(change, Means):
        return _means(x, y, change)
    begin = 0.0 if change.from_zero else y[0]
    x, y = np.concatenate([[0.0], x]), np.concatenate([[begin], y])
    if change.slot_s is not None:
        return smoothed(x, y, change.slot_s, change.kept)
    return _joined(x, y, change)


def smoothed(times: Floats, total: Floats, slot_s: float, kept: float = 0.0) -> Pair:
    """Rates per second in slots, `V(n) = kept V(n-1) + (1 - kept) P(n)`, from a running total.

    P(n) is what the n-th slot adds to the total, per second. Between samples the total is
    interpolated.

    Args:
        times: The times of the samples in seconds, the first at zero.
        total: The total at these times.
        slot_s: The length of a slot.
        kept: The weight of the old value.

    Returns:
        Ends of the slots in seconds, and V at them, per second.

    Examples:
        >>> t, v = smoothed(np.array([0.0, 0.1, 0.2]), np.array([0.0, 10.0, 10.0]), 0.1, 0.9)
        >>> [round(float(x), 3) for x in v]
        [10.0, 9.0]
    """
    slots = int(float(times[-1]) / slot_s + 1e-6) if len(times) else 0
    ends: Floats = slot_s * np.arange(slots + 1, dtype=np.float64)
    rates = np.diff(np.interp(ends, times, total)) / slot_s
    if not kept:
        return ends[1:], rates
    values = np.empty(slots)
    last = 0.0
    for n, rate in enumerate(rates.tolist()):
        last = kept * last + (1.0 - kept) * rate
        values[n] = last
    return ends[1:], values


def mean_of(curves: Sequence[Pair]) -> Pair:
    """The mean of curves, at the times of the first and as long as all of them last.

    Where some curves have no value, it is the mean of the others. A curve with values at other
    times is interpolated.
    """
    times, values = curves[0]
    if len(curves) == 1:
        return times, values
    last = min((float(t[-1]) for t, _ in curves if len(t)), default=-np.inf)
    grid = times[times <= last]
    table = np.asarray([_at(grid, *one) for one in curves])
    counts = np.sum(~np.isnan(table), axis=0)
    mean = np.full(len(grid), np.nan)
    np.divide(np.nansum(table, axis=0), counts, out=mean, where=counts > 0)
    return grid, mean


@dataclass(frozen=True)
class Waits:
    """Values whose distribution is drawn."""

    values: Floats
    """Infinity for a row that never got a value."""
    known: np.ndarray[Any, np.dtype[np.bool_]]
    """Whether the value was reached; otherwise the row waited for so long, and then was cut off."""


def distribution(waits: Waits) -> Pair:
    """Values in order, and the share of all rows in percent that are at most each.

    Rows that were cut off count for as long as they waited (Kaplan and Meier 1958). Without such
    rows, this is the plain share.
    """
    order = np.lexsort((~waits.known, waits.values))
    values, known = waits.values[order], waits.known[order]
    waiting = np.arange(len(values), 0, -1)
    left = np.cumprod(np.where(known, 1.0 - 1.0 / waiting, 1.0))
    x, shares = values[known], 100.0 * (1.0 - left[known])
    return np.concatenate([x[:1], x]), np.concatenate([np.zeros(len(x[:1])), shares])


def _until(axis: Axis, end_s: float) -> Axis:
    begin, end = axis.ends
    return replace(axis, ends=(begin, end_s)) if end == "end" else axis


def _points(series: Points, end_s: float) -> Curve:
    x = np.asarray([end_s if each == "end" else each for each in series.x], dtype=np.float64)
    y = np.asarray(series.y, dtype=np.float64)
    return Curve(
        series.label,
        series.color or CYCLE[0],
        x,
        y,
        series.shape,
        series.width,
        dash=series.dash,
        margin=series.margin,
    )


def _of_run(series: Series, run: Data, used: int) -> list[Curve]:
    """The curves of one run's series, the first in the colour of this number in the cycle."""
    pairs: Mapping[str, Pair]
    if series.shape == "cdf":
        pairs = {name: distribution(each) for name, each in _waits(series, run).items()}
    else:
        pairs = points_of(series, run)
    curves: list[Curve] = []
    for name, (x, y) in pairs.items():
        if not len(x) or (series.omit and not _says(y, series.omit)):
            continue
        color = series.color or CYCLE[(used + len(curves)) % len(CYCLE)]
        dash = not series.color and used + len(curves) >= len(CYCLE)
        label = "" if series.seed else name
        curves.append(
            Curve(label, color, x, y, series.shape, series.width, dash=dash, seed=series.seed)
        )
    return curves


def _says(y: Floats, omit: str) -> bool:
    known = y[~np.isnan(y)]
    return bool(len(known)) and (omit == "missing" or bool(np.any(known != 0.0)))


def _of_cases(series: Series, cases: Sequence[Case]) -> list[Curve]:
    """A curve for each case, with one for each of its seeds behind it."""
    curves: list[Curve] = []
    named = 0
    for number, case in enumerate(cases):
        if series.shape == "cdf":
            waits = [_waits(series, run) for run in case.runs]
            parts = {
                name: (
                    distribution(_together([each[name] for each in waits if name in each])),
                    [distribution(each[name]) for each in waits if name in each],
                )
                for name in waits[0]
            }
        else:
            found = [points_of(series, run) for run in case.runs]
            parts = {
                name: (mean_of(of := [each[name] for each in found if name in each]), of)
                for name in found[0]
            }
        for name, ((x, y), seeds) in parts.items():
            at = named if series.each else number
            color, dash = CYCLE[at % len(CYCLE)], at >= len(CYCLE)
            named += 1
            if not len(x):
                continue
            label = f"{case.label}, {name}" if series.each else case.label
            curves.append(Curve(label, color, x, y, series.shape, dash=dash))
            if len(seeds) > 1:
                curves += [
                    Curve("", color, x, y, series.shape, 0.6, seed=True) for x, y in seeds if len(x)
                ]
    return curves


def _parts(rows: pl.DataFrame, series: Series) -> list[tuple[str, pl.DataFrame]]:
    if not series.each or rows.is_empty():
        return [(series.label, rows)]
    parts = rows.partition_by(series.each, as_dict=True, maintain_order=True)
    return [
        (filled(series.label, dict(zip(series.each, key, strict=True))), part)
        for key, part in parts.items()
    ]


def _xy(rows: pl.DataFrame, series: Series, end_s: float, every: pl.DataFrame) -> Pair:
    """The points of rows in the order of x.

    If rows are aggregated, there is one for each x of `every` row of the table, so that a curve has
    a gap where it has no rows.
    """
    if rows.is_empty():
        return np.zeros(0), np.zeros(0)
    x = value(rows, series.x, end_s)
    if not series.by:
        y = value(rows, series.y, end_s)
        order = np.argsort(x, kind="stable")
        return x[order], y[order]
    places = np.unique(value(every, series.x, end_s))
    which = np.searchsorted(places, x)
    count = len(places)

    def aggregate(of: Callable[[Floats, Any], Floats]) -> Callable[[Expression], Floats]:
        def aggregated(inner: Expression) -> Floats:
            values = value(rows, inner, end_s)
            known = ~np.isnan(values)
            return of(values[known], which[known])

        return aggregated

    def total(values: Floats, at: Any) -> Floats:
        sums = np.bincount(at, weights=values, minlength=count)
        return np.where(np.bincount(which, minlength=count) > 0, sums, np.nan)

    def largest(values: Floats, at: Any) -> Floats:
        found = np.full(count, -np.inf)
        np.maximum.at(found, at, values)
        return np.where(np.isinf(found), np.nan, found)

    def mean(values: Floats, at: Any) -> Floats:
        return total(values, at) / np.bincount(at, minlength=count)

    aggregates = {"sum": aggregate(total), "max": aggregate(largest), "mean": aggregate(mean)}
    return places, np.broadcast_to(_computed(series.y, None, aggregates), count)


def _computed(
    expression: Expression, column: Callable[[str], Floats] | None, functions: Mapping[str, Any]
) -> Any:
    if isinstance(expression, str):
        assert column is not None, "a series with `by` needs an aggregate of each column"
        return column(expression)
    if not isinstance(expression, tuple):
        return float(expression)
    operator, *given = expression
    if operator in functions:
        with np.errstate(divide="ignore", invalid="ignore"):
            return functions[operator](*given)
    a, b = (_computed(each, column, functions) for each in given)
    with np.errstate(divide="ignore", invalid="ignore"):
        return _OPERATORS[operator](a, b)


_OPERATORS: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
}


def _waits(series: Series, run: Data) -> dict[str, Waits]:
    rows = selected(run, series.table, series.where)
    found = {}
    for name, part in _parts(rows, series):
        if part.is_empty():
            continue
        values = value(part, series.x, run.end_s)
        known = ~np.isnan(values)
        if series.of == "known":
            found[name] = Waits(values[known], known[known])
            continue
        waited = np.full(len(values), np.inf)
        if series.open is not None:
            column, time = series.open
            still = part.get_column(column).is_null().to_numpy()
            waited = np.where(still, value(part, time, run.end_s), np.inf)
        found[name] = Waits(np.where(known, values, waited), known)
    return found


def _together(parts: Sequence[Waits]) -> Waits:
    return Waits(
        np.concatenate([each.values for each in parts]),
        np.concatenate([each.known for each in parts]),
    )


def _together_count(x: Floats, least_s: float, most: int | None, apart: float) -> int:
    """How many samples one interval has."""
    count = len(x)
    together = 1 if most is None else max(1, math.ceil(count / most))
    if count and 0.0 < least_s < float(x[-1]) and apart > 0.0:
        together = max(together, math.ceil(least_s / apart))
    return min(together, max(1, count))


def _joined(times: Floats, total: Floats, change: Counter) -> Pair:
    """Rates between samples as steps that reach back; the first sample is at zero."""
    least = change.least_s
    assert not isinstance(least, Extreme), "it was evaluated before"
    count = len(times) - 1
    together = _together_count(times[1:], least, change.most, float(times[1]))
    kept = np.arange(together, count + 1, together)
    if not len(kept) or kept[-1] < count:
        kept = np.append(kept, count)
    kept = np.concatenate([[0], kept])
    # The run may end too soon after a sample for a mean.
    ends = times[kept]
    if len(ends) > 2 and ends[-1] - ends[-2] < 0.5 * (ends[1] - ends[0]):
        kept = np.delete(kept, -2)
    with np.errstate(divide="ignore", invalid="ignore"):
        rates = np.diff(total[kept]) / np.diff(times[kept])
    return times[kept], np.concatenate([rates[:1], rates])


def _means(times: Floats, values: Floats, change: Means) -> Pair:
    least = change.least_s
    assert not isinstance(least, Extreme), "it was evaluated before"
    apart = float(times[1] - times[0]) if len(times) > 1 else 0.0
    if apart <= 0.0:
        return times, values
    together = _together_count(times, least, change.most, apart)
    ends = np.arange(together - 1, len(times), together)
    parts = values[: len(ends) * together].reshape(len(ends), together)
    counts = np.sum(~np.isnan(parts), axis=1)
    means = np.full(len(ends), np.nan)
    np.divide(np.nansum(parts, axis=1), counts, out=means, where=counts > 0)
    # A step reaches back to the end of the interval before.
    return np.concatenate([[times[0] - apart], times[ends]]), np.concatenate([means[:1], means])


def _at(grid: Floats, times: Floats, values: Floats) -> Floats:
    if np.array_equal(times[: len(grid)], grid):
        return values[: len(grid)]
    if len(times) == 0:
        return np.full(len(grid), np.nan)
    return np.asarray(np.interp(grid, times, values), dtype=np.float64)


def named(mark: Mark, at: float) -> str:
    """A mark's name, with the level's value and duration if it has a unit."""
    level = f"{at:.0f}" if at >= 10.0 else f"{at:.3g}"
    name = f"{mark.name} {level} {mark.unit}" if mark.unit else mark.name
    return f"{name}\n= {1e3 * at / mark.per_s:.0f} ms" if mark.per_s else name


def _levels(marks: Sequence[Mark], curves: Sequence[Curve], x: Axis, run: Data) -> list[Level]:
    def ends(of: str) -> tuple[float, float]:
        known = [each[np.isfinite(each)] for each in (getattr(c, of) for c in curves) if len(each)]
        found = [(float(each.min()), float(each.max())) for each in known if len(each)]
        return min((a for a, _ in found), default=0.0), max((b for _, b in found), default=0.0)

    begin, end = x.ends
    low, high = ends("x")
    if begin is not None and isinstance(end, float | int):
        low, high = begin, end
    levels = []
    for mark in marks:
        at = extreme(mark.at, run) if isinstance(mark.at, Extreme) else mark.at
        if at is None or (mark.inside and not low < at < high):
            continue
        if mark.most is not None and at > mark.most * ends("y")[1]:
            continue
        levels.append(Level(mark.axis, at, named(mark, at), mark.color, mark.dash, mark.upright))
    return levels
