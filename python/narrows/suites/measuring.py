"""Metrics that several suites take from a run: delays, goodput, fairness, synchronisation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from narrows.results import Run


def delays(run: Run, link: str, fields: Sequence[str] = ()) -> dict[str, float | None]:
    """How long packets waited in a queue within the window, and what it dropped and marked.

    Means cover the packets of all ECN fields in `fields` (all by default). Quantiles are those of
    the field with most packets, because quantiles of several cannot be joined.
    """
    rows = run.table("queue_delays").filter(link=link)
    if fields:
        rows = rows.filter(pl.col("ecn").is_in(fields))
    sent, dropped, marked = (
        int(rows[f"{what}_packets"].sum()) for what in ("sent", "dropped", "marked")
    )
    if not sent:
        names = ("delay_mean", "delay_p50", "delay_p95", "delay_p99", "delay_variation")
        return dict.fromkeys((*names, "loss_percent", "marks_percent"))
    weights = rows.filter(pl.col("sent_packets") > 0)
    waited = float((weights["wait_mean_ms"] * weights["sent_packets"]).sum())
    most: dict[str, Any] = rows.sort("sent_packets").row(-1, named=True)
    return {
        "delay_mean": waited / sent,
        "delay_p50": most["wait_p50_ms"],
        "delay_p95": most["wait_p95_ms"],
        "delay_p99": most["wait_p99_ms"],
        "delay_variation": most["wait_p95_ms"] - most["wait_p50_ms"],
        "loss_percent": 100.0 * dropped / (sent + dropped),
        "marks_percent": 100.0 * marked / sent,
    }


def pooled_delay(
    run: Run, start: float, end: float, link: str = "bottleneck.forward"
) -> float | None:
    """The mean wait in ms of the packets that left a queue between two times, from its samples."""
    rows = run.queues.filter(link=link).sort("t_s").with_columns(left=pl.col("sent_packets").diff())
    rows = rows.filter(pl.col("t_s") > start, pl.col("t_s") <= end + 1e-9)
    rows = rows.drop_nulls("sojourn_mean_ms")
    pairs = rows.select("sojourn_mean_ms", "left").drop_nulls().rows()
    left = sum(count for _, count in pairs)
    return sum(wait * count for wait, count in pairs) / left if left else None


def goodputs(run: Run) -> dict[str, float]:
    """The goodput of each group of long connections within the window, in Mbit/s."""
    summary = run.summary["flows"]
    names = [each["name"] for each in run.scenario["traffic"] if each["kind"] == "bulk"]
    if summary is None or not names:
        return {}
    parts = summary.get("groups") or {names[0]: summary}
    return {name: parts[name]["goodput_mbit_per_s"] or 0.0 for name in names if name in parts}


def delivered(run: Run, start: float, end: float) -> float:
    """What all long connections together received between two times, in Mbit/s."""
    names = [each["name"] for each in run.scenario["traffic"] if each["kind"] == "bulk"]
    rows = run.goodput.filter(pl.col("group").is_in(names))
    before = pl.col("bytes_received").filter(pl.col("t_s") <= start + 1e-9).max().fill_null(0)
    until = pl.col("bytes_received").filter(pl.col("t_s") <= end + 1e-9).max().fill_null(0)
    ends = rows.group_by("group", "direction").agg(before.alias("from"), until.alias("to"))
    counts = [int(last) - int(first) for first, last in ends.select("from", "to").rows()]
    return 8e-6 * sum(counts) / (end - start)


def streams(run: Run) -> dict[str, float]:
    """What streams received of the packets sent in each whole period within the window, in Mbit/s.

    A period at the window's edge does not count, so that rates are right in short runs.
    """
    if "streams" not in run.tables or run.window is None:
        return {}
    start, end = run.window
    whole = (pl.col("t_s") >= start) & (pl.col("t_s") + pl.col("period_s") <= end + 1e-9)
    rows = run.table("streams").filter(whole).group_by("group", maintain_order=True)
    sums = rows.agg(pl.sum("received_bytes"), pl.sum("period_s"))
    return {name: 8e-6 * count / lasted for name, count, lasted in sums.iter_rows()}


def of_connections(run: Run) -> list[float]:
    """What each connection received within the window, in bytes."""
    rows = run.table("flow_samples").sort("t_s").group_by("flow", maintain_order=True)
    ends = rows.agg(pl.first("bytes_received").alias("first"), pl.last("bytes_received"))
    return [float(last - first) for first, last in ends.select("first", "bytes_received").rows()]


def jain(shares: Sequence[float]) -> float | None:
    """Jain's index: 1 if all get the same, 1/n if one of n gets everything.

    Source: R. Jain, D. Chiu, W. Hawe, DEC-TR-301, 1984.

    >>> jain([1.0, 1.0]), jain([1.0, 0.0])
    (1.0, 0.5)
    """
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else None


def synchronisation(run: Run) -> float | None:
    """How many of the connections lose packets at the same time, in percent.

    RFC 7928 (2.4) asks for it. A loss event is a sampling period in which a connection sends
    something again; this is the mean share of connections that do so in one. With n connections
    that never lose anything together, it is 100 / n.
    """
    if "flow_states" not in run.tables or run.window is None:
        return None
    start, end = run.window
    rows = run.table("flow_states").sort("t_s")
    connection = ["group", "connection"]
    count = rows.select(connection).n_unique()
    again = rows.with_columns(again=pl.col("retransmissions").diff().over(connection) > 0)
    inside = again.filter(pl.col("t_s").is_between(start, end), pl.col("again"))
    together = inside.group_by("t_s").len()["len"].mean()
    return 100.0 * float(together) / count if isinstance(together, float) else None
