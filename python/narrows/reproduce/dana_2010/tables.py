"""The figures as numbers, and how other loads change them."""

from __future__ import annotations

from narrows.reproduce.dana_2010.cells import CELLS, QUEUES
from narrows.reproduce.measurements import Measurements, Table
from narrows.reproduce.statistics import plus_minus

_METRICS = (
    ("buffer", "Figure 3: mean buffer, packets", 1),
    ("full_s", "Figure 3: first overflow, s", 0),
    ("delay", "Figure 4: mean delay, ms", 0),
    ("variation", "Figure 5: delay variation, ms²", 0),
    ("first_drop_s", "Figure 6: first drop, s", 0),
    ("drops", "Figure 6: drops", 0),
    ("marks", "marks", 0),
    ("utilisation", "Figure 7: utilisation, %", 2),
    ("cpu_before", "Figure 8: CPU before the first drop, %", 3),
    ("cpu_after", "Figure 8: CPU after it, %", 3),
    ("cpu_late", "Figure 8: CPU in the last two minutes, %", 3),
)
"""Each metric's key, name, and digits."""

_SHOWN = ("delay", "variation", "drops", "utilisation")
"""The metrics of the sensitivity table."""


def tables(outcome: Measurements) -> list[Table]:
    """The tables for which cells were run."""
    built = [_overview(outcome), _loads(outcome)]
    return [table for table in built if table is not None]


def _overview(outcome: Measurements) -> Table | None:
    cells = [cell for cell in CELLS if outcome.runs(cell.name)]
    if not cells:
        return None
    rows = [
        [title, *(_cell(outcome, cell.name, metric, digits) for cell in cells)]
        for metric, title, digits in _METRICS
    ]
    return Table(
        "Figures 3 to 8 in numbers",
        ["", *(cell.title for cell in cells)],
        rows,
        "Means from 100 s on, when the load begins. The paper does not print the load; we chose it "
        "so that Drop Tail fills at about 156 s. CPU is a model in the simulator, and measured on "
        "a guest kernel: see this reproduction's README, narrows/reproduce/dana_2010/README.md.",
    )


def _loads(outcome: Measurements) -> Table | None:
    if not outcome.choices or not all(outcome.runs(queue) for queue in QUEUES):
        return None
    rows = [["ours", *_four(outcome, None)]]
    for choice in outcome.choices:
        if choice.runs_again:
            rows.append([choice.name, *_four(outcome, choice.name)])
    return Table(
        "Sensitivity to load, TCP and delays: Drop Tail / RED / RED+ECN",
        ["other choice", "delay, ms", "variation, ms²", "drops", "utilisation, %"],
        rows,
    )


def _four(outcome: Measurements, choice: str | None) -> list[str]:
    cells = []
    for metric in _SHOWN:
        values = []
        for queue in QUEUES:
            found = outcome.interval(queue, metric, choice) if choice else None
            touched = found or outcome.interval(queue, metric)
            values.append("-" if touched is None else f"{touched.mean:.{_digits(metric)}f}")
        cells.append(" / ".join(values))
    return cells


def _digits(metric: str) -> int:
    return 2 if metric == "utilisation" else 0


def _cell(outcome: Measurements, cell: str, metric: str, digits: int) -> str:
    """A metric's mean and interval; if some seeds lack the metric, also how many have it."""
    interval, seeds = outcome.interval(cell, metric), len(outcome.runs(cell))
    if interval is not None and interval.count < seeds:
        return f"{interval.mean:.{digits}f} in {interval.count} of {seeds} runs"
    return plus_minus(interval, digits)
