"""Ping: probes along any path, and their round-trip times."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from narrows.records import Headline, Metric, Plot, Record, Series, declared_table
from narrows.scenario.amounts import DataSize
from narrows.scenario.declared import Declared, DeclaredTable
from narrows.scenario.traffic.base import Amount, Countable
from narrows.scenario.traffic.streams import Datagrams

if TYPE_CHECKING:
    import polars as pl

    from narrows.scenario.planner import Planner

PROBERS = Countable("prober", "probers", 100_000)
PROBES = Countable("probe", "probes", 10_000_000, "recorded")


def _summarise(rows: pl.DataFrame, _end_s: float) -> dict[str, Any]:
    from narrows.records.numbers import floats, mean, percent, percentile, reached

    times = floats(rows.get_column("rtt_ms"))
    fates = rows.get_column("fate")
    lost = int(fates.is_in(["probe-lost", "answer-lost"]).sum())
    return {
        "probes": rows.height,
        "answered": len(times),
        "lost_percent": percent(lost, lost + len(times)),
        "rtt_min_ms": float(times.min()) if len(times) else None,
        "rtt_mean_ms": mean(times),
        "rtt_median_ms": percentile(times, 0.5),
        "rtt_p99_ms": reached(times, 99),
        "rtt_max_ms": float(times.max()) if len(times) else None,
    }


def _says(metrics: Mapping[str, Any]) -> str | None:
    if not metrics["answered"]:
        return None
    return (
        f"Curve: round trips took from {metrics['rtt_min_ms']:.4g} ms, half of them at most "
        f"{metrics['rtt_median_ms']:.4g} ms and 99 % at most {metrics['rtt_p99_ms']:.4g} ms; "
        f"{metrics['lost_percent']:.3g} % of the probes were lost."
    )


def _says_times(metrics: Mapping[str, Any]) -> str | None:
    if not metrics["answered"]:
        return None
    return (
        f"Line over time: round trips between {metrics['rtt_min_ms']:.4g} and "
        f"{metrics['rtt_max_ms']:.4g} ms."
    )


PINGS = Record(
    table=declared_table("pings"),
    title="probes",
    metrics=(
        Metric("probes", "probes"),
        Metric("answered", "answered"),
        Metric(
            "lost_percent",
            "lost",
            "%",
            doc="Share of lost probes and answers among the probes whose end is known.",
            better="lower",
        ),
        Metric("rtt_min_ms", "round-trip time, shortest", "ms", better="lower"),
        Metric("rtt_mean_ms", "round-trip time, mean", "ms", better="lower"),
        Metric("rtt_median_ms", "round-trip time, median", "ms", better="lower"),
        Metric("rtt_p99_ms", "round-trip time, 99 % within", "ms", better="lower"),
        Metric("rtt_max_ms", "round-trip time, longest", "ms", better="lower"),
    ),
    summarise=_summarise,
    headline=Headline("rtt_median_ms", "round trip of a probe, median"),
    plots=(
        Plot(
            "ping-time",
            title="Round-trip time of probes",
            x="sent at (s)",
            y="round-trip time (ms)",
            caption="A point a probe; the line breaks where one was lost.",
            says=_says_times,
            series=(Series("", "pings", "sent_s", "rtt_ms"),),
        ),
        Plot(
            "ping-cdf",
            title="How many probes were answered within a time",
            x="round-trip time (ms)",
            y="probes answered\nwithin this time (%)",
            caption=(
                "The left end is the path's own time, and what lies to the right of it is waiting. "
                "The curve ends below 100 % where probes or answers were lost."
            ),
            says=_says,
            series=(Series("", "pings", "rtt_ms", shape="cdf"),),
        ),
    ),
)


class Ping(DeclaredTable, Datagrams, declares="Ping", without=("streams", "packet_bytes")):
    """Probes that are answered at once by packets of the same size, as ping(8) sends them."""

    countables: ClassVar[tuple[Countable, ...]] = (PROBERS,)
    records: ClassVar[tuple[Record, ...]] = (PINGS,)

    kind: Literal["ping"] = "ping"
    """Which kind of traffic this is."""
    packet: Annotated[DataSize, Declared("Ping", "packet_bytes")] = DataSize("84 B")
    """Length of the IP packet of a probe, and of its answer; by default ping's `"84 B"`."""

    @property
    def each(self) -> int:
        """One prober for each pair."""
        return 1

    def amounts(self) -> Iterator[Amount]:
        """Its probers."""
        yield Amount(self.total, PROBERS, "pairs")

    def recorded(self, duration: int) -> Iterator[Amount]:
        """A row for each probe."""
        probes = self.lifetime(duration) // self.interval + 1
        if self.probes is not None:
            probes = min(probes, self.probes)
        yield Amount(self.total * probes, PROBES, "interval", "")

    def lower(self, planner: Planner) -> list[dict[str, Any]]:
        """One application, `ping`."""
        return [
            self.application(
                "ping",
                streams=self.lower_flows(planner),
                packet_bytes=self.packet,
                **self.plain(),
            )
        ]
