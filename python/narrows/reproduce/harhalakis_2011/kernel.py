"""Ours against real Linux kernels in the same test bed (kernel-reference.csv).

The kernel is the judge of the simulator: a cell agrees when first-attempt success lies inside the
span of the reference's runs widened by 1.5 points, utilisation within 0.5 points, the mean backlog
within 5 %, and drops and marks per second of the DNS phase within 10 %.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING

from narrows.reproduce.outcome import Agreement

if TYPE_CHECKING:
    from narrows.reproduce.outcome import Outcome

CASES: dict[str, tuple[str, ...]] = {
    "fifo-300": ("fifo300", "tt_fifo300"),
    "red-300-none": ("red300_off", "tt_red300_off"),
    "red-300-half": ("red300_half",),
    "red-300-all": ("red300_all",),
    "fifo-200-20": ("fifo200_20",),
    "red-200-20-none": ("red200_20_off",),
    "red-200-20-half": ("red200_20_half",),
    "red-300-none-legacy": ("red300_off_legacy",),
    "red-300-none-noring": ("tt_red300_off_noring",),
}
"""Rows of the reference by our cell."""


@dataclass(frozen=True)
class _Metric:
    name: str
    unit: str
    ours: str
    """Name of our figure."""
    theirs: Callable[[dict[str, str]], float | None]
    """From a row of the reference; `None` when the row has no such figure."""
    slack: float
    """Widens the reference's span at both ends: a share when `relative`, else in `unit`."""
    relative: bool

    def span(self, values: list[float]) -> tuple[float, float]:
        low, high = min(values), max(values)
        if self.relative:
            return low * (1.0 - self.slack), high * (1.0 + self.slack)
        return low - self.slack, high + self.slack


def reference() -> dict[str, dict[str, str]]:
    """The rows of the reference by case, as text."""
    text = (files(__package__) / "kernel-reference.csv").read_text(encoding="utf-8")
    return {row["case"]: row for row in csv.DictReader(text.splitlines())}


def first_attempt(cell: str) -> list[float]:
    """First-attempt success on the kernel in percent, one a run; empty for cells not run there."""
    rows = reference()
    return [float(rows[case]["p1"]) for case in CASES.get(cell, ())]


def attempts(cell: str, attempt: int | None) -> list[float]:
    """Queries answered on an attempt (None: on none) on the kernel, in percent, one a run."""
    rows = [reference()[case] for case in CASES.get(cell, ())]
    column = "failed" if attempt is None else f"att{attempt}"
    return [100.0 * float(row[column]) / float(row["queries"]) for row in rows]


def agreement(outcome: Outcome) -> list[Agreement]:
    """Every figure of every cell that the reference has."""
    rows = reference()
    entries = []
    for cell, cases in CASES.items():
        for metric in METRICS:
            found = [metric.theirs(rows[case]) for case in cases]
            values = [value for value in found if value is not None]
            if not values:
                continue
            low, high = metric.span(values)
            entries.append(
                Agreement(
                    cell=cell,
                    metric=metric.name,
                    unit=metric.unit,
                    reference=tuple(values),
                    low=low,
                    high=high,
                    interval=outcome.interval(cell, metric.ours),
                )
            )
    return entries


def _number(name: str, scale: float = 1.0) -> Callable[[dict[str, str]], float | None]:
    return lambda row: scale * float(row[name]) if row[name] else None


def _per_second(name: str) -> Callable[[dict[str, str]], float | None]:
    # A case without ECN marks nothing, which is no figure to compare.
    return lambda row: (
        float(row[name]) / float(row["dns_phase_s"]) if row[name] not in ("", "0") else None
    )


METRICS = (
    _Metric("first-attempt success", "%", "first_attempt", _number("p1"), 1.5, relative=False),
    _Metric("mean backlog", "bytes", "backlog_bytes", _number("backlog_mean"), 0.05, relative=True),
    _Metric("utilisation", "%", "utilisation", _number("util", 100.0), 0.5, relative=False),
    _Metric("drops", "1/s", "drops_per_s", _per_second("drops"), 0.1, relative=True),
    _Metric("marks", "1/s", "marks_per_s", _per_second("marked"), 0.1, relative=True),
)
