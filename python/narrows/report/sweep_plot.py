"""Any metric of a sweep against any of its keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from narrows.errors import NarrowsError, argument
from narrows.plot_files import USUAL_PLOT_FILES, PlotFile
from narrows.report.notebook import html_of
from narrows.report.page import Shown, write_plots
from narrows.report.plots.against import Line, Mean, Ticks
from narrows.report.plots.against import against as drawn_against
from narrows.results import Axis, Sweep
from narrows.results.few_seeds import few_seeds
from narrows.results.group_names import short_keys
from narrows.results.metrics import value_text
from narrows.results.setting_names import (
    are_kinds,
    as_option,
    axis_named,
    key_words,
    settings_cells,
    value_names,
    values_named,
)
from narrows.results.sweep_means import NO_INTERVAL, Point, SweepMetric, metric_named, points
from narrows.results.sweep_run import SweepRun, canonical
from narrows.results.sweep_text import jump_notes, left_out_notes, range_text
from narrows.results.text import TextTable
from narrows.scenario.quantities import base_value

MOST_SERIES = 36
"""The most lines; more could not be told apart."""


@dataclass(frozen=True)
class SweepPlot:
    """A plot of a sweep, and the numbers in it."""

    shown: Shown
    sweep: Sweep
    metric: SweepMetric
    against: str
    points: tuple[Point, ...]
    notes: tuple[str, ...] = ()
    """Notes that readers should know."""

    def write(self, folder: str | Path, kinds: Sequence[PlotFile] = USUAL_PLOT_FILES) -> list[Path]:
        """Writes the plot into a folder, as these kinds of files; returns the files.

        Raises:
            RunFolderError: They cannot be written.
        """
        return write_plots([self.shown], Path(folder), kinds, self.sweep)

    def __repr__(self) -> str:
        return f"<SweepPlot of {self.metric.name} against {self.against}>"

    def _repr_html_(self) -> str:
        """The plot and the numbers, for notebooks."""
        return html_of([self.shown]) + self.table()._repr_html_()

    def table(self) -> TextTable:
        """The numbers, for people."""
        keys = list(self.points[0].settings)
        unit = f" ({self.metric.unit})" if self.metric.unit else ""
        head = (*keys, "runs", f"mean{unit}", "95 % interval", "least to most")
        rows = [
            (
                *settings_cells(self.sweep.axes, point.settings),
                str(point.runs),
                value_text(point.mean),
                "-"
                if point.low is None or point.high is None
                else f"{value_text(point.low)} to {value_text(point.high)}",
                range_text(point.values),
            )
            for point in self.points
        ]
        return TextTable(self.metric.name, head, [("", rows)], self.notes)

    def document(self) -> dict[str, Any]:
        """The numbers, as JSON values."""
        return {
            "metric": self.metric.key,
            "name": self.metric.name,
            "unit": self.metric.unit,
            "against": self.against,
            "points": [
                {
                    "settings": dict(point.settings),
                    "runs": point.runs,
                    "mean": point.mean,
                    "ci_low": point.low,
                    "ci_high": point.high,
                    "values": list(point.values),
                }
                for point in self.points
            ],
        }


def plot_sweep(
    sweep: Sweep,
    metric: str,
    against: str,
    by: Sequence[str] = (),
    where: Mapping[str, Any] | None = None,
    *,
    x_scale: str = "auto",
    y_scale: str = "auto",
) -> SweepPlot:
    """Draws a metric's means over the seeds against a varied key, with 95 % intervals.

    Args:
        sweep: What was run.
        metric: A metric's column in the table, or the end of its name.
        against: The horizontal axis: a varied key, or the end of its name.
        by: Keys that distinguish the lines.
        where: Only these values of varied keys: a value, a list of them, or their names with commas
            between them. A key with several of its values must be drawn.
        x_scale: `auto`, `linear` or `log`.
        y_scale: The same for the vertical axis.

    Raises:
        NarrowsError: There is no such metric or key; or a varied key is neither drawn nor fixed,
            so that a mean would mix its values.
    """
    drawn_metric = metric_named(sweep, metric)
    for scale in (x_scale, y_scale):
        if scale not in ("auto", "linear", "log"):
            raise NarrowsError(f"scale {scale}: is not known; hint: one of auto, linear, log")
    axis = axis_named(sweep, against)
    lines = [axis_named(sweep, key) for key in by]
    if axis in lines or len({line.key for line in lines}) < len(lines):
        raise NarrowsError(
            f"{sweep.where}: a key is given twice; hint: give other keys to {argument('by')}"
        )
    only = {}
    for key, value in (where or {}).items():
        fixed = axis_named(sweep, key)
        only[fixed.key] = replace(fixed, values=tuple(values_named(sweep, fixed, value)))
    axis, *lines = (only.get(used.key, used) for used in (axis, *lines))
    drawn_keys = [axis.key, *(line.key for line in lines)]
    _refuse_mixing([only.get(each.key, each) for each in sweep.axes], drawn_keys, sweep.where)
    chosen = [
        point
        for point in points(sweep, drawn_metric)
        if all(canonical(point.settings[key]) in one.places for key, one in only.items())
    ]
    if not chosen:
        raise NarrowsError(f"{sweep.where}: none of these complete runs has {drawn_metric.key}")
    ticks, place = _ticks(axis)
    if x_scale == "log" and ticks.names is not None:
        raise NarrowsError(f"scale log: {axis.key} has names, not numbers; hint: use linear")
    least = min(min(point.mean, *point.values) for point in chosen)
    for scale, value in ((x_scale, min(ticks.places)), (y_scale, least)):
        if scale == "log" and value <= 0:
            raise NarrowsError(
                f"scale log: a value is {value_text(value)}, and a logarithmic axis has room above "
                "zero only; hint: use linear"
            )
    cut = y_scale == "log" and min(p.mean if p.low is None else p.low for p in chosen) <= 0
    drawn = drawn_against(
        _lines(chosen, axis, lines, place),
        ticks,
        title=drawn_metric.name,
        subtitle=_subtitle(
            chosen, [one for key, one in only.items() if key not in drawn_keys], cut
        ),
        y_range=drawn_metric.range,
        legend=", ".join(short_keys([line.key for line in lines]).values()),
        y_label=drawn_metric.name.rpartition(": ")[2]
        + (f" ({drawn_metric.unit})" if drawn_metric.unit else ""),
        unit=drawn_metric.unit,
        x_scale=x_scale,
        y_scale=y_scale,
    )
    first, last = chosen[0], chosen[-1]
    alt = (
        f"{drawn_metric.name} against {axis.key}: from {value_text(first.mean)} to "
        f"{value_text(last.mean)} {drawn_metric.unit}".rstrip()
    )
    name = f"{drawn_metric.key}-against-{axis.key}"
    shown = Shown(name, drawn, alt, "")
    notes = few_seeds(point.runs for point in chosen if point.low is not None)
    notes += [NO_INTERVAL] if any(point.is_short_of_seeds for point in chosen) else []
    drawn_runs = _drawn_runs(sweep, chosen)
    notes += left_out_notes(sweep, drawn_runs, [drawn_metric.key])
    notes += jump_notes(sweep, drawn_runs, [drawn_metric.key])
    return SweepPlot(shown, sweep, drawn_metric, axis.key, tuple(chosen), tuple(notes))


def _drawn_runs(sweep: Sweep, chosen: Sequence[Point]) -> list[list[SweepRun]]:
    """The complete runs of each point."""
    found: dict[str, list[SweepRun]] = {canonical(dict(point.settings)): [] for point in chosen}
    for run in sweep.runs:
        if run.complete and (at := canonical(dict(run.settings))) in found:
            found[at].append(run)
    return list(found.values())


def _refuse_mixing(axes: Sequence[Axis], drawn: Sequence[str], place: str) -> None:
    """Refuses a key that has several values and is not drawn.

    Raises:
        NarrowsError: There is one.
    """
    for axis in axes:
        if axis.key not in drawn and len(axis.values) > 1:
            raise NarrowsError(
                f"{place}: {axis.key} was varied too, and a mean would mix its values; "
                f"hint: {argument('by')} {axis.key}, or "
                f"{argument('where')} {as_option(axis, axis.values[0])}"
            )


def _lines(
    chosen: Sequence[Point], axis: Axis, lines: Sequence[Axis], place: Mapping[str, float]
) -> list[Line]:
    names = [value_names(line) for line in lines]
    found: dict[str, list[Mean]] = {}
    for point in chosen:
        words = [
            of_line[canonical(point.settings[line.key])]
            for of_line, line in zip(names, lines, strict=True)
        ]
        at = place[canonical(point.settings[axis.key])]
        mean = Mean(at, point.mean, point.low, point.high, point.values)
        found.setdefault(", ".join(words), []).append(mean)
    if len(found) > MOST_SERIES:
        raise NarrowsError(
            f"{len(found)} lines could not be told apart; hint: fix a key with {argument('where')}"
        )
    return [Line(label, means) for label, means in found.items()]


def _subtitle(chosen: Sequence[Point], fixed: Sequence[Axis], cut: bool) -> str:
    """What is drawn; `fixed` are keys with one value each; `cut`: whether intervals reach zero."""
    counts = sorted({point.runs for point in chosen})
    if counts == [1]:
        text = "single runs: more seeds would give intervals"
    else:
        seeds = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
        text = (
            f"means of {seeds} seeds with 95 % intervals; "
            "dots: single seeds, beside each other where they would overlap"
        )
    if cut:
        text += "; an interval that ends at the lower edge goes on to 0"
    values = [
        f"{axis.key}={settings_cells([axis], {axis.key: axis.values[0]})[0]}" for axis in fixed
    ]
    return "; ".join([text, *values])


_SCALES: dict[str, list[tuple[str, float]]] = {
    "span": [("s", 1e12), ("ms", 1e9), ("us", 1e6), ("ns", 1e3), ("ps", 1.0)],
    "rate": [("Gbit/s", 1e9), ("Mbit/s", 1e6), ("kbit/s", 1e3), ("bit/s", 1.0)],
    "size": [("MB", 1e6), ("kB", 1e3), ("B", 1.0)],
}


def _ticks(axis: Axis) -> tuple[Ticks, dict[str, float]]:
    """The horizontal axis, and the place of each value on it: numbers, quantities, or names."""
    values, words = axis.values, key_words(axis.key)
    if all(type(value) in (int, float) for value in values):
        numbers, label = [float(value) for value in values], words
        if axis.key.endswith(".limit"):
            # A queue's limit in bytes has its unit.
            label += " (packets)"
    else:
        found = [base_value(value) if isinstance(value, str) else None for value in values]
        kinds = {quantity[0] for quantity in found if quantity}
        if None in found or len(kinds) != 1:
            names = value_names(axis)
            places = {text: float(place) for text, place in axis.places.items()}
            label = words
            if all(isinstance(value, Mapping) for value in values) and are_kinds(axis):
                label += " (kind)"
            shown = Ticks(label, list(places.values()), [names[text] for text in places])
            return shown, places
        bases = [float(quantity[1]) for quantity in found if quantity]
        units = _SCALES[kinds.pop()]
        least = min((base for base in bases if base > 0.0), default=1.0)
        unit, scale = next((entry for entry in units if least >= entry[1]), units[-1])
        numbers, label = [base / scale for base in bases], f"{words} ({unit})"
    places = dict(zip(axis.places, numbers, strict=True))
    return Ticks(label, numbers, None), places
