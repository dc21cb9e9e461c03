"""Zone transfers: secondaries fetch a zone from a DNS server over TCP (AXFR, RFC 5936)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from narrows.records import Completed, Headline, Metric, Plot, Record, Series, declared_table
from narrows.scenario.amounts import DataSize, Duration
from narrows.scenario.declared import Declared, DeclaredTable, find
from narrows.scenario.quantities import Name, PositiveBytes, Size, Span, at_most, refuse
from narrows.scenario.rules import Faults, Unknown, rule
from narrows.scenario.tcp import Tcp
from narrows.scenario.traffic.base import Amount, Countable, Group, Leg

if TYPE_CHECKING:
    import polars as pl

    from narrows.scenario.planner import Planner

SECONDARIES = Countable("secondary", "secondaries", 100_000)
TRANSFERS = Countable("zone transfer", "zone transfers", 1_000_000, can_be="recorded")
MESSAGES = Countable("message of zones", "messages of zones", 20_000_000, can_be="sent")

_HEADER = 12
"""Bytes of a DNS message without question and records (RFC 1035, 4.1.1)."""
_LONGEST = int(find("Transfer", "message")["most"])
_MOST_BYTES = int(find("Transfer", "zone")["most"])
_MOST_MESSAGES = 10**6


def _times(transfers: pl.DataFrame) -> pl.Series:
    """How long completed transfers took."""
    return (transfers.get_column("end_s") - transfers.get_column("start_s")).drop_nulls()


def _summarise(transfers: pl.DataFrame, _end_s: float) -> dict[str, Any]:
    from narrows.records.numbers import floats, mean, percentile, ratio, reached

    whole = transfers.filter(transfers.get_column("end_s").is_not_null())
    times = floats(_times(transfers))
    fates = transfers.get_column("fate")
    return {
        "transfers": transfers.height,
        "completed": len(times),
        "failed": int((~fates.is_in(["whole", "unfinished"])).sum()),
        "transfer_mean_s": mean(times),
        "transfer_p50_s": percentile(times, 0.5),
        "transfer_p99_s": reached(times, 99),
        "goodput_mbit_s": ratio(8e-6 * int(whole.get_column("bytes").sum()), float(times.sum())),
        "bytes": int(transfers.get_column("bytes").sum()),
        "messages": int(transfers.get_column("messages").sum()),
        "timeouts": int(transfers.get_column("timeouts").sum()),
        "segments_retransmitted": int(transfers.get_column("segments_retransmitted").sum()),
    }


def _says(metrics: Mapping[str, Any]) -> str | None:
    if not metrics["completed"]:
        return None
    return (
        f"Curve: half of the {metrics['completed']} transfers took at most "
        f"{metrics['transfer_p50_s']:.4g} s, 99 % of them {metrics['transfer_p99_s']:.4g} s."
    )


RECORDS = Record(
    table=declared_table("transfers"),
    title="zone transfers",
    metrics=(
        Metric("transfers", "transfers", doc="Transfers that began."),
        Metric("completed", "completed", doc="Transfers whose last message arrived."),
        Metric(
            "failed",
            "failed",
            doc="Transfers that were refused, reset, timed out or closed.",
            better="lower",
        ),
        Metric(
            "transfer_mean_s",
            "time of a transfer, mean",
            "s",
            doc="Time from opening the connection until the last message arrives, mean.",
            better="lower",
        ),
        Metric("transfer_p50_s", "time of a transfer, median", "s", better="lower"),
        Metric("transfer_p99_s", "time of a transfer, 99 % within", "s", better="lower"),
        Metric(
            "goodput_mbit_s",
            "goodput of a transfer",
            "Mbit/s",
            doc="Bytes of completed transfers, divided by the time that these took.",
            better="higher",
        ),
        Metric("bytes", "bytes", "bytes", doc="Bytes of all messages, with their lengths."),
        Metric("messages", "messages"),
        Metric(
            "timeouts", "timeouts", doc="Retransmission timeouts of the server.", better="lower"
        ),
        Metric("segments_retransmitted", "segments sent again", better="lower"),
    ),
    summarise=_summarise,
    headline=Headline("transfer_mean_s", "mean time of a zone transfer"),
    completed=Completed("transfers", ("transfer_mean_s", "transfer_p50_s", "transfer_p99_s")),
    plots=(
        Plot(
            "transfer-cdf",
            title="Time of a zone transfer, until the last message arrives",
            x="time of a transfer (s)",
            y="transfers over\nwithin this time (%)",
            caption=(
                "From opening the connection until the secondary has the whole zone. The curve "
                "ends below 100 % where transfers failed, or were not over at the run's end."
            ),
            says=_says,
            series=(Series("", "transfers", ("-", "end_s", "start_s"), shape="cdf"),),
        ),
    ),
)


class Transfer(
    DeclaredTable,
    Group,
    declares="Transfer",
    without=("server", "secondaries", "tcp", "at", "zone", "message"),
):
    """Secondaries that fetch a zone from a DNS server over TCP (AXFR, RFC 5936).

    Each transfer has a connection of its own, under the limits and with the service time of the
    server. Where the server keeps no state before a query (`answers.stateless`), ordinary TCP
    serves transfers.
    """

    copied: ClassVar[tuple[str, ...]] = ("secondaries",)
    countables: ClassVar[tuple[Countable, ...]] = (SECONDARIES, TRANSFERS, MESSAGES)
    records: ClassVar[tuple[Record, ...]] = (RECORDS,)

    kind: Literal["transfer"] = "transfer"
    """Which kind of traffic this is."""
    server: Name
    """The server that has the zone: the node of a `[[dns]]` group's server. If several groups have
    a server there, the first group's is meant."""
    secondaries: Annotated[
        tuple[Name, ...], Field(min_length=1, max_length=100_000, fail_fast=True)
    ]
    """The nodes that fetch the zone."""
    zone: Annotated[PositiveBytes, at_most(_MOST_BYTES // 2, "500 MB")]
    """Bytes of the zone's records."""
    record: Annotated[PositiveBytes, at_most(_LONGEST - _HEADER, "65523 B")] = DataSize("100 B")
    """Bytes of a record. The SOA record comes first and again at the end (RFC 5936, 2.2)."""
    message: Annotated[Size, Field(ge=512, le=_LONGEST)] = DataSize("20480 B")
    """The longest DNS message. It holds as many whole records as fit beside the question. The
    default is BIND's `transfer-message-size`."""
    records_per_message: Annotated[int, Field(strict=True, ge=1, le=_LONGEST)] | None = None
    """The most records in a message; 1 is BIND's `transfer-format one-answer`."""
    query: Annotated[DataSize, Declared("Transfer", "query")] = DataSize("29 B")
    """Bytes of the query, a DNS message; the first message of the zone repeats its question."""
    at: Annotated[tuple[Span, ...], Field(min_length=1, max_length=100_000, fail_fast=True)] = (
        Duration("0 s"),
    )
    """When transfers begin, after `start`, in order: such as `["0 s", "30 s"]`. If a transfer is
    due while the secondary's previous one still runs, it starts when that ends."""
    tcp: Tcp = Tcp.usual()
    """TCP settings of the secondaries; the server's are those of its `[[dns]]` group."""

    @rule
    def _has_different_secondaries(self) -> Faults:
        seen: set[str] = set()
        for index, name in enumerate(self.secondaries):
            if name == self.server:
                yield refuse("is also the server", "name another node", f"secondaries[{index}]")
            elif name in seen:
                yield refuse("is named twice", "name each node once", f"secondaries[{index}]")
            seen.add(name)

    @rule
    def _times_are_sorted(self) -> Faults:
        for index, (one, next) in enumerate(zip(self.at, self.at[1:], strict=False)):
            if next < one:
                yield refuse("comes before the one before", "sort them", f"at[{index + 1}]")

    @rule
    def _zone_fits_messages(self) -> Faults:
        if self._fit < 1:
            yield refuse("does not fit a message with the question", "a longer message", "record")
        elif self._messages > _MOST_MESSAGES or self._bytes > _MOST_BYTES:
            yield refuse(
                f"takes {self._messages} messages; at most {_MOST_MESSAGES}, with 1 GB in all",
                "a smaller zone, or longer messages",
                "zone",
            )

    @property
    def _records(self) -> int:
        """The number of the zone's records, with the SOA record at the end."""
        return -(-self.zone // self.record) + 1

    @property
    def _fit(self) -> int:
        """The number of whole records that a message has room for."""
        return (self.message - self.query) // self.record

    @property
    def _in_a_message(self) -> int:
        if self._fit < 1:
            raise Unknown("record")
        most = self.records_per_message
        return self._fit if most is None else min(self._fit, most)

    @property
    def _messages(self) -> int:
        return -(-self._records // self._in_a_message)

    @property
    def _bytes(self) -> int:
        """Bytes of all messages, without the question."""
        return self._messages * _HEADER + self._records * self.record

    def keyed_nodes(self) -> Iterator[tuple[str, str]]:
        """The server, and each secondary."""
        yield "server", self.server
        yield from ((f"secondaries[{index}]", name) for index, name in enumerate(self.secondaries))

    def legs(self) -> Iterator[Leg]:
        """The path from each secondary to the server, and the path back."""
        for index, name in enumerate(self.secondaries):
            key = f"secondaries[{index}]"
            yield Leg(name, self.server, None, "", key)
            yield Leg(self.server, name, None, "", key)

    def beginnings(self) -> tuple[int, int]:
        """When the first and the last transfer begin, at the latest."""
        return self.start + self.at[0], self.start + self.at[-1] + self.spread

    @property
    def wants_ecn(self) -> bool:
        """Whether its connections negotiate ECN."""
        return self.tcp.wants_ecn

    def dns_servers(self) -> Iterator[tuple[str, str]]:
        """The server, which has to be a DNS server's node."""
        yield "server", self.server

    @property
    def has_connections(self) -> bool:
        """Whether it may open connections: it does."""
        return True

    def amounts(self) -> Iterator[Amount]:
        """Its secondaries, their transfers, and the messages of these."""
        transfers = len(self.secondaries) * len(self.at)
        yield Amount(len(self.secondaries), SECONDARIES, "secondaries")
        yield Amount(transfers, TRANSFERS, "at", "secondaries")
        yield Amount(transfers * self._messages, MESSAGES, "zone", "at or secondaries")

    def lower(self, planner: Planner) -> list[dict[str, Any]]:
        """One application; that of its server may come later."""
        settings: dict[str, Any] = {
            "secondaries": [
                {
                    "node": planner.node(name),
                    "there": planner.path(name, self.server),
                    "back": planner.path(self.server, name),
                }
                for name in self.secondaries
            ],
            "tcp": planner.tcp_settings(self.tcp),
            "at": [self.start + at for at in self.at],
            **self.plain(),
            "zone": self._bytes,
            "message": _HEADER + self._in_a_message * self.record,
        }
        planner.at_last(lambda: settings.update(server=planner.dns_server_at(self.server)))
        return [{"name": self.name, "kind": {"transfer": settings}}]
