"""A kind of traffic as somebody would add it: beacons from nodes to a collector, no TCP."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from narrows.records import Column, Headline, Metric, Plot, Record, Series, Table
from narrows.scenario.base import Table as Keys
from narrows.scenario.quantities import Name, PositiveSpan
from narrows.scenario.traffic.base import Amount, Countable, Group, Leg

if TYPE_CHECKING:
    import polars as pl

    from narrows.scenario.planner import Planner

BEACONS = Countable("beacon", "beacons", 500)


def _summarise(rows: pl.DataFrame, end_s: float) -> dict[str, Any]:
    from narrows.records.numbers import floats, percentile

    heard = floats(rows.get_column("delay_ms"))
    return {
        "sent": rows.height,
        "delay_median_ms": percentile(heard, 0.5),
        "sent_per_s": rows.height / end_s,
    }


def _says(metrics: Mapping[str, Any]) -> str | None:
    median = metrics["delay_median_ms"]
    return None if median is None else f"Curve: half of the beacons took {median:g} ms."


RECORD = Record(
    Table(
        "beacons",
        "a beacon",
        (
            Column("group", "string", "", "The group that it belongs to."),
            Column("sent_s", "f64", "s", "When it was sent."),
            Column(
                "delay_ms", "f64", "ms", "Its path to the collector; null: lost.", nullable=True
            ),
        ),
    ),
    title="beacons",
    metrics=(
        Metric("sent", "sent"),
        Metric("delay_median_ms", "delay, median", "us", 1e3),
    ),
    summarise=_summarise,
    headline=Headline("delay_median_ms", "half of the beacons within"),
    plots=(
        Plot(
            "beacon-delay",
            title="Beacons' delay",
            x="delay (ms)",
            y="heard (%)",
            caption="The curve ends below 100 % where some were lost.",
            says=_says,
            series=(Series("", "beacons", "delay_ms", shape="cdf"),),
        ),
    ),
)


class Form(Keys):
    """What a beacon looks like."""

    octets: Annotated[int, Field(strict=True, ge=1, le=1400)] = 100
    """Its payload."""


class Beacon(Group):
    """Beacons that nodes send to a collector, now and then."""

    copied: ClassVar[tuple[str, ...]] = ("nodes",)
    countables: ClassVar[tuple[Countable, ...]] = (BEACONS,)
    records: ClassVar[tuple[Record, ...]] = (RECORD,)

    kind: Literal["beacon"] = "beacon"
    """Which kind of traffic this is."""
    nodes: Annotated[tuple[Name, ...], Field(min_length=1)]
    """Who sends."""
    collector: Name
    """Who listens."""
    every: PositiveSpan
    """Time from one to the next."""
    form: Form = Form()
    """What they look like."""

    def keyed_nodes(self) -> Iterator[tuple[str, str]]:
        """Senders and collector."""
        yield from ((f"nodes[{index}]", node) for index, node in enumerate(self.nodes))
        yield "collector", self.collector

    def legs(self) -> Iterator[Leg]:
        """One path from each node."""
        for index, node in enumerate(self.nodes):
            yield Leg(node, self.collector, None, "", f"nodes[{index}]")

    def amounts(self) -> Iterator[Amount]:
        """A beacon for each node."""
        yield Amount(len(self.nodes), BEACONS, "nodes")

    def lower(self, planner: Planner) -> list[dict[str, Any]]:
        """One application for all nodes."""
        paths = [planner.path(node, self.collector) for node in self.nodes]
        return [self.application("beacon", paths=paths, every=self.every, octets=self.form.octets)]
