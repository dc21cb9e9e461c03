"""The metrics of one run, within its window."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from narrows.records.numbers import row_floats
from narrows.reproduce.claims import Measured, Series

if TYPE_CHECKING:
    from narrows.results import Run


def measure(run: Run) -> Measured:
    """The metrics of one run.

    `values`: goodput of each group in Mbit/s under its name, of all groups whose name begins so
    under `up` and `down`; round trips of each group of probes in ms (`icmp-50`, `icmp-99`); of a
    stream, `stream` (received, Mbit/s), `stream-lost` (percent) and `stream-delay` (mean, ms).
    `curves`: `delay`, the stream's mean one-way delay in ms over time.
    """
    flows = run.summary["flows"]
    names = run.flows["group"].unique(maintain_order=True).to_list()
    groups = flows.get("groups") or {names[0]: flows}
    values = {name: float(groups[name]["goodput_mbit_per_s"]) for name in names}
    for direction in ("up", "down"):
        values[direction] = sum(
            rate for name, rate in values.items() if name.startswith(f"{direction}-")
        )
    if "pings" in run.tables:
        probes = run.summary["pings"]
        for name, found in (probes.get("groups") or {}).items():
            values |= {f"{name}-50": found["rtt_median_ms"], f"{name}-99": found["rtt_p99_ms"]}
    curves: dict[str, Series] = {}
    if "streams" in run.tables:
        curves["delay"] = _stream(run, values)
    return Measured(values, curves)


def _stream(run: Run, values: dict[str, float]) -> Series:
    """Adds the stream's metrics, and returns its delay over time."""
    assert run.window is not None, "the scenario declares one"
    start_s, end_s = run.window
    rows = run.table("streams")
    within = rows.filter(pl.col("t_s").is_between(start_s, end_s, closed="left"))
    sent, received = (
        float(row_floats(within, f"{end}_packets").sum()) for end in ("sent", "received")
    )
    values["stream"] = float(row_floats(within, "received_bytes").sum()) * 8e-6 / (end_s - start_s)
    values["stream-lost"] = 100.0 * (1.0 - received / sent)
    seen = rows.filter(pl.col("delay_mean_ms").is_not_null())
    arrived = within.filter(pl.col("delay_mean_ms").is_not_null())
    delays, weights = row_floats(arrived, "delay_mean_ms"), row_floats(arrived, "received_packets")
    values["stream-delay"] = float((delays * weights).sum()) / received
    return row_floats(seen, "t_s").tolist(), row_floats(seen, "delay_mean_ms").tolist()
