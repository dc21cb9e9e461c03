"""What a capture shows at a glance: its length, why clients used TCP, and how long answers took.

RFC 7766, section 5: a client that gets a truncated reply over UDP asks again over TCP. A TCP query
counts as such a repetition if the same client got a truncated reply for the same name and type from
the same server within `REPEATED_S` before it asked.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

import polars as pl

from narrows.results import Measurement
from narrows.results.exchanges import AMBIGUOUS
from narrows.results.intake import covered

REPEATED_S = 5.0
"""How long after a truncated reply a TCP query may repeat it: as long as resolvers usually wait."""

_MOST = 3
"""The most questions that are listed."""

_QUESTION = ("vantage", "target", "name", "qtype")


def overview(exchanges: pl.DataFrame, connections: pl.DataFrame, tls: int) -> dict[str, Any]:
    """Metrics of a capture as JSON values; a metric that the tables lack is None or absent.

    Args:
        exchanges: The queries.
        connections: The connections.
        tls: How many of the connections carry TLS.
    """
    if not exchanges.height:
        return {}
    start, end = covered(exchanges)
    return {
        "start_s": start,
        "end_s": end,
        "length_s": end - start,
        "transports": {
            str(transport): _transport(exchanges.filter(transport=transport))
            for transport in sorted(exchanges["transport"].unique())
        },
        "truncated_questions": _truncated(exchanges),
        "tcp_after_truncated": _after_truncated(exchanges),
        "tcp_connections": _connections(connections, tls),
    }


def say_overview(measurement: Measurement) -> list[str]:
    """The overview as lines of text; what did not occur has no line."""
    found: Mapping[str, Any] = measurement.findings.get("overview") or {}
    if not found:
        return []
    lines = [_say_span(found)]
    for name, part in found["transports"].items():
        if part["rcodes"]:
            codes = ", ".join(f"{count} {code}" for code, count in part["rcodes"].items())
            lines.append(f"{name}: {codes}, of {_many(part['answered'], 'answer')}")
        if part["truncated"]:
            line = f"{name}: {part['truncated']} of {_many(part['answered'], 'answer')} truncated"
            lines.append(line + (_say_questions(found) if name == "udp" else ""))
    queries = found["transports"].get("tcp", {}).get("queries", 0)
    if queries and found["truncated_questions"]:
        lines.append(
            f"tcp: {found['tcp_after_truncated']} of {_many(queries, 'query')} came within "
            f"{REPEATED_S:g} s after a truncated udp answer to the same client, name and type"
        )
    opened = found["tcp_connections"]
    if opened["used"]:
        each = opened["queries"] / opened["used"]
        what = "query" if each == 1 else "queries"
        lines.append(
            f"tcp: {each:.3g} {what} per connection, at most {opened['most']}, on "
            f"{_many(opened['used'], 'connection')}"
        )
    if opened["unused"]:
        lines.append(f"tcp: {_many(opened['unused'], 'connection')} without a query")
    for name, part in found["transports"].items():
        if part.get("repeated"):
            line = f"{name}: {_many(part['repeated'], 'query')} asked more than once"
            if part["ambiguous"]:
                line += (
                    f"; in {part['ambiguous']} the reply may answer any attempt, so they are left "
                    "out of the times from query to reply"
                )
            lines.append(line)
    times = [_say_times(name, part) for name, part in found["transports"].items()]
    if known := [line for line in times if line]:
        lines.append(f"from query to reply: {'; '.join(known)}")
    whole = found["transports"].get("tcp", {}).get("whole_ms")
    if whole:
        lines.append(f"tcp with its handshake: {_say_quantiles(whole)}")
    return lines


def _transport(rows: pl.DataFrame) -> dict[str, Any]:
    answered = rows.filter(outcome="answered")
    codes = (
        answered.filter(pl.col("rcode") != "NOERROR")
        .group_by("rcode")
        .len()
        .sort("len", "rcode", descending=[True, False])
    )
    # Over UDP and on an open connection, the whole time is that of the query.
    opened = answered.filter(pl.col("connect_ms").is_not_null())
    # Over UDP, a whole time begins with the first attempt.
    first = pl.when(pl.col("transport") == "udp").then("total_ms").otherwise("query_ms")
    return {
        "queries": rows.height,
        "answered": answered.height,
        "rcodes": dict(codes.iter_rows()),
        "truncated": int(answered["truncated"].sum()),
        "repeated": int((rows["attempts"] > 1).sum()),
        "ambiguous": answered.filter(AMBIGUOUS).height,
        "query_ms": _quantiles(answered.filter(~AMBIGUOUS).select(first).to_series()),
        "whole_ms": _quantiles(opened["total_ms"]),
    }


def _quantiles(times: pl.Series) -> dict[str, float] | None:
    known = times.drop_nulls()
    if not known.len():
        return None
    return {
        name: round(float(known.quantile(share, "linear") or 0.0), 4)
        for name, share in (("median", 0.5), ("p95", 0.95))
    }


def _truncated(exchanges: pl.DataFrame) -> list[dict[str, Any]]:
    """The questions with the most truncated UDP answers, in descending order."""
    return (
        _with_name(exchanges.filter(transport="udp", truncated=True).select("qname", "qtype"))
        .group_by("name", "qtype")
        .agg(pl.len().alias("truncated"))
        .sort("truncated", "name", "qtype", descending=[True, False, False])
        .head(_MOST)
        .to_dicts()
    )


def _after_truncated(exchanges: pl.DataFrame) -> int:
    # A connection may be open long before its query.
    before = pl.coalesce(pl.col("total_ms") - pl.col("query_ms"), "connect_ms", pl.lit(0.0))
    asked = pl.col("started_s") + before / 1e3
    known_s = pl.col("started_s") + pl.col("total_ms").fill_null(0.0) / 1e3
    tcp = _with_name(exchanges.filter(transport="tcp")).select(*_QUESTION, at=asked)
    cut = _with_name(exchanges.filter(transport="udp", truncated=True))
    cut = cut.select(*_QUESTION, at=known_s, cut=pl.lit(value=True))
    joined = (
        tcp.drop_nulls()
        .sort("at")
        .join_asof(
            cut.drop_nulls().sort("at"),
            on="at",
            by=list(_QUESTION),
            strategy="backward",
            tolerance=REPEATED_S,
            check_sortedness=False,
        )
    )
    return int(joined["cut"].sum())


def _with_name(rows: pl.DataFrame) -> pl.DataFrame:
    # Resolvers may mix upper and lower case at random.
    return rows.with_columns(name=pl.col("qname").str.to_lowercase())


def _connections(connections: pl.DataFrame, tls: int) -> dict[str, int]:
    opened = connections.filter(transport="tcp")
    used = opened.filter(pl.col("exchanges") > 0)
    return {
        "used": used.height,
        "tls": tls,
        "unused": opened.height - used.height - tls,
        "queries": int(used["exchanges"].sum()),
        "most": int(used["exchanges"].max() or 0),  # type: ignore[arg-type]
    }


def _say_span(found: Mapping[str, Any]) -> str:
    first, last = (dt.datetime.fromtimestamp(found[key], dt.UTC) for key in ("start_s", "end_s"))
    to = f"{last:%H:%M:%S}" if first.date() == last.date() else f"{last:%Y-%m-%d %H:%M:%S}"
    length = found["length_s"]
    seconds = f"{length:.0f}" if length >= 100.0 else f"{length:.3g}"
    return f"captured {first:%Y-%m-%d %H:%M:%S} to {to} UTC, {seconds} s"


def _say_questions(found: Mapping[str, Any]) -> str:
    named = [
        f"{part['name'] or 'an unknown name'} {part['qtype'] or ''}".rstrip()
        + f" ({part['truncated']})"
        for part in found["truncated_questions"]
    ]
    return f", most for {', '.join(named)}"


def _say_times(name: str, part: Mapping[str, Any]) -> str:
    return "" if part["query_ms"] is None else f"{name} {_say_quantiles(part['query_ms'])}"


def _say_quantiles(times: Mapping[str, float]) -> str:
    return f"median {times['median']:.2f} ms, 95 % {times['p95']:.2f} ms"


def _many(count: int, one: str) -> str:
    several = f"{one[:-1]}ies" if one.endswith("y") else f"{one}s"
    return f"{count} {one if count == 1 else several}"
