"""The error of Table IV over two settings that the paper does not print, both at once.

The settings are the length of DNS's replies, and where the card's driver stops and wakes the queue.
`reply-and-ring.csv` has a row for each run: 10,000 measured queries with the seeds 11 to 13. The
settings were found by looking at the paper's results, so nothing here counts as agreement.

`python -m narrows.reproduce.harhalakis_2011.reply_and_ring` runs what the file lacks (half an hour
of processor time for all of it), and can be stopped at any time.
"""

from __future__ import annotations

import csv
import math
import os
import statistics
from collections import defaultdict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from pathlib import Path

from narrows.backends import run
from narrows.reproduce.harhalakis_2011.cells import (
    BURSTY_RINGS,
    CELLS,
    MAIN_CELLS,
    REPLIES,
    bursty_ring,
    reply,
)
from narrows.reproduce.harhalakis_2011.published import FIRST_ATTEMPT_PERCENT
from narrows.reproduce.measurements import Table
from narrows.scenario import Scenario

_FILE = "reply-and-ring.csv"
_COLUMNS = ("reply_bytes", "ring", "cell", "seed", "first_attempt_percent")
_SEEDS = (11, 12, 13)
_RINGS: dict[str, dict[str, str]] = {
    "112626 B (ours)": {},
    **{f"{stop} packets, wakes at {wake}": bursty_ring(stop, wake) for stop, wake in BURSTY_RINGS},
}

Key = tuple[int, str, str, int]
"""Bytes of a reply, ring, cell and seed."""


def error_table() -> Table:
    """The root mean square of ours minus the published share, over the cells of Table IV."""
    runs = _saved()
    errors = {(ring, octets): _error(runs, octets, ring) for ring in _RINGS for octets in REPLIES}
    rings = [ring for ring in _RINGS if any(errors[ring, octets] for octets in REPLIES)]
    replies = [octets for octets in REPLIES if any(errors[ring, octets] for ring in _RINGS)]
    return Table(
        "Error of first-attempt success with other replies and rings (fitted), points",
        ["ring", *(f"reply of {octets} B" for octets in replies)],
        [[ring, *(errors[ring, octets] or "-" for octets in replies)] for ring in rings],
        "Root mean square over the twelve cells of Table IV; in parentheses, over the eight with "
        "200 ms. Each is a mean of three seeds with 10,000 queries.",
    )


def _error(runs: Mapping[Key, float], octets: int, ring: str) -> str:
    """The error in words; empty if the file lacks runs."""
    keys = [(octets, ring, cell, seed) for cell in MAIN_CELLS for seed in _SEEDS]
    if not all(key in runs for key in keys):
        return ""
    found = defaultdict(list)
    for key in keys:
        found[key[2]].append(runs[key])
    off = {cell: statistics.fmean(found[cell]) - FIRST_ATTEMPT_PERCENT[cell] for cell in found}
    small = [by for cell, by in off.items() if "-200-" in cell]
    return f"{_rms(list(off.values())):.1f} ({_rms(small):.1f})"


def _rms(values: list[float]) -> float:
    return math.sqrt(statistics.fmean(value * value for value in values))


def _saved() -> dict[Key, float]:
    """The runs in the file."""
    text = (files(__package__) / _FILE).read_text(encoding="utf-8")
    return {
        (int(row["reply_bytes"]), row["ring"], row["cell"], int(row["seed"])): float(
            row["first_attempt_percent"]
        )
        for row in csv.DictReader(text.splitlines())
    }


def _measured(key: Key) -> float:
    octets, ring, name, seed = key
    (cell,) = (cell for cell in CELLS if cell.name == name)
    settings = {
        **cell.set,
        **reply(octets),
        **_RINGS[ring],
        "dns.dns.warm_up": "50",
        "dns.dns.queries": "100",
    }
    path = Path(__file__).parent / "scenarios" / cell.scenario
    found = run(Scenario.load(path, set=settings), seed=seed).summary["dns"]
    return float(found["first_attempt_percent"])


def main() -> None:
    """Runs what the file lacks, ring by ring."""
    path = Path(__file__).parent / _FILE
    saved = _saved() if path.exists() else {}
    if not saved:
        path.write_text(",".join(_COLUMNS) + "\n", encoding="utf-8")
    lacking = [
        key
        for ring in _RINGS
        for seed in _SEEDS
        for octets in REPLIES
        for cell in MAIN_CELLS
        if (key := (octets, ring, cell, seed)) not in saved
    ]
    pool = ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="narrows")
    with pool, path.open("a") as file:
        for key, percent in zip(lacking, pool.map(_measured, lacking), strict=True):
            csv.writer(file, lineterminator="\n").writerow([*key, f"{percent:.2f}"])
            file.flush()


if __name__ == "__main__":
    main()
