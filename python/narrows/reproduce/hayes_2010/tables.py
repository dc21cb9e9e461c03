"""Table I, and Figures 4 to 6 in numbers, next to ours."""

from __future__ import annotations

import math

from narrows.reproduce.hayes_2010 import published
from narrows.reproduce.hayes_2010.cells import SPLIT, TITLES
from narrows.reproduce.hayes_2010.claims import over
from narrows.reproduce.hayes_2010.published import FAST, RATES, TOP
from narrows.reproduce.measurements import Measurements, Table
from narrows.reproduce.statistics import t_interval
from narrows.results.gateway_bench import PER_S


def tables(outcome: Measurements) -> list[Table]:
    """The tables for whose cells there are measurements."""
    cells = [cell for cell in TITLES if outcome.runs(cell)]
    if not cells:
        return []
    found = [_summary(outcome, cells), _curves(outcome, cells)]
    split = [cell for cell in SPLIT if outcome.runs(cell)]
    return [*found, _split(outcome, ["udp", "tcp", *split, "gateway"])] if split else found


def headline(outcome: Measurements) -> list[str]:
    """What stateless TCP and the kernel's TCP cost over UDP, with 95 % intervals over rounds."""
    costs = {cell: _cost(outcome, cell) for cell in ("gateway", "tcp")}
    if None in costs.values():
        return []
    return [
        f"At {TOP} queries a second, kernel and BIND together need {costs['gateway']} more "
        f"processor time for stateless TCP than for UDP, and {costs['tcp']} more for the kernel's "
        "TCP (95 % intervals over rounds)."
    ]


def _cost(outcome: Measurements, cell: str) -> str | None:
    """How far a cell's processor time is above UDP's in the same rounds, with its interval."""
    own, base = outcome.runs(cell), outcome.runs("udp")
    percent = over(cell, "udp", f"total_{TOP}")
    found = [percent({cell: own[number], "udp": base[number]}) for number in own.keys() & base]
    found = [value for value in found if math.isfinite(value)]
    if len(found) < 2:
        return None
    interval = t_interval(found)
    return f"{interval.mean:.0f} % ({interval.low:.0f} to {interval.high:.0f})"


def _summary(outcome: Measurements, cells: list[str]) -> Table:
    rows = []
    for cell in cells:
        over = _over_udp(outcome, cell)
        printed = published.OVER_UDP_PERCENT.get(cell, 0.0 if cell == "udp" else None)
        rows.append(
            [
                TITLES[cell],
                "-" if printed is None else f"{printed:.0f} %",
                "-" if over is None else f"{over:+.0f} %",
                _text(published.KERNEL_S.get(cell)),
                _mean(outcome, cell, f"kernel_{TOP}"),
                _text(published.TOTAL_S.get(cell)),
                _mean(outcome, cell, f"total_{TOP}"),
                _bytes(outcome, cell),
            ]
        )
    return Table(
        f"Table I and Figures 4 to 6 at {TOP} queries a second: seconds of processor time in ten",
        [
            "",
            "over UDP, paper",
            "ours",
            "kernel, paper",
            "ours",
            "kernel + server, paper",
            "ours",
            "bytes a connection, paper / ours",
        ],
        rows,
        published.INCONSISTENT,
    )


def _curves(outcome: Measurements, cells: list[str]) -> Table:
    rows = [
        [str(rate), *(_mean(outcome, cell, f"total_{rate}") for cell in cells)]
        for rate in RATES
        if any(outcome.values_at(cell, f"total_{rate}") for cell in cells)
    ]
    return Table(
        "Figure 6: seconds of processor time of kernel and server in ten seconds",
        ["queries a second", *(TITLES[cell] for cell in cells)],
        rows,
    )


def _split(outcome: Measurements, cells: list[str]) -> Table:
    rows = [
        [
            {**TITLES, **SPLIT}[cell],
            *(_microseconds(outcome, cell, rate) for rate in (TOP, FAST)),
            _mean(outcome, cell, f"packets_{TOP}", 1),
        ]
        for cell in cells
    ]
    return Table(
        "What the kernel's TCP costs: processor time of kernel and server",
        ["", f"us a query at {TOP}/s", f"us a query at {FAST}/s", "packets a query"],
        rows,
        "A connection without a query is opened and closed by the client. Persistent connections "
        "serve one query after the other. With Fast Open the query comes with the SYN.",
    )


def _microseconds(outcome: Measurements, cell: str, rate: int) -> str:
    values = outcome.values_at(cell, f"total_{rate}")
    return f"{1e6 * sum(values) / len(values) / (rate * PER_S):.1f}" if values else "-"


def _over_udp(outcome: Measurements, cell: str) -> float | None:
    own = outcome.values_at(cell, f"total_{TOP}")
    base = outcome.values_at("udp", f"total_{TOP}")
    if not own or not base:
        return None
    return 100.0 * ((sum(own) / len(own)) / (sum(base) / len(base)) - 1.0)


def _bytes(outcome: Measurements, cell: str) -> str:
    printed = published.BYTES.get(cell)
    metric = "bytes_idle_kernel" if cell == "tcp" else "bytes_asked_entry"
    return f"{'-' if printed is None else f'{printed:.0f}'} / {_mean(outcome, cell, metric, 0)}"


def _mean(outcome: Measurements, cell: str, metric: str, digits: int = 3) -> str:
    values = outcome.values_at(cell, metric)
    return f"{sum(values) / len(values):.{digits}f}" if values else "-"


def _text(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
