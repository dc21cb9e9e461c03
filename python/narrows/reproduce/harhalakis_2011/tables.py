"""The paper's Tables I to IV and the numbers behind Figure 2, next to ours."""

from __future__ import annotations

import statistics

from narrows.reproduce.harhalakis_2011 import kernel, published
from narrows.reproduce.harhalakis_2011.cells import CELLS, ECN_TITLES
from narrows.reproduce.measurements import Measurements, Table
from narrows.reproduce.output import range_text
from narrows.reproduce.statistics import Interval, normal_interval, plus_minus, t_interval


def tables(outcome: Measurements) -> list[Table]:
    """The tables for which cells were run."""
    # Not at the top: `python -m` warns if the package has already imported the module that it runs.
    from narrows.reproduce.harhalakis_2011 import reply_and_ring

    built = [
        _attempts(
            outcome,
            "Table I: DNS efficiency with FIFO and RED queues",
            {"FIFO": "fifo-300", "RED": "red-300-none"},
        ),
        _attempts(
            outcome,
            "Table II: efficiency of DNS for 300 ms link delay",
            {title: f"red-300-{share}" for share, title in ECN_TITLES.items()},
        ),
        _confidence(outcome),
        _success(outcome),
        _drop_rates(outcome),
        _sensitivity(outcome),
        reply_and_ring.error_table() if outcome.choices else None,
    ]
    return [table for table in built if table is not None]


NOTE = (
    "Counts of ours are scaled to 20000 queries. The kernel's column has all of its runs; only "
    "those in virtual time count for the agreement."
)
"""Below tables of attempts."""


def _attempts(outcome: Measurements, title: str, cells: dict[str, str]) -> Table | None:
    rows = []
    for name, cell in cells.items():
        if not outcome.runs(cell):
            continue
        for number in range(1, len(published.TIMEOUTS_S) + 1):
            count = published.ATTEMPTS[cell][number - 1]
            share = 100.0 * count / published.QUERIES
            ours = outcome.interval(cell, f"attempt_{number}")
            rows.append(
                [
                    name if number == 1 else "",
                    str(number),
                    f"{count}",
                    f"{share:.2f}",
                    _kernel(cell, number),
                    _scaled(ours),
                    plus_minus(ours),
                    _difference(ours, share),
                ]
            )
        ours = outcome.interval(cell, "unanswered")
        rows.append(
            [
                *("", "none", "0", "0.00", _kernel(cell, None)),
                *(_scaled(ours), plus_minus(ours), _difference(ours, 0.0)),
            ]
        )
    if not rows:
        return None
    columns = ["", "attempt", "published", "%", "kernel %", "ours", "% ± 95 %", "difference"]
    return Table(title, columns, rows, NOTE)


def _kernel(cell: str, attempt: int | None) -> str:
    return range_text(kernel.attempts(cell, attempt), "{:.2f}".format)


def _confidence(outcome: Measurements) -> Table | None:
    rows = []
    for cell, row in published.CONFIDENCE.items():
        values = outcome.values(cell, "first_attempt")
        if len(values) < 3:
            continue
        three = [row.mean - row.deviation, row.mean, row.mean + row.deviation]
        ours = values[:3]
        rows.append(
            [
                cell.removeprefix("red-300-"),
                f"{row.mean:.2f}",
                f"{row.deviation:.3f}",
                f"±{normal_interval(three, 0.99).half_width:.2f}",
                f"±{t_interval(three, 0.99).half_width:.2f}",
                f"{statistics.fmean(ours):.2f}",
                f"{statistics.stdev(ours):.3f}",
                f"±{normal_interval(ours, 0.99).half_width:.2f}",
                f"±{t_interval(ours, 0.99).half_width:.2f}",
                f"{statistics.fmean(values):.2f}",
                f"{statistics.stdev(values):.3f}",
                f"±{t_interval(values, 0.99).half_width:.2f}",
            ]
        )
    if not rows:
        return None
    count = len(outcome.seeds)
    return Table(
        "Table III: first-attempt success, 99 % confidence",
        [
            "ECN",
            "published mean",
            "sd",
            "as printed",
            "Student's t",
            "ours, 3 samples",
            "sd",
            "as the paper",
            "Student's t",
            f"ours, {count} seeds",
            "sd",
            "Student's t",
        ],
        rows,
        "The paper's ± is 2.576 sd/√3, the normal distribution's; three samples need Student's t.",
    )


def _success(outcome: Measurements) -> Table | None:
    titles = {cell.name: cell.title for cell in CELLS}
    rows = []
    for cell, printed in published.FIRST_ATTEMPT_PERCENT.items():
        ours = outcome.interval(cell, "first_attempt")
        if ours is None:
            continue
        measured = kernel.first_attempt(cell)
        rows.append(
            [
                titles[cell],
                f"{published.FIRST_ATTEMPT[cell]}",
                f"{printed:.2f}",
                range_text(measured, "{:.2f}".format),
                _scaled(ours),
                plus_minus(ours),
                _difference(ours, printed),
            ]
        )
    if not rows:
        return None
    return Table(
        "Table IV: success of the first attempt",
        ["experiment", "published", "%", "kernel %", "ours", "% ± 95 %", "difference"],
        rows,
    )


def _drop_rates(outcome: Measurements) -> Table | None:
    rows = []
    for name, cell in (("FIFO", "fifo-300"), ("RED", "red-300-none")):
        before = outcome.interval(cell, "drops_before")
        if before is None:
            continue
        rows.append(
            [
                name,
                plus_minus(before, 1),
                plus_minus(outcome.interval(cell, "drops_after"), 1),
                plus_minus(outcome.interval(cell, "drops_rise"), 1),
                plus_minus(outcome.interval(cell, "ewma_deviation"), 1),
                plus_minus(outcome.interval(cell, "utilisation"), 2),
            ]
        )
    if not rows:
        return None
    return Table(
        "Figure 2: drop rate before and after DNS starts",
        ["queue", "drops/s before", "drops/s after", "rise %", "sd of the curve", "utilisation %"],
        rows,
        "Published: RED about +30 %, FIFO hardly any; utilisation 100 % in both.",
    )


def _sensitivity(outcome: Measurements) -> Table | None:
    cells = [cell for cell in published.FIRST_ATTEMPT if outcome.runs(cell)]
    if not outcome.choices or not cells:
        return None
    rows = [["published", *(f"{published.FIRST_ATTEMPT_PERCENT[cell]:.1f}" for cell in cells)]]
    base = {cell: outcome.interval(cell, "first_attempt") for cell in cells}
    rows.append(["ours", *(plus_minus(base[cell], 1) for cell in cells)])
    for choice in outcome.choices:
        shifts = []
        for cell in cells:
            ours, then = base[cell], outcome.interval(cell, "first_attempt", choice.name)
            shifts.append("" if ours is None or then is None else f"{then.mean - ours.mean:+.1f}")
        rows.append([choice.name, *shifts])
    return Table(
        "Sensitivity of first-attempt success to what the paper leaves open, points",
        ["other choice", *(_short(cell) for cell in cells)],
        rows,
    )


def _short(cell: str) -> str:
    """A cell as a narrow heading: queue, ECN and Internet delay in separate lines."""
    queue, _, rest = cell.partition("-")
    for share in ("none", "half", "all"):
        if rest.endswith(f"-{share}"):
            return f"{queue.upper()}\n{share}\n{rest.removesuffix(f'-{share}')}"
    return f"{queue.upper()}\n\n{rest}"


def _scaled(interval: Interval | None) -> str:
    return "-" if interval is None else f"{interval.mean * published.QUERIES / 100.0:.0f}"


def _difference(interval: Interval | None, printed: float) -> str:
    return "-" if interval is None else f"{interval.mean - printed:+.2f}"
