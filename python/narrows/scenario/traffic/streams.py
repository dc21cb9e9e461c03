"""Streams of datagrams: what their kinds share, and the record of each stream."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field

from narrows.records import Headline, Metric, Plot, Record, Series, declared_table
from narrows.scenario.amounts import Duration
from narrows.scenario.quantities import PositiveSpan
from narrows.scenario.traffic.base import Amount, Countable
from narrows.scenario.traffic.flows import Flows

if TYPE_CHECKING:
    import polars as pl

    from narrows.scenario.planner import Planner

MOST_STREAMS = 100_000
# The simulator's own limit for a group.
MOST_ROWS = 10_000_000

STREAM = Countable("stream of datagrams", "streams of datagrams", MOST_STREAMS)
ROWS = Countable("row of the table streams", "rows of the table streams", MOST_ROWS, "recorded")


def _summarise(rows: pl.DataFrame, length_s: float) -> dict[str, Any]:
    import polars as pl

    from narrows.records.numbers import floats, percent, ratio

    def total(name: str) -> int:
        return int(rows.get_column(name).cast(pl.UInt64).sum())

    received = total("received_packets")
    weighted = rows.get_column("delay_mean_ms") * rows.get_column("received_packets")
    delays, jitters = floats(weighted), floats(rows.get_column("jitter_ms"))
    maxima = floats(rows.get_column("delay_max_ms"))
    known = received + total("lost_packets")
    return {
        "streams": rows.select("group", "stream").n_unique(),
        "sent_packets": total("sent_packets"),
        "received_packets": received,
        "lost_percent": percent(total("lost_packets"), known),
        "reordered_packets": total("reordered_packets"),
        "sent_mbps": ratio(total("sent_bytes") * 8e-6, length_s),
        "received_mbps": ratio(total("received_bytes") * 8e-6, length_s),
        "delay_mean_ms": ratio(float(delays.sum()), received),
        "delay_max_ms": float(maxima.max()) if len(maxima) else None,
        "jitter_mean_ms": ratio(float(jitters.sum()), len(jitters)),
    }


def _says(metrics: Mapping[str, Any]) -> str | None:
    if metrics["delay_mean_ms"] is None:
        return None
    return (
        f"Line over time: packets took {metrics['delay_mean_ms']:.4g} ms on average and at most "
        f"{metrics['delay_max_ms']:.4g} ms; {metrics['lost_percent']:.3g} % were lost."
    )


def _says_loss(metrics: Mapping[str, Any]) -> str | None:
    if not metrics["lost_percent"]:
        return None
    return f"Line over time: {metrics['lost_percent']:.3g} % of the packets were lost in all."


_RECEIVED = ("sum", "received_packets")
_KNOWN = ("+", _RECEIVED, ("sum", "lost_packets"))
_DELAY = ("/", ("sum", ("*", "delay_mean_ms", "received_packets")), _RECEIVED)
_LOST = ("/", ("*", 100.0, ("sum", "lost_packets")), _KNOWN)
"""Over all streams, of the packets that were sent in a period."""

STREAMS = Record(
    table=declared_table("streams"),
    title="streams of datagrams",
    metrics=(
        Metric("streams", "streams"),
        Metric("sent_packets", "sent", "packets"),
        Metric("received_packets", "received", "packets"),
        Metric(
            "lost_percent",
            "lost",
            "%",
            doc="Share of lost packets among those whose end is known.",
            better="lower",
        ),
        Metric("reordered_packets", "out of order", "packets", better="lower"),
        Metric("sent_mbps", "sent, mean rate", "Mbit/s"),
        Metric("received_mbps", "received, mean rate", "Mbit/s"),
        Metric("delay_mean_ms", "one-way delay, mean", "ms", better="lower"),
        Metric("delay_max_ms", "one-way delay, longest", "ms", better="lower"),
        Metric("jitter_mean_ms", "jitter, mean over the rows", "ms", better="lower"),
    ),
    summarise=_summarise,
    headline=Headline("lost_percent", "of the datagrams lost"),
    plots=(
        Plot(
            "stream-delay",
            title="One-way delay of datagrams, all streams together",
            x="sent at (s)",
            y="delay, mean (ms)",
            caption=(
                "Mean over the packets that were sent in a period and received. Steps up show a "
                "queue that fills; a line at the path's own delay shows none. It breaks where "
                "nothing was received."
            ),
            says=_says,
            series=(Series("", "streams", "t_s", _DELAY, by=True),),
        ),
        Plot(
            "stream-loss",
            title="Loss of datagrams, all streams together",
            x="sent at (s)",
            y="lost (%)",
            caption="Share of the packets that were sent in a period and lost, in any place.",
            says=_says_loss,
            series=(Series("", "streams", "t_s", _LOST, by=True),),
        ),
    ),
)


class Datagrams(Flows):
    """A group of flows of datagrams."""

    def lower_flows(self, planner: Planner) -> list[dict[str, Any]]:
        """Its flows in the plan: a name, the paths, and the times."""
        flows = []
        for number in range(self.total):
            name = f"{self.name}/{number}"
            chance = partial(planner.chance, name)
            sender, receiver = self.pair(number, chance)
            offset = self.offset(number, chance("start") if self.stagger == "random" else None)
            flows.append(
                {
                    "name": name,
                    "there": planner.path(sender, receiver, self.route),
                    "back": planner.path(receiver, sender, self.route_back),
                    "start": self.start + offset,
                    "stop": self.stop,
                }
            )
        return flows

    def lifetime(self, duration: int) -> int:
        """How long the first flow may send in a run of this duration, in picoseconds."""
        end = duration if self.stop is None else min(self.stop, duration)
        return max(0, end - self.start)


class Streams(Datagrams):
    """A group of streams of datagrams that nobody answers."""

    countables: ClassVar[tuple[Countable, ...]] = (STREAM,)
    heading: ClassVar[str] = "streams of datagrams"
    records: ClassVar[tuple[Record, ...]] = (STREAMS,)

    streams: Annotated[int, Field(strict=True, ge=1, le=MOST_STREAMS)] = 1
    """Streams for each pair."""
    period: PositiveSpan = Duration("1 s")
    """The table `streams` has a row for each period of this length in which a stream sends."""

    @property
    def each(self) -> int:
        """Streams for each pair."""
        return self.streams

    def amounts(self) -> Iterator[Amount]:
        """Its streams."""
        yield Amount(self.total, STREAM, "streams")

    def recorded(self, duration: int) -> Iterator[Amount]:
        """A row for each period of each stream."""
        yield Amount(self.total * (self.lifetime(duration) // self.period + 1), ROWS, "period", "")
