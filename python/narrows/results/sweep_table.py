"""The table of a sweep: a row for each run, the varied keys, and every metric of the summaries.

A metric's column is its path in the summary, such as `dns.first_attempt_percent` or
`queues.bottleneck.forward.run.sojourn_mean_ms`; names contain the unit of the values. An array's
entries are numbered from 1, and an interval's ends are `.low` and `.high`. A metric with the same
name as a varied key gets the prefix `summary.`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from narrows.results.sweep_run import Axis, SweepRun, plain_value


def sweep_table(axes: Sequence[Axis], runs: Sequence[SweepRun]) -> pl.DataFrame:
    """The table of runs, in their order."""
    columns = [
        _varied(axis.key, [run.settings[axis.key] for run in runs], axis.values) for axis in axes
    ]
    columns += [
        pl.Series("seed", [run.seed for run in runs], dtype=pl.UInt64),
        pl.Series("status", [run.status for run in runs], dtype=pl.String),
        pl.Series("stopped", [run.stopped for run in runs], dtype=pl.String),
        pl.Series("message", [run.message for run in runs], dtype=pl.String),
        pl.Series("end_s", [run.end_s for run in runs], dtype=pl.Float64),
        pl.Series("events", [run.events for run in runs], dtype=pl.UInt64),
        pl.Series("run", [run.run for run in runs], dtype=pl.String),
    ]
    found = [by_path(run.summary) for run in runs]
    known = dict.fromkeys(name for of_run in found for name in of_run)
    taken = {axis.key for axis in axes}
    for name in known:
        shown = f"summary.{name}" if name in taken else name
        columns.append(pl.Series(shown, [of.get(name) for of in found], dtype=pl.Float64))
    return pl.DataFrame(columns)


def by_path(summary: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a summary by their paths, without nulls and texts.

    Examples:
        >>> by_path({"dns": {"queries": 3, "note": "text", "interval_percent": [90.0, 95.0]}})
        {'dns.queries': 3.0, 'dns.interval_percent.low': 90.0, 'dns.interval_percent.high': 95.0}
    """
    return {path: value for path, value in by_path_or_null(summary).items() if value is not None}


def by_path_or_null(summary: Mapping[str, Any]) -> dict[str, float | None]:
    """The numbers of a summary by their paths, with None for null; without texts.

    Examples:
        >>> by_path_or_null({"dns": {"queries": 0, "note": "text", "response_median_ms": None}})
        {'dns.queries': 0.0, 'dns.response_median_ms': None}
    """
    found: dict[str, float | None] = {}
    _collect("", summary, found)
    return found


def _collect(path: str, value: Any, found: dict[str, float | None]) -> None:
    kind = type(value)
    if kind is float or kind is int:
        found[path] = float(value)
    elif value is None:
        found[path] = None
    elif isinstance(value, dict):
        for key, inner in value.items():
            _collect(f"{path}.{key}" if path else key, inner, found)
    elif kind is list:
        ends = ("low", "high") if len(value) == 2 and "interval" in path.rpartition(".")[2] else ()
        for number, inner in enumerate(value):
            _collect(f"{path}.{ends[number] if ends else number + 1}", inner, found)


def _varied(key: str, values: list[Any], of_axis: Sequence[Any]) -> pl.Series:
    """A varied key's column: Booleans, whole numbers, numbers, or text otherwise.

    Values that are neither numbers nor text, such as a queue's table, become JSON.
    """
    if all(isinstance(value, bool) for value in of_axis):
        return pl.Series(key, values, dtype=pl.Boolean)
    if all(type(value) is int and -(2**63) <= value < 2**63 for value in of_axis):
        return pl.Series(key, values, dtype=pl.Int64)
    if all(type(value) in (int, float) for value in of_axis):
        return pl.Series(key, [float(value) for value in values], dtype=pl.Float64)
    texts = [plain_value(value) for value in values]
    return pl.Series(key, texts, dtype=pl.String)
