"""Results of real old servers, compared with ours."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from narrows.captures import read_captures
from narrows.reproduce.claims import Measured
from narrows.reproduce.measurements import Agreement
from narrows.reproduce.wijnen_2012.cells import NEW, OLD, OLD_10, OLD_100
from narrows.reproduce.wijnen_2012.measure import metrics_of, segments_of

if TYPE_CHECKING:
    from narrows.reproduce.measurements import Measurements

FOLDER = Path(__file__).parent / "reference"

FILES: Mapping[str, tuple[str, str, str]] = {
    OLD: ("", "nsd-3.2.13-quiet", "NSD 3.2.13"),
    NEW: ("", "nsd-3.2.14-quiet", "NSD 3.2.14"),
    OLD_10: ("", "nsd-3.2.13-tcp-count-10-hold-0.14", "NSD 3.2.13, tcp-count 10"),
    OLD_100: (
        "clients keep connections for 0.20 s",
        "nsd-3.2.13-tcp-count-100-hold-0.2",
        "NSD 3.2.13, tcp-count 100",
    ),
}
"""For each cell, the other choice with the reference's load, the file, and the server."""

QUIET = {"median": ("", 0.03), "slope": ("", 0.03), "intercept_ms": ("ms", 1.5)}
"""Metrics of quiet servers: the unit, and how far ours may differ from theirs."""

CAPTURES: Mapping[str, str] = {OLD: "nsd-3.2.13-soa", NEW: "nsd-3.2.14-soa"}
"""For each cell, the capture of the real server's replies."""

CUT = ("segments", "first_bytes")
"""The metrics from captures: how a reply was cut into segments."""

LOADED = {"median": ("", 0.5), "above_4": ("%", 0.5), "above_10": ("%", 0.5)}
"""Metrics of loaded servers, where chance matters: the allowed difference as a share of theirs."""


@cache
def reference(name: str) -> Measured:
    """Metrics of a file's pairs."""
    rows = []
    with (FOLDER / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        for number, row in enumerate(csv.DictReader(file)):
            for transport in ("udp", "tcp"):
                text = row[f"{transport}_ms"]
                rows.append(
                    {
                        "vantage": row["rtt_ms"],
                        "round": number,
                        "transport": transport,
                        "total_ms": float(text) if text else None,
                        "outcome": "answered" if text else "timeout",
                        "segments": None,
                        "segment_bytes": None,
                    }
                )
    return metrics_of(rows)


@cache
def captured(name: str) -> Mapping[str, float]:
    """How the replies of a capture were cut into segments."""
    exchanges = read_captures([FOLDER / f"{name}.pcapng"]).exchanges
    return segments_of(exchanges.filter(transport="tcp").to_dicts())


def agreement(outcome: Measurements) -> list[Agreement]:
    """Ours against the real NSD 3.2.13 and 3.2.14."""
    found = []
    for cell, (row, file, _) in FILES.items():
        quiet = cell in (OLD, NEW)
        source = row if row and outcome.runs(cell, row) else "base"
        for metric, (unit, width) in (QUIET if quiet else LOADED).items():
            theirs = reference(file)[metric]
            room = width if quiet else max(width * theirs, 2.0)
            ours = outcome.interval(cell, metric, source) if outcome.runs(cell, source) else None
            found.append(
                Agreement(cell, metric, unit, (theirs,), theirs - room, theirs + room, ours)
            )
    for cell, file in CAPTURES.items():
        # With one segment, its length is that of the whole reply, which differs from zone to zone.
        cut = captured(file)
        for metric in CUT if cut["segments"] > 1 else CUT[:1]:
            unit = "bytes" if metric == "first_bytes" else ""
            ours = outcome.interval(cell, metric) if outcome.runs(cell) else None
            found.append(
                Agreement(cell, metric, unit, (cut[metric],), cut[metric], cut[metric], ours)
            )
    return found
