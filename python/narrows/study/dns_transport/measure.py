"""The metrics of one run, computed in the process that ran it.

A query counts if its fate is known: it was answered, the client gave it up, or it was asked so long
before the end of the run that the client would have given it up by then. A query that the client
gave up counts as `GIVEN_UP_S` in the percentiles of the response time, because its user waited at
least that long. The percentiles are those of a run's summary: the median, and the shortest times
within which at least 95 and 99 % of the queries were answered. Each is the time of some query.

*Connections at the server* is a mean over time, for all clients together. Each client counts from
its first measured query to its last, which covers whole cycles of asking and pausing. A connection
counts from the end of its handshake until its answer. A persistent connection counts until the
client opens the next one or has asked nothing for `IDLE_S`. Half-open connections do not count, nor
do the small entries of stateless TCP.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import polars as pl

from narrows.records.numbers import floats, percentile, reached

if TYPE_CHECKING:
    from narrows.results import Run

GIVEN_UP_S = 17.0
"""Seconds after which a client gives a query up: `gives_up` of the network."""

PAGE_S = 30.0
"""Seconds after which nobody waits for a page."""

IDLE_S = 10.0
"""Seconds after which a server closes an idle connection: the default of `answers.idle_timeout`."""

SECTION = "study"
"""The name of the section in a run's summary."""

MEASURED = "narrows.study.dns_transport.measure:measure"
"""The name of the function `measure`, for worker processes."""

BOTTLENECK = "bottleneck.forward"


def measure(run: Run) -> Mapping[str, dict[str, float | None]]:
    """The metrics of one run, by name; None for a metric that the run does not have."""
    decided = _decided(run)
    attempts = run.attempts.join(decided.select("query"), on="query", how="semi")
    count = decided.height
    answered = decided.filter(pl.col("attempt") > 0)
    waited = answered.get_column("response_ms").extend_constant(
        1e3 * GIVEN_UP_S, count - answered.height
    )
    failed = attempts.filter(~pl.col("fate").is_in(("answered", "truncated")))
    clean = answered.join(failed.select("query").unique(), on="query", how="anti").height
    queue = run.summary["queues"][BOTTLENECK]["dns_phase"]
    link = run.summary["links"][BOTTLENECK]["dns_phase"]
    flows = run.summary["flows"] or {}
    metrics: dict[str, float | None] = {
        "queries": float(count),
        "without_retry_percent": _percent(clean, count),
        "within_1s_percent": _percent(int((waited <= 1000.0).sum()), count),
        "failed_percent": _percent(count - answered.height, count),
        **response_times(waited),
        **_carried(attempts, answered.height),
        "connections": _connections(run),
        "utilisation_percent": link["utilisation_percent"],
        "backlog_bytes": queue["backlog_mean_bytes"],
        "sojourn_ms": queue["sojourn_mean_ms"],
        "marks_per_s": queue["marks_total_per_s"],
        "drops_per_s": queue["drops_total_per_s"],
        "dns_drops_per_s": queue["dns_drops_per_s"],
        "goodput_mbit_per_s": flows.get("goodput_mbit_per_s"),
        "outages": float((run.summary.get("neighbours") or {}).get("outages") or 0),
        "silent_percent": _silent(run),
        "page_p50_s": _page(run),
    }
    return {SECTION: metrics}


def response_times(waited: pl.Series) -> dict[str, float | None]:
    """Percentiles of how long queries took, in ms."""
    times = floats(waited)
    return {
        "response_p50_ms": percentile(times, 0.5),
        **{f"response_p{share}_ms": reached(times, share) for share in (95, 99)},
    }


def _page(run: Run) -> float | None:
    """The median time of a page load, in seconds; None without pages.

    Loads count that began at least `PAGE_S` before the end of the run. One that takes longer, or
    fails, counts as that.
    """
    if not run.summary.get("pages"):
        return None
    loads = run.table("pages").filter(pl.col("start_s") < run.end_s - PAGE_S)
    times = pl.when(~pl.col("failed")).then(pl.col("end_s") - pl.col("start_s"))
    waited = loads.select(times.fill_null(PAGE_S).clip(upper_bound=PAGE_S)).to_series()
    return percentile(floats(waited), 0.5)


def _asked(run: Run) -> pl.DataFrame:
    """The queries of the clients, which are the first group; pages ask through another one."""
    return run.queries.filter(pl.col("group") == run.scenario["dns"][0]["name"])


def _decided(run: Run) -> pl.DataFrame:
    """The measured queries whose fate is known; the fate itself does not affect the choice."""
    measured = _asked(run).filter(pl.col("measured"))
    if run.stopped == "dns-done":
        return measured
    return measured.filter(pl.col("start_s") < run.end_s - GIVEN_UP_S - 0.1)


def _carried(attempts: pl.DataFrame, answered: int) -> dict[str, float | None]:
    """Packets and bytes per answered query, and attempts that reached the server, by transport."""
    sums = {
        unit: int(
            sum(
                attempts.get_column(f"{unit}_{direction}").cast(pl.UInt64).sum()
                for direction in ("sent", "received")
            )
        )
        for unit in ("packets", "bytes")
    }
    metrics: dict[str, float | None] = {
        f"{unit}_per_answer": total / answered if answered else None for unit, total in sums.items()
    }
    arrived = attempts.filter(pl.col("fate") != "query-lost")
    for (transport,), part in arrived.group_by(("transport",), maintain_order=True):
        metrics[f"{transport}_per_answer"] = part.height / answered if answered else None
    return metrics


def _connections(run: Run) -> float | None:
    """The mean number of connections that are open at the server."""
    group = run.scenario["dns"][0]
    if group.get("answers", {}).get("stateless"):
        return 0.0
    # Whole cycles of asking and pausing: from a client's first measured query to its last.
    cycles = (
        _asked(run)
        .filter(pl.col("measured"))
        .group_by("worker")
        .agg(begin_s=pl.col("start_s").min(), end_s=pl.col("start_s").max())
    )
    watched = cycles.select((pl.col("end_s") - pl.col("begin_s")).sum()).item()
    if not watched:
        return None
    kept = bool(group["transport"].get("reuse"))
    inside = (
        _spans(run, kept=kept)
        .join(cycles, on="worker", how="inner")
        .select(pl.min_horizontal("until_s", "end_s") - pl.max_horizontal("since_s", "begin_s"))
        .to_series()
    )
    return float(inside.clip(lower_bound=0.0).sum()) / float(watched) * cycles.height


def _spans(run: Run, *, kept: bool) -> pl.DataFrame:
    """When clients had connections open: `worker`, `since_s`, `until_s`."""
    queries = _asked(run).select("query", "worker", query_end_s="end_s")
    made = (
        run.attempts.filter(pl.col("transport") != "udp")
        .join(queries, on="query", how="inner")
        .sort("query", "attempt")
        .with_columns(
            # An attempt without an answer ends with the next attempt, or with its query.
            used_s=pl.coalesce(
                "received_s",
                pl.col("sent_s").shift(-1).over("query"),
                "query_end_s",
                pl.lit(run.end_s),
            )
        )
        .with_columns(
            # A query with 0-RTT waits for no handshake.
            open_after_ms=pl.coalesce(
                "handshake_ms", pl.when(pl.col("fate") == "answered").then(0.0)
            )
        )
        .sort("worker", "sent_s")
        .with_columns(connection=(~pl.col("reused")).cum_sum().over("worker"))
        .group_by("worker", "connection", maintain_order=True)
        .agg(
            pl.first("sent_s"),
            since_s=pl.first("sent_s") + 1e-3 * pl.first("open_after_ms"),
            until_s=pl.last("used_s"),
        )
    )
    if kept:
        following = pl.col("sent_s").shift(-1).over("worker")
        made = made.with_columns(until_s=pl.min_horizontal(pl.col("until_s") + IDLE_S, following))
    # A connection that was never open has no handshake.
    return made.drop_nulls("since_s").select("worker", "since_s", "until_s")


def _silent(run: Run) -> float:
    """The share of seconds in which the queue stands still and nobody gets an answer, in percent.

    A second is *silent* if the queue's length hardly changes in it, and no DNS query was answered
    in it or in the ten seconds before. Only seconds in which all clients ask count. The share does
    not tell the reason: the queue may drop DNS, which `results.frozen` looks for, or the path may.
    """
    answers = _asked(run).filter(pl.col("attempt") > 0).get_column("end_s")
    begin, end = float(run.summary["dns"]["dns_phase"]["start_s"]), _all_ask_until(run)
    samples = run.queues.filter(pl.col("link") == BOTTLENECK)
    seconds = silent = 0
    heard = sorted(float(value) for value in answers)
    lengths = samples.select("t_s", "backlog_bytes").sort("t_s")
    for second in range(math.ceil(begin) + 10, math.floor(end)):
        seconds += 1
        if any(second - 10 <= value < second + 1 for value in heard):
            continue
        part = lengths.filter(pl.col("t_s").is_between(second, second + 1))
        backlog = part.get_column("backlog_bytes").cast(pl.Float64)
        mean, spread = backlog.mean(), backlog.std()
        if isinstance(mean, float) and isinstance(spread, float) and mean and spread < 0.1 * mean:
            silent += 1
    return 100.0 * silent / seconds if seconds else 0.0


def _all_ask_until(run: Run) -> float:
    """When the first client to finish has asked all of its queries."""
    group = run.scenario["dns"][0]
    asked = _asked(run).filter(pl.col("end_s").is_not_null()).group_by("worker")
    done = asked.agg(pl.len(), pl.max("end_s")).filter(
        pl.col("len") >= group["warm_up"] + group["queries"]
    )
    ends = done.get_column("end_s").to_list()
    return min(ends, default=run.end_s)


def _percent(part: int, whole: int) -> float | None:
    return 100.0 * part / whole if whole else None
