"""The metrics of one run, by the columns of the published tables."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import polars as pl

from narrows.reproduce.claims import Measured

if TYPE_CHECKING:
    from narrows.results import Run

IP = {"ecn": 1500 / 1436, "classic": 1500 / 1448}
"""An IP packet over its payload with timestamps, and with the AccECN option: published rates count
IP packets."""
LINE = 40.0 * 1500 / 1514
"""What 40 Mbit/s of Ethernet frames carry of IP packets, in Mbit/s."""
_UNKNOWN = (math.nan,) * 5


def measure(run: Run) -> Measured:
    """The metrics of one run, within its window.

    `values`: for two connections, `first` and `second` (goodput, Mbit/s). For the others the names
    of `QUANTITIES` and `OVERLOAD_QUANTITIES`; rates are of IP packets, of each connection.
    """
    groups = _goodput(run)
    if "first" in groups:
        return Measured(groups)
    ecn = _delays(run, ["ect0", "ect1", "ce"])
    classic = _delays(run, ["not-ect"])
    stream = _stream(run)
    if math.isnan(stream):
        # The published rates are those at the queue.
        rates = {"ecn": ecn[4], "classic": classic[4]}
    else:
        rates = {group: rate * IP[group] for group, rate in groups.items()}
    whole = sum(rate for rate in rates.values() if not math.isnan(rate))
    return Measured(
        {
            "rate_ecn": rates["ecn"],
            "rate_classic": rates["classic"],
            "rate_stream": stream,
            "utilisation_pct": 100.0 * whole / LINE,
            "delay_ecn_mean": ecn[0],
            "delay_ecn_p99": ecn[1],
            "marks_ecn_pct": ecn[2],
            "drops_ecn_pct": ecn[3],
            "delay_classic_mean": classic[0],
            "delay_classic_p99": classic[1],
            "drops_classic_pct": classic[3],
        }
    )


def _goodput(run: Run) -> dict[str, float]:
    """The goodput of each connection of each group, in Mbit/s."""
    summary = run.summary["flows"]
    names = run.flows["group"].unique(maintain_order=True).to_list()
    parts = summary.get("groups") or {names[0]: summary}
    return {name: parts[name]["goodput_mbit_per_s"] / parts[name]["flows"] for name in names}


def _delays(run: Run, fields: list[str]) -> tuple[float, ...]:
    """The delay's mean and 99th percentile (ms), shares of marks and drops (%), the rate (Mbit/s).

    One queue sees packets with one of `fields` only, besides retransmissions, so the field with
    most packets stands for all.
    """
    rows = run.table("queue_delays").filter(pl.col("ecn").is_in(fields))
    if rows.is_empty():
        return _UNKNOWN
    row = rows.sort("sent_packets").row(-1, named=True)
    sent, arrived = row["sent_packets"], row["sent_packets"] + row["dropped_packets"]
    return (
        row["wait_mean_ms"],
        row["wait_p99_ms"],
        100.0 * row["marked_packets"] / sent,
        100.0 * row["dropped_packets"] / arrived,
        8e-6 * 1500 * sent / (run.window[1] - run.window[0] if run.window else run.end_s),
    )


def _stream(run: Run) -> float:
    """The rate of the datagrams that arrived within the window, in Mbit/s of IP packets."""
    if "streams" not in run.tables or run.window is None:
        return math.nan
    start_s, end_s = run.window
    rows = run.table("streams").filter(pl.col("t_s").is_between(start_s, end_s, closed="left"))
    return float(rows["received_bytes"].sum()) * 8e-6 / (end_s - start_s)
