"""A scenario's run as a measurement, so that the same analysis and verdicts apply to both.

Each attempt of a DNS query is an exchange. A client's node is a vantage point, the server's node a
target; two servers at one node that answer differently are two targets, named after their groups.
A run records the times of a reply's first and last byte, but not how it was split into segments. A
length that comes alone without a wait looks like one write here. To see the difference, capture
the run's links (`narrows import capture`).

Seconds count from the beginning of the run, which stands for the beginning of 1970.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from narrows.probe.verdict import verdicts
from narrows.results import Measurement, Run
from narrows.results.exchanges import MEASUREMENT_TABLES

OUTCOMES: Mapping[str, str] = {
    "answered": "answered",
    "truncated": "answered",
    "late": "timeout",
    "query-lost": "timeout",
    "reply-lost": "timeout",
    "timed-out": "timeout",
    "refused": "refused",
    "closed": "closed",
    "reset": "reset",
}
"""The outcome of an exchange, by its attempt's fate."""


def measurement_of(run: Run) -> Measurement:
    """The DNS attempts of a run, warm-up left out, with verdicts on its servers.

    Examples:
        >>> from narrows import Scenario, run
        >>> over = '''
        ... [[dns]]
        ... name = "{0}"
        ... client = "a"
        ... server = "b"
        ... queries = 5
        ... transport = "{0}"
        ... '''
        >>> scenario = Scenario.parse('''
        ... name = "pairs"
        ... duration = "9 s"
        ... [[links]]
        ... name = "wan"
        ... between = ["a", "b"]
        ... rate = "1 Gbit/s"
        ... delay = "20 ms"
        ... ''' + over.format("udp") + over.format("tcp"))
        >>> measurement_of(run(scenario)).findings["verdicts"][0]["sentence"]
        '2.0: one round trip for the connection, one for the query'
    """
    attempts = run.attempts.join(
        run.queries.select("query", "group", "measured"), on="query", maintain_order="left"
    ).filter("measured")
    pending = attempts.filter(fate="pending")
    measurement = Measurement(
        source="run",
        settings=run.scenario,
        status=run.status,
        stopped=run.stopped,
        length_s=run.end_s,
        tables={
            "exchanges": _exchanges(attempts.filter(pl.col("fate") != "pending"), run.scenario),
            "vantages": _vantages(run.scenario),
            "skipped": _skipped(pending),
        },
        narrows=run.narrows,
        wall=run.wall,
        host=run.host,
        folder=run.folder,
    )
    found = [verdict.document() for verdict in verdicts(measurement.exchanges)]
    return replace(measurement, findings={"verdicts": found})


def _exchanges(attempts: pl.DataFrame, scenario: Mapping[str, Any]) -> pl.DataFrame:
    clients = {group["name"]: group["client"] for group in scenario.get("dns", ())}
    over_tcp = pl.col("transport") == "tcp"
    asked_s = pl.col("sent_s") + pl.col("handshake_ms").fill_null(0.0) / 1e3
    unanswered = pl.col("outcome") != "answered"
    connected = pl.col("reused") | pl.col("handshake_ms").is_not_null()
    known = (
        attempts.lazy()
        .with_columns(outcome=pl.col("fate").replace_strict(OUTCOMES, return_dtype=pl.String()))
        .with_row_index("exchange")
        .select(
            "exchange",
            "transport",
            "outcome",
            vantage=pl.col("group").replace_strict(clients, return_dtype=pl.String()),
            target=pl.col("group").replace_strict(_targets(scenario), return_dtype=pl.String()),
            reused=pl.when(over_tcp).then("reused"),
            started_s="sent_s",
            connect_ms="handshake_ms",
            first_byte_ms=pl.when(~unanswered).then((pl.col("first_byte_s") - asked_s) * 1e3),
            query_ms=pl.when(~unanswered).then((pl.col("received_s") - asked_s) * 1e3),
            total_ms=pl.when(~unanswered).then((pl.col("received_s") - pl.col("sent_s")) * 1e3),
            stage=pl.when(unanswered).then(
                pl.when(over_tcp & ~connected)
                .then(pl.lit("connect"))
                .otherwise(
                    pl.when(pl.col("first_byte_s").is_null())
                    .then(pl.lit("query"))
                    .otherwise(pl.lit("reply"))
                )
            ),
            attempts="attempt",
            truncated=pl.when(~unanswered).then(pl.col("fate") == "truncated"),
        )
        .collect()
    )
    columns = MEASUREMENT_TABLES["exchanges"].schema
    return known.select(
        (pl.col(name) if name in known.columns else pl.lit(None)).cast(dtype).alias(name)
        for name, dtype in columns.items()
    )


def _targets(scenario: Mapping[str, Any]) -> dict[str, str]:
    """The name of each group's server: its node, and its group if the node has several servers."""
    groups = {group["name"]: group for group in scenario.get("dns", ())}
    owners = {name: groups[group.get("shares_server") or name] for name, group in groups.items()}
    at_node: dict[str, list[Sequence[Any]]] = {}
    for owner in owners.values():
        behaviours = at_node.setdefault(owner["server"], [])
        if _behaviour(owner) not in behaviours:
            behaviours.append(_behaviour(owner))
    return {
        name: owner["server"]
        if len(at_node[owner["server"]]) == 1
        else f"{owner['server']} ({owner['name']})"
        for name, owner in owners.items()
    }


def _behaviour(group: Mapping[str, Any]) -> Sequence[Any]:
    return [group.get(key) for key in ("answers", "service", "service_jitter_mean")]


def _vantages(scenario: Mapping[str, Any]) -> pl.DataFrame:
    names = sorted({group["client"] for group in scenario.get("dns", ())})
    schema = MEASUREMENT_TABLES["vantages"].schema
    return pl.DataFrame({"vantage": names}, schema={"vantage": pl.String()}).select(
        (pl.col(name) if name == "vantage" else pl.lit(None)).cast(dtype).alias(name)
        for name, dtype in schema.items()
    )


def _skipped(pending: pl.DataFrame) -> pl.DataFrame:
    counts = pending.group_by("transport").len("records").sort("transport")
    return counts.select(
        pl.lit("attempts").alias("source"),
        "transport",
        pl.lit("still under way when the run ended").alias("reason"),
        pl.col("records").cast(pl.UInt64()),
        pl.lit(None, dtype=pl.String()).alias("first"),
    )
