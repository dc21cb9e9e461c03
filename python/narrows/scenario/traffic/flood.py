"""A flood of SYNs, or of DNS queries, from forged addresses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from narrows.records import Headline, Metric, Plot, Record, Series, declared_table
from narrows.scenario.amounts import SECOND, DataSize
from narrows.scenario.declared import TABLES, Declared, DeclaredTable
from narrows.scenario.quantities import Name, PositiveSpan, refuse
from narrows.scenario.rules import Faults, known, rule
from narrows.scenario.traffic.base import Amount, Countable, Group, Leg

if TYPE_CHECKING:
    import polars as pl

    from narrows.scenario.planner import Planner

ADDRESSES = Countable("forged address", "forged addresses", 1_000_000)
PACKETS = Countable("forged packet", "forged packets", 100_000_000, can_be="sent")
ROWS = Countable("row of the table floods", "rows of the table floods", 10_000_000, "recorded")


def _summarise(rows: pl.DataFrame, _end_s: float) -> dict[str, Any]:
    from narrows.records.numbers import floats, mean, percent, ratio

    def total(name: str) -> int:
        return int(rows.get_column(name).sum())

    sent, syns = total("sent"), total("syns")
    # If no SYN reaches the server, nothing is said about its queue.
    held = floats(rows.get_column("half_open").head(rows.height if syns else 0))
    return {
        "sent": sent,
        "lost_percent": percent(total("lost"), sent),
        "syns": syns,
        "dropped_percent": percent(total("dropped"), syns),
        "cookies_percent": percent(total("cookies"), syns),
        "half_open_mean": mean(held),
        "half_open_max": float(held.max()) if len(held) else None,
        "repeated": total("repeated"),
        "expired": total("expired"),
        "replies": total("replies"),
        "reply_mean_bytes": ratio(total("reply_bytes"), total("replies")),
    }


def _entries_say(metrics: Mapping[str, Any]) -> str | None:
    if not metrics["half_open_max"]:
        return None
    return (
        f"Line over time: the server holds {metrics['half_open_mean']:.4g} half-open "
        f"connections on average and at most {metrics['half_open_max']:.0f}; it drops "
        f"{metrics['dropped_percent']:.3g} % of the SYNs and answers "
        f"{metrics['cookies_percent']:.3g} % with cookies."
    )


def _replies_say(metrics: Mapping[str, Any]) -> str | None:
    if not metrics["replies"]:
        return None
    return (
        f"Line over time: the server sends {metrics['replies']} replies of "
        f"{metrics['reply_mean_bytes']:.4g} bytes on average to addresses that did not ask."
    )


_MBITS = ("/", ("*", 8e-6, "reply_bytes"), ("-", "t_s", "from_s"))

FLOODS = Record(
    table=declared_table("floods"),
    title="flood",
    metrics=(
        Metric("sent", "packets sent"),
        Metric("lost_percent", "queries lost on the way", "%"),
        Metric("syns", "SYNs at the server", doc="SYNs that reached the server, from any sender."),
        Metric("dropped_percent", "SYNs dropped", "%"),
        Metric("cookies_percent", "SYNs answered with cookies", "%"),
        Metric(
            "half_open_mean",
            "half-open connections, mean",
            doc="Half-open connections, mean; null if no SYN arrived.",
        ),
        Metric(
            "half_open_max",
            "half-open connections, most",
            doc="The most half-open connections; null if no SYN arrived.",
        ),
        Metric("repeated", "SYN-ACKs repeated"),
        Metric("expired", "half-open connections given up"),
        Metric("replies", "replies to forged addresses"),
        Metric("reply_mean_bytes", "length of a reply, mean", "bytes"),
    ),
    summarise=_summarise,
    headline=Headline("half_open_max", "half-open connections at most"),
    plots=(
        Plot(
            "flood-half-open",
            title="Half-open connections at the flooded server",
            x="time (s)",
            y="half-open\nconnections",
            caption=(
                "Entries in the listener's queue at the end of each period. At its highest level "
                "the queue is full: what comes then is dropped, or answered with a cookie. After "
                "the flood, entries stay until their SYN-ACKs have been repeated often enough."
            ),
            says=_entries_say,
            series=(Series("", "floods", "t_s", ("max", "half_open"), by=True),),
        ),
        Plot(
            "flood-replies",
            title="Replies of the flooded server to forged addresses",
            x="time (s)",
            y="replies\n(Mbit/s)",
            caption="IP packets of replies that arrive at addresses that did not ask.",
            says=_replies_say,
            series=(Series("", "floods", "t_s", ("sum", _MBITS), by=True),),
        ),
    ),
)


class Flood(
    DeclaredTable,
    Group,
    declares="Flood",
    without=("server", "there", "back", "of", "interval", "start", "stop"),
):
    """SYNs, or DNS queries over UDP, that are sent from forged addresses to a DNS server.

    The addresses belong to nobody, so nothing answers what the server sends to them.
    """

    countables: ClassVar[tuple[Countable, ...]] = (ADDRESSES, PACKETS, ROWS)
    records: ClassVar[tuple[Record, ...]] = (FLOODS,)

    kind: Literal["flood"] = "flood"
    """Which kind of traffic this is."""
    of: Literal["syns", "queries"] = "syns"
    """What it consists of."""
    source: Name
    """The node that it comes from. Answers to the forged addresses go there too."""
    server: Name
    """Its target, which is the node of a `[[dns]]` group's server. If several groups have a server
    there, the first group's is the target."""
    per_second: Annotated[int, Field(strict=True, ge=1, le=10_000_000)]
    """Packets a second."""
    stop: PositiveSpan | None = None
    """Nothing is sent from then on; without it, the flood lasts to the end."""
    query: Annotated[DataSize, Declared("FloodQueries", "query")] | None = None
    """Length of a query's DNS message, with `of = "queries"`; `"40 B"` by default."""
    reply: Annotated[DataSize, Declared("FloodQueries", "reply")] | None = None
    """Length of the whole reply; `"1000 B"` by default."""
    udp_size: Annotated[DataSize, Declared("FloodQueries", "payload")] | None = None
    """The longest reply that queries ask for (EDNS); `"1232 B"` by default. A longer one is
    truncated."""

    @rule
    def _has_two_ends(self) -> Faults:
        if self.source == self.server:
            yield refuse("is also the source", "name two nodes", "server")

    @rule
    def _stops_after_its_start(self) -> Faults:
        if self.stop is not None and self.stop <= self.start:
            yield refuse(
                f'"{self.stop}" is not after the start ("{self.start}")',
                "stop later, or start earlier",
                "stop",
            )

    @rule
    def _keys_of_queries_have_a_use(self) -> Faults:
        for key in ("query", "reply", "udp_size"):
            if self.of != "queries" and known(self, key) is not None:
                yield refuse("is only for queries", 'leave it out, or of = "queries"', key)

    def keyed_nodes(self) -> Iterator[tuple[str, str]]:
        """Source and target."""
        yield "source", self.source
        yield "server", self.server

    def legs(self) -> Iterator[Leg]:
        """The path to the server, and the path back."""
        yield Leg(self.source, self.server, None, "", "server")
        yield Leg(self.server, self.source, None, "", "server")

    def dns_servers(self) -> Iterator[tuple[str, str]]:
        """Its target has to be one."""
        yield "server", self.server

    def amounts(self) -> Iterator[Amount]:
        """Its addresses."""
        yield Amount(self.addresses, ADDRESSES, "addresses")

    def recorded(self, duration: int) -> Iterator[Amount]:
        """Packets and rows in a run of this duration."""
        end = duration if self.stop is None else min(self.stop, duration)
        packets = self.per_second * max(end - self.start, 0) // SECOND
        yield Amount(packets, PACKETS, "per_second", "stop earlier")
        yield Amount(max(duration - self.start, 0) // self.period, ROWS, "period")

    def lower(self, planner: Planner) -> list[dict[str, Any]]:
        """One application; that of its target may come later."""
        of: str | dict[str, Any] = "syns"
        if self.of == "queries":
            given = {"query": self.query, "reply": self.reply, "payload": self.udp_size}
            keys = TABLES["FloodQueries"]["keys"]
            of = {"queries": {key["name"]: given[key["name"]] or key["default"] for key in keys}}
        settings: dict[str, Any] = {
            "there": planner.path(self.source, self.server),
            "back": planner.path(self.server, self.source),
            "of": of,
            "interval": SECOND // self.per_second,
            "start": self.start,
            "stop": self.stop,
            **self.plain(),
        }
        planner.at_last(lambda: settings.update(server=planner.dns_server_at(self.server)))
        return [{"name": self.name, "kind": {"flood": settings}}]
