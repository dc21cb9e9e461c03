"""Our metrics against Linux 6.1 in the same test bed: User-Mode Linux, mostly in virtual time.

kernel-reference.csv holds one run for most cells, in real or virtual time. kernel-virtual.csv holds
further runs in virtual time, several seeds for some cells, with permanent neighbour entries.
kernel-arp.csv holds runs of the cell that neighbour resolution decides, with Linux's ordinary
entries and with permanent ones. kernel-reference.txt says how all of these were made.

The kernel judges the simulator. A metric agrees if it lies inside the range of the kernel's runs in
virtual time, widened at both ends by two of the kernel's own standard deviations between seeds. In
real time, stalls of the machine let packets leave in bursts, so runs in real time count only if
there are no others. The agreement is partly calibrated: see README.md, "Agreement with the kernel".
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING

from narrows.reproduce.measurements import Agreement

if TYPE_CHECKING:
    from narrows.reproduce.measurements import Measurements


def _virtual(cell: str, *runs: str) -> tuple[str, ...]:
    """Rows of kernel-virtual.csv."""
    return tuple(f"virtual_{cell}_{run}" for run in runs)


CASES: dict[str, tuple[str, ...]] = {
    "fifo-300": ("fifo300", "tt_fifo300", *_virtual("fifo300", "s1", "s2", "s3", "testbed_delays")),
    "red-300-none": (
        "red300_off",
        "tt_red300_off",
        *_virtual("red300_none", "s1", "s2", "s3", "hz250"),
    ),
    "red-300-half": ("red300_half", *_virtual("red300_half", "s1", "s2", "s3")),
    "red-300-all": ("red300_all", *_virtual("red300_all", "s1", "s2", "s3", "hz250")),
    "fifo-200-20": ("fifo200_20", *_virtual("fifo200_20", "s1", "testbed_delays")),
    "red-200-20-none": ("red200_20_off", *_virtual("red200_20_none", "s1", "s2", "s3")),
    "red-200-20-half": ("red200_20_half", *_virtual("red200_20_half", "s1")),
    "fifo-200-50": _virtual("fifo200_50", "s1"),
    "red-200-50-none": _virtual("red200_50_none", "s1"),
    "red-200-50-half": _virtual("red200_50_half", "s1"),
    "red-200-50-all": _virtual("red200_50_all", "s1"),
    "red-300-none-legacy": ("red300_off_legacy",),
    "red-300-none-noring": ("tt_red300_off_noring",),
}
"""Rows of the reference, by the name of our cell."""


@dataclass(frozen=True)
class _Metric:
    name: str
    unit: str
    ours: str
    """Name of our metric."""
    theirs: Callable[[dict[str, str]], float | None]
    """Reads the metric from a row of the reference; `None` if the row does not have it."""
    slack: float
    """Widens the reference's span at both ends: a share when `relative`, else in `unit`."""
    relative: bool

    def span(self, values: list[float]) -> tuple[float, float]:
        low, high = min(values), max(values)
        if self.relative:
            return low * (1.0 - self.slack), high * (1.0 + self.slack)
        low, high = low - self.slack, high + self.slack
        return (max(0.0, low), min(100.0, high)) if self.unit == "%" else (low, high)


NEIGHBOURS = "red-200-20-all"
"""The cell that ARP decides. It is compared with runs that have Linux's ordinary entries."""

PERMANENT = _virtual("red200_20_all", "s1", "s2")
"""Runs of that cell with permanent entries, in which no query was answered."""


def reference() -> dict[str, dict[str, str]]:
    """The rows of the files by case, as text."""
    rows = {}
    for name in ("kernel-reference.csv", "kernel-virtual.csv"):
        rows.update({row["case"]: row for row in _read(name)})
    return {**rows, **_with_neighbours()}


def _read(name: str) -> list[dict[str, str]]:
    text = (files(__package__) / name).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def _with_neighbours() -> dict[str, dict[str, str]]:
    """The runs of `NEIGHBOURS` with Linux's ordinary ARP, in the columns of the other files.

    Only runs with CUBIC and without loss elsewhere are taken.
    """
    rows = {}
    for row in _read("kernel-arp.csv"):
        varied = any(word in row["variation"] for word in ("loss", "half", "50 ms", "Reno"))
        if row["neighbour_entries"] != "dynamic" or varied:
            continue
        phase_s = float(row["dns_phase_s"])
        rows[f"arp_{row['run']}"] = {
            **row,
            "clock": "virtual",
            "drops": str(float(row["drops_per_s"]) * phase_s),
            "marked": str(float(row["marks_per_s"]) * phase_s),
            "backlog_mean": "",
            "util": "",
        }
    return rows


CASES[NEIGHBOURS] = tuple(_with_neighbours())


def first_attempt(cell: str, *, judged: bool = False) -> list[float]:
    """First-attempt success on the kernel in percent, one value for each run; empty without runs.

    Args:
        cell: One of our cells.
        judged: Only the runs that judge the simulator: those in virtual time, if there are any.
    """
    rows = reference()
    cases = CASES.get(cell, ())
    return [float(rows[case]["p1"]) for case in (_judges(rows, cases) if judged else cases)]


def _judges(rows: dict[str, dict[str, str]], cases: tuple[str, ...]) -> tuple[str, ...]:
    """The cases in virtual time; all cases if there are none."""
    return tuple(case for case in cases if rows[case]["clock"] == "virtual") or cases


def attempts(cell: str, attempt: int | None) -> list[float]:
    """Queries answered on an attempt (None: on none) on the kernel, in percent, for each run."""
    rows = [reference()[case] for case in CASES.get(cell, ())]
    column = "failed" if attempt is None else f"att{attempt}"
    return [100.0 * float(row[column]) / float(row["queries"]) for row in rows]


def agreement(outcome: Measurements) -> list[Agreement]:
    """Every metric of every cell that the reference has."""
    rows = reference()
    entries = []
    for cell, cases in CASES.items():
        for metric in METRICS:
            found = [metric.theirs(rows[case]) for case in _judges(rows, cases)]
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
    # A case without ECN marks nothing, so there is nothing to compare.
    return lambda row: (
        float(row[name]) / float(row["dns_phase_s"]) if row[name] not in ("", "0") else None
    )


METRICS = (
    _Metric("first-attempt success", "%", "first_attempt", _number("p1"), 0.66, relative=False),
    _Metric(
        "mean backlog", "bytes", "backlog_bytes", _number("backlog_mean"), 0.012, relative=True
    ),
    # The kernel has 100 % in every run; the interval's ends are a packet or two away.
    _Metric("utilisation", "%", "utilisation", _number("util", 100.0), 0.1, relative=False),
    _Metric("drops", "1/s", "drops_per_s", _per_second("drops"), 0.044, relative=True),
    _Metric("marks", "1/s", "marks_per_s", _per_second("marked"), 0.023, relative=True),
)
"""The slack is twice the standard deviation between the kernel's seeds, over the five cells that
have three or more runs in virtual time: 0.33 points, 0.59 %, 0, 2.2 % and 1.1 %."""
