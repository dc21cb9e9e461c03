"""A sweep as plain text: each combination's metrics, means over the seeds with their intervals."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from narrows.results.emphasis import GOODPUT, likeliest
from narrows.results.few_seeds import few_seeds
from narrows.results.jump import jumps_of
from narrows.results.left_out import left_out
from narrows.results.metrics import value_text
from narrows.results.setting_names import combination_names, settings_cells
from narrows.results.sweep import Sweep
from narrows.results.sweep_means import (
    NO_INTERVAL,
    Point,
    is_seedless,
    metric_named,
    metrics_of,
    points,
)
from narrows.results.sweep_run import SweepRun, canonical
from narrows.results.text import TextTable

MOST_NOTES = 3
"""The most combinations that a note names because their means leave something out."""

MOST_ROWS = 60
"""The most combinations that are printed; the table has the others."""

NO_MEAN = (
    'no mean ("-"): no complete run of the combination has the metric; there is no response time, '
    "for example, if no query was answered"
)
"""A note that is shown once if a combination lacks a metric."""

# If the user names no metric, the first four of these that the sweep has are printed.
_LIKELY = (
    "dns.within_1s_percent",
    "dns.first_attempt_percent",
    "dns.response_median_ms",
    "bursts.completion_mean_s",
    "pages.load_mean_s",
    "voip.mos_mean",
    GOODPUT,
    ".run.loss_percent",
    ".run.sojourn_mean_ms",
    ".run.utilisation_percent",
)
_MOST_COLUMNS = 4


def likely_metrics(sweep: Sweep) -> list[str]:
    """The keys of the metrics that people look for first."""
    summaries = [run.summary for run in sweep.runs]
    return likeliest(_LIKELY, metrics_of(sweep), summaries, _MOST_COLUMNS)


def sweep_text(sweep: Sweep, names: Sequence[str] = ()) -> TextTable:
    """The named metrics of every combination, or the likeliest ones if none is named.

    Raises:
        NarrowsError: No metric has one of the names.
    """
    known = metrics_of(sweep)
    if names:
        chosen = [metric_named(sweep, name) for name in names]
    else:
        chosen = [known[key] for key in likely_metrics(sweep)]
    # If there are only a few metrics, single seeds have room beside the mean.
    ranges = bool(names) and len(sweep.seeds) > 1
    per_metric = 2 if ranges else 1
    blank = ["-"] * (per_metric * len(chosen))
    cells: dict[str, list[str]] = {}
    is_short = False
    found: list[tuple[str, str, int]] = []
    with_interval: list[int] = []
    for column, metric in enumerate(chosen):
        # In the units that the names say.
        for point in points(sweep, replace(metric, scale=1.0)):
            at = canonical(list(point.settings.values()))
            row = cells.setdefault(at, list(blank))
            row[per_metric * column] = point_text(point)
            is_short |= point.is_short_of_seeds
            found.append((at, metric.key, point.runs))
            if point.low is not None:
                with_interval.append(point.runs)
            if ranges:
                row[per_metric * column + 1] = range_text(point.values)
    rows: dict[str, tuple[str, ...]] = {}
    complete: dict[str, list[SweepRun]] = {}
    for run in sweep.runs:
        at = canonical(list(run.settings.values()))
        complete.setdefault(at, []).extend([run] if run.complete else [])
        rows.setdefault(at, settings_cells(sweep.axes, run.settings))
    counts = {at: len(runs) for at, runs in complete.items()}
    shown = [
        (*settings, str(counts[at]), *cells.get(at, blank))
        for at, settings in list(rows.items())[:MOST_ROWS]
    ]
    notes = ["means and 95 % intervals over the seeds"] if len(sweep.seeds) > 1 else []
    notes += few_seeds(with_interval)
    notes += [NO_INTERVAL] if is_short else []
    if len(found) < len(chosen) * len(rows):
        notes.append(NO_MEAN)
    notes += _partial_notes(sweep, complete, found)
    if len(rows) > MOST_ROWS:
        notes.append(f"{len(rows) - MOST_ROWS} more combinations are in the table")
    seedless = sum(bool(runs) and is_seedless(runs) for runs in complete.values())
    if seedless:
        notes.append(
            f"{seedless} of {len(rows)} combinations give the same with every seed, because "
            "nothing in them is random, so they have no interval; hint: add spread with "
            'stagger = "random", jitter or service_jitter_mean'
        )
    having_runs = [runs for runs in complete.values() if runs]
    notes += left_out_notes(sweep, having_runs)
    notes += jump_notes(sweep, having_runs, [metric.key for metric in chosen])
    missing = sweep.total - sum(counts.values())
    if missing:
        notes.append(f"{missing} of {sweep.total} runs are not complete, and do not count")
    columns = [text for each in chosen for text in (each.key, "least to most")[:per_metric]]
    head = (*sweep.keys, "runs", *columns)
    title = f"{sweep.name}: {sum(counts.values())} of {sweep.total} runs"
    return TextTable(title, head, [("", shown)], notes)


def _partial_notes(
    sweep: Sweep, complete: Mapping[str, Sequence[SweepRun]], found: Sequence[tuple[str, str, int]]
) -> list[str]:
    """Notes on means over some seeds only, because other runs lack the metric.

    `found` has the combination, the metric and the number of runs that have it.
    """
    having_runs = {at: runs for at, runs in complete.items() if runs}
    names = combination_names(sweep.axes, [runs[0] for runs in having_runs.values()])
    name_of = dict(zip(having_runs, names, strict=True))
    notes = [
        f"{name_of[at]}{': ' if name_of[at] else ''}{key} is missing from "
        f"{len(complete[at]) - count} of {len(complete[at])} runs, so its mean is of the others"
        for at, key, count in found
        if count < len(complete[at])
    ]
    more = len(notes) - MOST_NOTES
    tail = [f"{more} more means are of some seeds only"] if more > 0 else []
    return notes[:MOST_NOTES] + tail


def left_out_notes(
    sweep: Sweep, combinations: Sequence[Sequence[SweepRun]], shown: Collection[str] | None = None
) -> list[str]:
    """Notes on what the means of combinations leave out; of many combinations, only the first few.

    `shown` has the paths of the metrics that are shown; None means all.
    """
    names = combination_names(sweep.axes, [runs[0] for runs in combinations])
    notes = [
        f"{name}: {words}" if name else words
        for name, runs in zip(names, combinations, strict=True)
        for words in left_out([run.summary for run in runs], shown)
    ]
    more = len(notes) - MOST_NOTES
    tail = [f"so do {more} more combinations"] if more > 0 else []
    return notes[:MOST_NOTES] + tail


def jump_notes(
    sweep: Sweep, combinations: Sequence[Sequence[SweepRun]], shown: Sequence[str]
) -> list[str]:
    """Warnings about shown percentiles that are at the jump to a repeated query, and where."""
    names = combination_names(sweep.axes, [runs[0] for runs in combinations])
    named = [
        (name, [run.summary for run in runs])
        for name, runs in zip(names, combinations, strict=True)
    ]
    return [f"warning: {words}" for words in jumps_of(named, shown, "all combinations")]


def point_text(point: Point) -> str:
    """A mean and the ends of its interval, which may be asymmetric."""
    if point.low is None or point.high is None:
        return value_text(point.mean) + (" (-)" if point.is_short_of_seeds else "")
    return f"{value_text(point.mean)} ({value_text(point.low)} to {value_text(point.high)})"


def range_text(values: Sequence[float]) -> str:
    """The least and the largest value of the seeds; `-` if all are the same."""
    if len(set(values)) < 2:
        return "-"
    return f"{value_text(min(values))} to {value_text(max(values))}"
