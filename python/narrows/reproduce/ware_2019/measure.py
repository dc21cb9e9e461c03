"""The metrics of one run: what each side gets, and BBR's rate over time."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from narrows.records.numbers import row_floats
from narrows.reproduce.claims import Measured

if TYPE_CHECKING:
    from narrows.results import Run


def measure(run: Run) -> Measured:
    """The metrics and the curve of one run.

    `values`: `bbr` and `other` (goodput from 0 to the end, Mbit/s), `share` (BBR's share of both, 0
    to 1; NaN if the group `other` is missing). `curves`: `bbr` (Mbit/s in each second).
    """
    received = {
        group: float(run.flows.filter(pl.col("group") == group)["bytes_received"].sum())
        for group in ("bbr", "other")
    }
    mbits = {group: bytes * 8e-6 / run.end_s for group, bytes in received.items()}
    both = sum(mbits.values())
    samples = run.goodput.filter(pl.col("group") == "bbr").sort("t_s")
    rates = 8e-6 * np.diff(row_floats(samples, "bytes_received"), prepend=0.0)
    times = row_floats(samples, "t_s")
    alone = run.flows.filter(pl.col("group") == "other").is_empty()
    return Measured(
        {**mbits, "share": math.nan if alone else mbits["bbr"] / both},
        {"bbr": (times.tolist(), rates.tolist())},
    )
