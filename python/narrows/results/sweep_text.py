"""A sweep as plain text: each combination's figures, means over the seeds with their intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from narrows.results.metrics import value_text
from narrows.results.sweep import Sweep, SweepRun, canonical
from narrows.results.sweep_means import Point, figure_named, figures_of, is_seedless, points
from narrows.results.text import TextTable

__all__ = ["sweep_text"]

MOST_ROWS = 60
"""Combinations that are printed; the others are in the table."""

# The first four that a sweep has are printed where none are asked for; the ends of paths.
_LIKELY = (
    "dns.first_attempt_percent",
    "dns.response_median_ms",
    "bursts.completion_mean_s",
    "flows.goodput_mbit_per_s",
    ".run.loss_percent",
    ".run.sojourn_mean_ms",
    ".run.utilisation_percent",
)
_MOST_COLUMNS = 4


def sweep_text(sweep: Sweep, names: Sequence[str] = ()) -> TextTable:
    """The figures named, or the likeliest ones, of every combination.

    Raises:
        NarrowsError: A name is no figure.
    """
    known = figures_of(sweep)
    if names:
        chosen = [figure_named(sweep, name) for name in names]
    else:
        chosen = [
            next(figure for key, figure in known.items() if key.endswith(end))
            for end in _LIKELY
            if any(key.endswith(end) for key in known)
        ][:_MOST_COLUMNS]
    cells: dict[str, list[str]] = {}
    for column, figure in enumerate(chosen):
        # In the units that the names say.
        for point in points(sweep, replace(figure, scale=1.0)):
            at = canonical(list(point.settings.values()))
            cells.setdefault(at, ["-"] * len(chosen))[column] = point_text(point)
    rows: dict[str, tuple[str, ...]] = {}
    complete: dict[str, list[SweepRun]] = {}
    for run in sweep.runs:
        at = canonical(list(run.settings.values()))
        complete.setdefault(at, []).extend([run] if run.complete else [])
        rows.setdefault(at, tuple(_text(value) for value in run.settings.values()))
    counts = {at: len(runs) for at, runs in complete.items()}
    shown = [
        (*settings, str(counts[at]), *cells.get(at, ["-"] * len(chosen)))
        for at, settings in list(rows.items())[:MOST_ROWS]
    ]
    notes = ["means ± 95 % (Student's t over the seeds)"] if len(sweep.seeds) > 1 else []
    if len(rows) > MOST_ROWS:
        notes.append(f"{len(rows) - MOST_ROWS} more combinations are in the table")
    seedless = sum(bool(runs) and is_seedless(runs) for runs in complete.values())
    if seedless:
        notes.append(
            f"{seedless} of {len(rows)} combinations give the same with every seed, because "
            "nothing in them is random; no interval; hint: such as spread with stagger, jitter"
        )
    missing = sweep.total - sum(counts.values())
    if missing:
        notes.append(f"{missing} of {sweep.total} runs are not complete, and do not count")
    head = (*sweep.keys, "runs", *(figure.key for figure in chosen))
    title = f"{sweep.name}: {sum(counts.values())} of {sweep.total} runs"
    return TextTable(title, head, [("", shown)], notes)


def point_text(point: Point) -> str:
    """A mean and half its interval's width."""
    if point.low is None or point.high is None:
        return value_text(point.mean)
    return f"{value_text(point.mean)} ± {value_text((point.high - point.low) / 2)}"


def _text(value: object) -> str:
    return value if isinstance(value, str) else canonical(value)
