"""Pairs of a UDP and a TCP query of the same vantage point to the same server.

Source: Wijnen 2012. The article pairs the two results of a probe and a cycle if they are within
150 s of each other, and discards the rest. It leaves open whether the bound is inclusive (here it
is), whether a pair may mix IPv4 and IPv6 (here never), which replies count (here every answer), and
which of several results pair (here the closest, each used once). `Rules` has the other readings,
and the report shows what they change.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from narrows.results.exchanges import AMBIGUOUS

Matching = Literal["nearest", "cycle"]


@dataclass(frozen=True)
class Rules:
    """What makes a pair.

    Attributes:
        window_s: The longest time between the two, in seconds; infinity means no limit.
        families: The IP versions that count.
        noerror_only: Whether both replies must have the code NOERROR.
        matching: `nearest` pairs the closest first, each used once; `cycle` takes the first of
            each in every `cycle_s`, as the article describes it.
        cycle_s: Length of a cycle.
    """

    window_s: float = 150.0
    families: tuple[int, ...] = (4, 6)
    noerror_only: bool = False
    matching: Matching = "nearest"
    cycle_s: float = 1800.0

    def varied(self) -> dict[str, Rules]:
        """Other readings of the article, each with one rule changed, by their descriptions."""
        windows = {f"within {window:g} s": window for window in (60.0, 150.0, 300.0)}
        varied = {name: replace(self, window_s=window) for name, window in windows.items()}
        varied |= {
            "IPv4 only": replace(self, families=(4,)),
            "NOERROR only": replace(self, noerror_only=True),
            "the first of each cycle": replace(self, matching="cycle"),
        }
        return {name: rules for name, rules in varied.items() if rules != self}


PAPER = Rules()
"""The article's rules as we read them."""


@dataclass(frozen=True)
class Dropped:
    """Exchanges that no pair contains, and why."""

    transport: str
    reason: str
    exchanges: int


@dataclass(frozen=True, repr=False)
class Pairs:
    """Pairs as a table, and the exchanges that no pair contains.

    The table's columns: `source` (the measurement of the TCP query, if known), `vantage`, `target`,
    `name`, `server`, `family`, `started_s` (the UDP query's), `apart_s`, `udp_ms`, `udp_truncated`
    (null where unknown), `tcp_ms`, `connect_ms` and `query_ms` of TCP (null where unknown), `site`,
    `firmware`, `ratio` (TCP / UDP), `excess_ms` (TCP - 2 UDP) and `excess_round_trips` (the same
    divided by UDP).
    """

    table: pl.DataFrame
    rules: Rules
    dropped: tuple[Dropped, ...] = field(default=())

    @property
    def count(self) -> int:
        """The number of pairs."""
        return self.table.height

    def __repr__(self) -> str:
        return f"<Pairs: {self.count}, {sum(part.exchanges for part in self.dropped)} unpaired>"


def pair_up(exchanges: pl.DataFrame, rules: Rules = PAPER) -> Pairs:
    """Pairs of a measurement's `exchanges`.

    Examples:
        >>> rows = pl.DataFrame({
        ...     "vantage": "7", "target": "192.0.2.1", "server": "192.0.2.1", "family": 4,
        ...     "transport": ["udp", "tcp"], "reused": None, "round": None,
        ...     "started_s": [100.0, 220.0], "connect_ms": None, "query_ms": None,
        ...     "total_ms": [10.0, 30.5], "outcome": "answered", "qname": ".", "qtype": "SOA",
        ...     "rcode": "NOERROR", "site": None, "measurement": None, "firmware": None,
        ... })
        >>> pair_up(rows).table.select("ratio", "excess_ms", "excess_round_trips").rows()
        [(3.05, 10.5, 1.05)]
        >>> pair_up(rows, Rules(window_s=60.0)).count
        0
    """
    dropped: list[Dropped] = []
    wanted = exchanges.lazy().filter(pl.col("transport").is_in(["udp", "tcp"]))
    rows = wanted.with_row_index("row").collect()
    if "question" not in rows.columns:
        rows = rows.with_columns(question=questions(rows))
    if "name" not in rows.columns:
        rows = rows.with_columns(name="target")
    if "truncated" not in rows.columns:
        rows = rows.with_columns(truncated=pl.lit(None, dtype=pl.Boolean))
    if "source" not in rows.columns:
        rows = rows.with_columns(source=pl.lit(None, dtype=pl.String))
    for name in ("attempts", "replies"):
        if name not in rows.columns:
            rows = rows.with_columns(pl.lit(None, dtype=pl.UInt8).alias(name))
    why = _unusable(rows, rules)
    for transport, reason, count in (
        rows.select("transport", reason=why)
        .drop_nulls("reason")
        .group_by("transport", "reason")
        .len()
        .sort("transport", "len", "reason", descending=[True, True, False])
        .iter_rows()
    ):
        dropped.append(Dropped(transport, reason, count))
    usable = rows.filter(why.is_null())
    udp, tcp = _matched(usable, rules)
    left = usable.filter(~pl.col("row").is_in(np.concatenate([udp, tcp])))
    dropped += _unpaired(usable, left, rules)
    return Pairs(_table(rows, udp, tcp), rules, tuple(dropped))


REPEATED = "asked more than once, where the reply may answer any attempt"
"""Why no pair contains an answer to a repeated query, unless each attempt got its reply."""

NO_TYPE = "for a type that is not known"
"""Why no pair contains an answer without its question."""


def _unpaired(usable: pl.DataFrame, left: pl.DataFrame, rules: Rules) -> list[Dropped]:
    """Why no pair contains the remaining usable rows."""
    near = f"within {rules.window_s:g} s" if math.isfinite(rules.window_s) else "to pair with"
    place = ["transport", "vantage", "target", "server", "family"]
    swapped = pl.col("transport").replace({"udp": "tcp", "tcp": "udp"})
    others = usable.select(swapped, *place[1:], "question")
    found = []
    for transport, other in (("udp", "TCP"), ("tcp", "UDP")):
        rest = left.filter(transport=transport)
        answered = rest.join(others, on=place, how="semi", nulls_equal=True)
        alike = rest.join(others, on=[*place, "question"], how="semi", nulls_equal=True)
        apart = answered.join(alike, on="row", how="anti")
        unknown = apart.filter(question="").height
        for reason, count in (
            (f"no {other} answer {near}", rest.height - apart.height),
            (NO_TYPE, unknown),
            (f"no {other} answer for the same type", apart.height - unknown),
        ):
            if count:
                found.append(Dropped(transport, reason, count))
    return found


def questions(exchanges: pl.DataFrame) -> pl.Series:
    """The type that each query asks for, as far as it is known; the empty text if it is not.

    A failure, or a reply without its question, does not show a type. It gets the type that most
    queries of its measurement ask for, so a probe's SOA over TCP never pairs with its hostname.bind
    over UDP. Names do not matter, because some measurements ask for a new name each time.
    """
    keys = ["measurement", "transport"]
    usual = (
        exchanges.select(*keys, "qtype")
        .drop_nulls("qtype")
        .group_by(*keys, "qtype")
        .len()
        .sort("len", "qtype", descending=[True, False])
        .group_by(keys, maintain_order=True)
        .agg(usual=pl.col("qtype").first())
    )
    joined = exchanges.select(*keys, "qtype").join(
        usual, on=keys, how="left", nulls_equal=True, maintain_order="left"
    )
    return joined.select(question=pl.coalesce("qtype", "usual", pl.lit(""))).to_series()


def _unusable(rows: pl.DataFrame, rules: Rules) -> pl.Series:
    """Why no pair can contain a row; null if one can."""
    families = list(rules.families)
    return rows.select(
        pl.when(pl.col("family").is_not_null() & ~pl.col("family").is_in(families))
        .then(pl.lit("of the other IP version"))
        .when(pl.col("outcome") != "answered")
        .then(pl.col("outcome"))
        .when(AMBIGUOUS)
        .then(pl.lit(REPEATED))
        .when(pl.col("total_ms").is_null() | ~(pl.col("total_ms") > 0.0))
        .then(pl.lit("without a time above zero"))
        .when(pl.col("reused").fill_null(value=False))
        .then(pl.lit("on a connection that had carried a query"))
        .when(pl.lit(rules.noerror_only) & pl.col("rcode").is_null())
        .then(pl.lit("whose code is not known"))
        .when(pl.lit(rules.noerror_only) & (pl.col("rcode") != "NOERROR"))
        .then(pl.lit("with another code than NOERROR"))
        .alias("why")
    ).to_series()


Rows = npt.NDArray[np.int64]


def _matched(usable: pl.DataFrame, rules: Rules) -> tuple[Rows, Rows]:
    """Row numbers of the UDP and the TCP query of each pair."""
    keys = [pl.col(name).fill_null("") for name in ("vantage", "target", "question")]
    group = pl.struct(
        *keys,
        pl.col("server").fill_null(""),
        pl.col("family").fill_null(0),
        pl.col("round").cast(pl.Int64).fill_null(-1),
    ).rank("dense")
    parts = usable.select(
        "row", "started_s", group=group.cast(pl.Int64), tcp=pl.col("transport") == "tcp"
    )
    if rules.matching == "cycle":
        cycle = (pl.col("started_s") / rules.cycle_s).floor()
        first = (
            parts.sort("started_s", "row")
            .group_by("group", cycle.alias("cycle"), "tcp", maintain_order=True)
            .agg(pl.col("row").first(), pl.col("started_s").first())
        )
        both = first.filter(~pl.col("tcp")).join(
            first.filter(pl.col("tcp")), on=["group", "cycle"], suffix="_tcp"
        )
        apart = (pl.col("started_s") - pl.col("started_s_tcp")).abs()
        both = both.filter(apart <= rules.window_s).sort("row")
        return both["row"].cast(pl.Int64).to_numpy(), both["row_tcp"].cast(pl.Int64).to_numpy()
    parts = parts.sort("group", "started_s", "tcp", "row")
    return _nearest(
        parts["group"].to_numpy(),
        parts["started_s"].to_numpy(),
        parts["tcp"].to_numpy(),
        parts["row"].cast(pl.Int64).to_numpy(),
        rules.window_s,
    )


def _nearest(
    group: Rows,
    time: npt.NDArray[np.float64],
    tcp: npt.NDArray[np.bool_],
    row: Rows,
    window_s: float,
) -> tuple[Rows, Rows]:
    """Pairs the closest queries first, each used once; input is sorted by group and time.

    Each step pairs the queries that are each other's nearest among those left. This gives the same
    pairs as taking the closest pair again and again, because no third query can be closer to
    either. Of two equally near queries, the earlier one counts as nearer, so that every step makes
    pairs.
    """
    udp_rows: list[Rows] = []
    tcp_rows: list[Rows] = []
    while len(row):
        nearest = _nearest_other(group, time, tcp, window_s)
        index = np.arange(len(row))
        mutual = (nearest >= 0) & (nearest[nearest] == index) & ~tcp
        if not mutual.any():
            break
        udp_rows.append(row[mutual])
        tcp_rows.append(row[nearest[mutual]])
        rest = np.ones(len(row), dtype=bool)
        rest[mutual] = False
        rest[nearest[mutual]] = False
        # A query that has no partner within the window will never get one.
        rest &= nearest >= 0
        group, time, tcp, row = group[rest], time[rest], tcp[rest], row[rest]
    if not udp_rows:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    udp, other = np.concatenate(udp_rows), np.concatenate(tcp_rows)
    order = np.argsort(udp, kind="stable")
    return udp[order], other[order]


def _nearest_other(
    group: Rows, time: npt.NDArray[np.float64], tcp: npt.NDArray[np.bool_], window_s: float
) -> Rows:
    """For each row, the nearest row of the other transport in its group; -1 if there is none."""
    count = len(group)
    index = np.arange(count)
    best = np.full(count, -1)
    for mine in (False, True):
        other = tcp != mine
        before = np.maximum.accumulate(np.where(other, index, -1))
        after = np.minimum.accumulate(np.where(other, index, count)[::-1])[::-1]
        here = np.flatnonzero(~other)
        gaps = []
        for place in (before[here], after[here]):
            inside = (place >= 0) & (place < count)
            safe = np.where(inside, place, 0)
            gap = np.abs(time[safe] - time[here])
            gaps.append(np.where(inside & (group[safe] == group[here]), gap, np.inf))
        gap = np.minimum(*gaps)
        choice = np.where(gaps[0] <= gaps[1], before[here], after[here])
        best[here] = np.where((gap <= window_s) & np.isfinite(gap), choice, -1)
    return best


def _table(rows: pl.DataFrame, udp: Rows, tcp: Rows) -> pl.DataFrame:
    first = rows.select(
        "vantage",
        "target",
        "name",
        "server",
        "family",
        "started_s",
        udp_ms="total_ms",
        udp_truncated="truncated",
    )[udp]
    second = rows.select(
        "source",
        tcp_ms="total_ms",
        connect_ms=pl.col("connect_ms").cast(pl.Float64),
        query_ms=pl.col("query_ms").cast(pl.Float64),
        site="site",
        firmware="firmware",
        tcp_started_s="started_s",
    )[tcp]
    both = pl.concat([first, second], how="horizontal")
    excess = pl.col("tcp_ms") - 2.0 * pl.col("udp_ms")
    return both.with_columns(
        apart_s=(pl.col("tcp_started_s") - pl.col("started_s")),
        ratio=pl.col("tcp_ms") / pl.col("udp_ms"),
        excess_ms=excess,
        excess_round_trips=excess / pl.col("udp_ms"),
    ).drop("tcp_started_s")
