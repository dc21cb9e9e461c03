"""The published numbers: rows of raw data, of a README, and of the overload experiments."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path

NUMBERED = {
    ("dualpi2", "prague", "cubic", 5, 5): "D1",
    ("dualpi2", "prague", "cubic", 5, 20): "D2",
    ("dualpi2", "prague", "cubic", 5, 100): "D3",
    ("dualpi2", "prague", "cubic", 100, 5): "D4",
    ("dualpi2", "prague", "cubic", 100, 20): "D5",
    ("dualpi2", "prague", "cubic", 100, 100): "D7",
    ("dualpi2", "prague", "cubic", 5, 0): "D8",
    ("dualpi2", "prague", "cubic", 100, 0): "D9",
    ("dualpi2", "prague", "reno", 5, 5): "D10",
    ("dualpi2", "prague", "reno", 100, 100): "D11",
    ("pie", "cubic-ecn", "cubic", 5, 5): "D12",
    ("pie", "cubic-ecn", "cubic", 5, 20): "D13",
    ("pie", "cubic-ecn", "cubic", 5, 100): "D14",
    ("pie", "cubic-ecn", "cubic", 100, 100): "D15",
    ("pie", "cubic-ecn", "cubic", 100, 0): "D16",
    ("pie", "reno-ecn", "reno", 5, 5): "D17",
    ("pie", "reno-ecn", "reno", 100, 0): "D18",
    ("fqcodel", "cubic-ecn", "cubic", 5, 5): "D19",
    ("fqcodel", "cubic-ecn", "cubic", 5, 100): "D20",
    ("fqcodel", "cubic-ecn", "cubic", 5, 0): "D21",
    ("fqcodel", "cubic-ecn", "cubic", 100, 0): "D22",
    ("fqcodel", "reno-ecn", "reno", 100, 100): "D23",
}
"""The rows that have a number of their own."""

CORRECTED = ("L4S-D9", "L4S-CSV13")
"""The rows that led to a correction of the simulator, so they show no independent agreement."""

QUANTITIES = {
    "rate_ecn": ("rate of the ECN connection", "Mbit/s"),
    "rate_classic": ("rate of the classic connection", "Mbit/s"),
    "utilisation_pct": ("utilisation", "%"),
    "delay_ecn_mean": ("ECN packets' mean delay", "ms"),
    "delay_ecn_p99": ("ECN packets' 99th percentile of delay", "ms"),
    "delay_classic_mean": ("classic packets' mean delay", "ms"),
    "delay_classic_p99": ("classic packets' 99th percentile of delay", "ms"),
    "marks_ecn_pct": ("marks of ECN packets", "%"),
    "drops_classic_pct": ("drops of classic packets", "%"),
}
"""Columns of the file with their names and units."""


@dataclass(frozen=True)
class Mixed:
    """A row of the mixed round trips: one connection of each kind, or an ECN one alone (0 ms)."""

    aqm: str
    ecn: str
    classic: str
    rtt_ecn_ms: int
    rtt_classic_ms: int
    values: tuple[tuple[str, float], ...]
    line: int
    """Its number in the file, from 1."""

    @property
    def id(self) -> str:
        """The claim's id."""
        key = (self.aqm, self.ecn, self.classic, self.rtt_ecn_ms, self.rtt_classic_ms)
        return f"L4S-{NUMBERED.get(key, f'CSV{self.line}')}"

    @property
    def cell(self) -> str:
        """The cell's name."""
        return f"{self.aqm}-{self.classic}-{self.rtt_ecn_ms}-{self.rtt_classic_ms}"

    @property
    def title(self) -> str:
        """What was run, in a few words."""
        if not self.rtt_classic_ms:
            return f"{self.aqm}: {self.ecn} alone, {self.rtt_ecn_ms} ms"
        rtts = f"{self.rtt_ecn_ms}/{self.rtt_classic_ms} ms"
        return f"{self.aqm}: {self.ecn} and {self.classic}, {rtts}"


@cache
def mixed() -> tuple[Mixed, ...]:
    """The rows of `published.csv`."""
    text = (Path(__file__).parent / "published.csv").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return tuple(
        Mixed(
            row["aqm"],
            row["cc_ecn"],
            row["cc_classic"],
            int(row["rtt_ecn_ms"]),
            int(row["rtt_classic_ms"]),
            tuple((name, float(row[name])) for name in QUANTITIES if row[name]),
            number,
        )
        for number, row in enumerate(csv.DictReader(lines), start=1)
    )


@dataclass(frozen=True)
class Overload:
    """A row of the overload: a stream of `stream` Mbit/s of payload in the L queue."""

    id: str
    stream: int
    values: tuple[float, ...]
    """In the order of `OVERLOAD_QUANTITIES`."""


OVERLOAD_QUANTITIES = {
    "rate_ecn": ("rate of each Prague connection", "Mbit/s"),
    "rate_classic": ("rate of each CUBIC connection", "Mbit/s"),
    "rate_stream": ("rate of the stream", "Mbit/s"),
    "delay_ecn_mean": ("L queue's mean delay", "ms"),
    "delay_ecn_p99": ("L queue's 99th percentile of delay", "ms"),
    "delay_classic_mean": ("classic queue's mean delay", "ms"),
    "delay_classic_p99": ("classic queue's 99th percentile of delay", "ms"),
    "marks_ecn_pct": ("marks in the L queue", "%"),
    "drops_ecn_pct": ("drops in the L queue", "%"),
    "drops_classic_pct": ("drops in the classic queue", "%"),
}

OVERLOAD = (
    Overload("L4S-O1", 50, (5.05, 4.56, 51.24, 0.22, 0.62, 14.96, 24.90, 16.7, 0.0, 0.70)),
    Overload("L4S-O2", 70, (2.99, 2.53, 71.46, 0.26, 0.75, 15.23, 27.00, 26.2, 0.0, 1.70)),
    Overload("L4S-O3", 100, (0.63, 0.29, 94.61, 15.03, 17.43, 0.96, 2.39, 100.0, 7.25, 25.7)),
    Overload("L4S-O4", 140, (0.10, 0.17, 97.89, 15.12, 20.18, 0.84, 2.29, 100.0, 31.0, 32.3)),
    Overload("L4S-O5", 200, (0.02, 0.02, 99.06, 15.04, 19.53, 0.56, 1.21, 100.0, 45.3, 55.4)),
)


@dataclass(frozen=True)
class Fairness:
    """A row of Heist and Morton's tables: two connections and their goodput in Mbit/s."""

    id: str
    queue: str
    first: tuple[str, int]
    """A control and its round trip in ms."""
    second: tuple[str, int]
    rates: tuple[float, float]
    window: str = "minute"

    @property
    def title(self) -> str:
        """What was run, in a few words."""
        (one, rtt), (other, other_rtt) = self.first, self.second
        return f"{self.queue}: {one} {rtt} ms, {other} {other_rtt} ms"


def _row(
    id: str, queue: str, one: str, rtt: int, two: str, rtt_two: int, *rates: float
) -> Fairness:
    return Fairness(f"L4S-{id}", queue, (one, rtt), (two, rtt_two), (rates[0], rates[1]))


FAIRNESS = (
    _row("H1", "dualpi2", "cubic", 10, "prague", 10, 12.65, 34.57),
    _row("H2", "dualpi2", "prague", 10, "cubic", 10, 34.09, 13.04),
    _row("H3", "dualpi2", "cubic", 20, "prague", 20, 14.94, 32.39),
    _row("H4", "dualpi2", "cubic", 80, "prague", 80, 17.85, 29.58),
    _row("H5", "dualpi2", "cubic", 80, "prague", 20, 6.43, 40.69),
    _row("H6", "dualpi2", "prague", 80, "prague", 20, 5.80, 41.48),
    _row("H7", "dualpi2", "prague", 80, "cubic", 20, 22.43, 24.89),
    _row("H8", "dualpi2", "cubic", 80, "cubic", 20, 14.75, 32.73),
    _row("H9", "dualpi2", "cubic", 160, "prague", 10, 4.87, 41.67),
    _row("H10", "dualpi2", "prague", 160, "prague", 10, 1.56, 45.46),
    _row("H11", "dualpi2", "prague", 160, "cubic", 10, 10.13, 37.28),
    _row("H12", "dualpi2", "cubic", 160, "cubic", 10, 10.74, 36.50),
    _row("H13", "dualpi2", "cubic", 10, "cubic", 10, 23.11, 24.18),
    _row("H14", "dualpi2", "prague", 10, "prague", 10, 23.51, 22.75),
    _row("H15", "pfifo", "prague", 10, "cubic", 10, 9.78, 37.77),
    _row("H16", "pfifo", "prague", 20, "cubic", 20, 5.88, 41.63),
    _row("H17", "pfifo", "prague", 80, "cubic", 80, 3.95, 43.59),
    _row("H18", "pfifo", "cubic", 80, "cubic", 20, 22.32, 25.14),
    _row("H19", "pfifo", "cubic", 160, "cubic", 10, 17.22, 30.27),
    _row("H21", "fq-codel", "cubic", 20, "cubic", 20, 23.58, 23.59),
    *(
        Fairness(f"L4S-{id}", queue, ("prague", 20), (rival, 20), rates, "40 s")
        for id, queue, table in (
            ("H30", "fq-codel-1", ((45.70, 1.94), (45.81, 1.81), (46.60, 1.10), (46.49, 1.17))),
            ("H31", "fq-codel-1-1ms", ((45.94, 1.68), (45.76, 1.83), (46.34, 1.25), (46.01, 1.59))),
            ("H32", "pie", ((45.69, 1.98), (45.57, 2.01), (46.94, 0.78), (46.67, 0.96))),
            ("H33", "pie-100p-5ms", ((45.41, 2.23), (45.63, 2.00), (45.86, 1.77), (46.36, 1.32))),
            ("H34", "red-150kB", ((45.93, 1.69), (46.02, 1.57), (45.86, 1.73), (46.27, 1.34))),
            ("H35", "red-400kB", ((45.62, 2.05), (45.80, 1.81), (45.90, 1.80), (45.74, 1.87))),
        )
        for rival, rates in zip(("cubic-ecn", "cubic", "reno-ecn", "reno"), table, strict=True)
    ),
)
"""H20 gives a range only ("21.3 to 25.4 each", "any"): claims.py has it in words."""
