"""Incast: a client asks many servers at once, and waits for the last answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from narrows.records import Completed, Headline, Metric, Plot, Record, Series, declared_table
from narrows.scenario.amounts import Duration
from narrows.scenario.declared import DeclaredTable
from narrows.scenario.draws import Pauses, Sizes
from narrows.scenario.quantities import Name
from narrows.scenario.rules import Faults, rule
from narrows.scenario.traffic.asking import Asking, bounded
from narrows.scenario.traffic.base import Amount, Countable

if TYPE_CHECKING:
    import polars as pl

    from narrows.scenario.planner import Planner

BLOCKS = Countable("block", "blocks", 20_000_000, can_be="asked for")
CONNECTIONS = Countable("incast connection", "incast connections", 100_000)


def _times(rounds: pl.DataFrame) -> pl.Series:
    """How long those rounds took whose blocks all arrived."""
    return (rounds.get_column("end_s") - rounds.get_column("start_s")).drop_nulls()


def _summarise(rounds: pl.DataFrame, _end_s: float) -> dict[str, Any]:
    from narrows.records.numbers import floats, mean, percentile, ratio, reached

    whole = rounds.filter(rounds.get_column("end_s").is_not_null())
    times = floats(_times(rounds))
    return {
        "rounds": rounds.height,
        "completed": len(times),
        "round_mean_ms": _ms(mean(times)),
        "round_p50_ms": _ms(percentile(times, 0.5)),
        "round_p99_ms": _ms(reached(times, 99)),
        "goodput_mbit_s": ratio(8e-6 * int(whole.get_column("bytes").sum()), float(times.sum())),
        "failed_blocks": int(rounds.get_column("failed").sum()),
        "timeouts": int(rounds.get_column("timeouts").sum()),
        "segments_retransmitted": int(rounds.get_column("segments_retransmitted").sum()),
    }


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else 1e3 * seconds


def _says(metrics: Mapping[str, Any]) -> str | None:
    if not metrics["completed"]:
        return None
    return (
        f"Curve: half of the {metrics['completed']} rounds took at most "
        f"{metrics['round_p50_ms']:.4g} ms, 99 % of them {metrics['round_p99_ms']:.4g} ms."
    )


ROUNDS = Record(
    table=declared_table("rounds"),
    title="incast",
    metrics=(
        Metric("rounds", "rounds", doc="Rounds that began."),
        Metric("completed", "completed", doc="Rounds whose blocks all arrived."),
        Metric(
            "round_mean_ms",
            "time of a round, mean",
            "ms",
            doc="Time until the last block arrives, mean; of completed rounds only, like the "
            "next two.",
            better="lower",
        ),
        Metric("round_p50_ms", "time of a round, median", "ms", better="lower"),
        Metric("round_p99_ms", "time of a round, 99 % within", "ms", better="lower"),
        Metric(
            "goodput_mbit_s",
            "goodput during rounds",
            "Mbit/s",
            doc="Bytes of completed rounds, divided by the time that these took without pauses.",
            better="higher",
        ),
        Metric("failed_blocks", "blocks that failed", better="lower"),
        Metric(
            "timeouts", "timeouts", doc="Retransmission timeouts of the servers.", better="lower"
        ),
        Metric("segments_retransmitted", "segments sent again", better="lower"),
    ),
    summarise=_summarise,
    headline=Headline("round_mean_ms", "mean time until the last block"),
    completed=Completed("rounds", ("round_mean_ms", "round_p50_ms", "round_p99_ms")),
    plots=(
        Plot(
            "incast-cdf",
            title="Time of a round, until the last server's block arrives",
            x="time of a round (ms)",
            y="rounds over\nwithin this time (%)",
            caption=(
                "From asking all servers until the last block arrives. Steps at 200 ms and more "
                "are retransmission timeouts: the port's buffer lost a block's tail. The curve "
                "ends below 100 % where rounds had no end."
            ),
            says=_says,
            series=(Series("", "rounds", ("*", 1e3, ("-", "end_s", "start_s")), shape="cdf"),),
        ),
    ),
)


class Incast(
    DeclaredTable,
    Asking,
    declares="Incast",
    without=("responder", "servers", "tcp", "start", "reuse"),
):
    """A client that asks many servers at once, each of which answers with a block.

    Each server answers over a TCP connection of its own. The next round begins when the last block
    of this one is there, after a pause.
    """

    copied: ClassVar[tuple[str, ...]] = ("servers",)
    countables: ClassVar[tuple[Countable, ...]] = (CONNECTIONS, BLOCKS)
    records: ClassVar[tuple[Record, ...]] = (ROUNDS,)

    kind: Literal["incast"] = "incast"
    """Which kind of traffic this is."""
    servers: Annotated[tuple[Name, ...], Field(min_length=1, max_length=100_000, fail_fast=True)]
    """The nodes that answer."""
    connections: Annotated[int, Field(strict=True, ge=1, le=100_000)] = 1
    """Connections to each server; each brings one block."""
    block: Sizes
    """Bytes of a block, at most 1 GB: a size, a list, or a distribution. A list serves all blocks
    of a round, then of the next, and starts again at its end."""
    pause: Pauses = Duration("0 s")
    """Time from the end of a round to the start of the next: a duration, a list, or a
    distribution."""
    reuse: Annotated[bool, Field(strict=True)] = True
    """All rounds use the same connections, which are open before the first round. If false, each
    round opens its own, and its time includes their handshakes."""

    @rule
    def _blocks_are_bounded(self) -> Faults:
        return bounded(self.block, "block")

    def keyed_servers(self) -> Iterator[tuple[str, str]]:
        """Each server of the list."""
        yield from ((f"servers[{index}]", name) for index, name in enumerate(self.servers))

    def amounts(self) -> Iterator[Amount]:
        """Its connections, and the blocks of all rounds."""
        connections = self.connections * len(self.servers)
        yield Amount(connections, CONNECTIONS, "connections")
        yield Amount(connections * self.rounds, BLOCKS, "rounds", "connections or servers")

    def lower(self, planner: Planner) -> list[dict[str, Any]]:
        """Two applications: the client, and what answers at all servers."""
        paths = [self.paths(planner, server) for server in self.servers]
        client = self.application(
            "incast",
            responder=planner.position + 1,
            servers=[both for both in paths for _ in range(self.connections)],
            tcp=self.tcp_settings(planner),
            start=self.start,
            reuse=self.reuse,
            **self.plain(),
        )
        return [client, self.responder(planner)]
