"""Writes the table on BBR, CUBIC and Prague of docs/findings.md from the sweep that it names.

    .venv/bin/narrows sweep scenarios/bbr-beside-cubic.toml --plan docs/plans/bbr-and-l4s.toml \
        --out runs/bbr-and-l4s
    .venv/bin/python tools/findings_table.py runs/bbr-and-l4s

Check the sentences around it afterwards. tests/docs/test_findings.py runs the sweep again.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from narrows import Sweep
from narrows.results.sweep_means import Point, metric_named, points

PAGE = Path(__file__).parents[1] / "docs/findings.md"
PART = re.compile(r"(?<=<!-- from the sweep -->\n)\| queue \|.*?\n(?=<!-- end -->)", re.DOTALL)
HEAD = """\
| queue | downloads | UDP, ms: median | 95 % within | first attempts lost, % | TCP, ms: median | \
95 % within | slower than 1 s, % |
|---|---|---|---|---|---|---|---|
"""
QUEUES = {
    "FIFO, 75 kB": {"kind": "bfifo", "limit": "75 kB"},
    "FIFO, 50 packets": {"kind": "pfifo", "limit": 50},
    "FIFO, 600 kB": {"kind": "bfifo", "limit": "600 kB"},
    "FQ-CoDel": {"kind": "fq-codel"},
    "DualPI2": {"kind": "dualpi2"},
}
DOWNLOADS = ("CUBIC", "BBR", "Prague")
COLUMNS = (
    "udp.response_median_ms",
    "udp.response_p95_ms",
    "udp.first_attempt_percent",
    "tcp.response_median_ms",
    "tcp.response_p95_ms",
    "tcp.within_1s_percent",
)


def cells(sweep: Sweep) -> Iterator[list[str]]:
    """The rows of the table."""
    found = [points(sweep, metric_named(sweep, f"dns_groups.{name}")) for name in COLUMNS]
    for queue, settings in QUEUES.items():
        for number, downloads in enumerate(DOWNLOADS):
            wanted = {"variant": downloads, "queue": settings}
            row = [next(p for p in column if p.settings == wanted) for column in found]
            values = [_cell(point, name) for point, name in zip(row, COLUMNS, strict=True)]
            yield ["" if number else queue, downloads, *values]


def _cell(point: Point, name: str) -> str:
    """A mean, and its interval if it differs after rounding; of a percentage, the rest to 100 %."""
    values = [point.mean, point.low, point.high]
    if name.endswith("_percent"):
        values = [None if v is None else 100 - v for v in (point.mean, point.high, point.low)]
    mean = values[0] or 0.0
    digits = 0 if name.endswith("_ms") else 1 if mean >= 1 else 2
    shown = ["" if value is None else f"{value:.{digits}f}" for value in values]
    if mean < 0.005:
        return "0"
    return shown[0] if set(shown[1:]) <= {"", shown[0]} else "{} ({} to {})".format(*shown)


def table(sweep: Sweep) -> str:
    """The table as Markdown."""
    return HEAD + "".join(f"| {' | '.join(row)} |\n" for row in cells(sweep))


if __name__ == "__main__":
    made = table(Sweep.load(sys.argv[1]))
    PAGE.write_text(PART.sub(lambda _: made, PAGE.read_text(encoding="utf-8")), encoding="utf-8")
