"""Bursts of data over TCP: what the kinds that send them share, and the record of each burst."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from narrows.records import Completed, Headline, Metric, Plot, Record, Series, declared_table
from narrows.scenario.draws import Amounts, draw
from narrows.scenario.traffic.connections import Connections

if TYPE_CHECKING:
    import polars as pl

    from narrows.scenario.planner import Planner


def _times(bursts: pl.DataFrame) -> pl.Series:
    """How long completed bursts took."""
    return (bursts.get_column("end_s") - bursts.get_column("start_s")).drop_nulls()


def _summarise(bursts: pl.DataFrame, _end_s: float) -> dict[str, Any]:
    from narrows.records.numbers import floats, mean, percentile, reached

    times = floats(_times(bursts))
    return {
        "bursts": bursts.height,
        "completed": len(times),
        "completion_mean_s": mean(times),
        "completion_p50_s": percentile(times, 0.5),
        "completion_p99_s": reached(times, 99),
    }


def _says(metrics: Mapping[str, Any]) -> str | None:
    if not metrics["completed"]:
        return None
    return (
        "Curve: half of the completed bursts took at most "
        f"{metrics['completion_p50_s']:.4g} s, 99 % of them {metrics['completion_p99_s']:.4g} s."
    )


BURSTS = Record(
    table=declared_table("bursts"),
    title="bursts",
    metrics=(
        Metric("bursts", "bursts", doc="Bursts that began."),
        Metric("completed", "completed", doc="Bursts that were acknowledged to the last byte."),
        Metric(
            "completion_mean_s",
            "completion time, mean",
            "s",
            doc="Time from `start_s` to `end_s`, mean; of completed bursts only, like the next "
            "two. The time of a connection's first burst includes the handshake, whichever end "
            "opens the connection.",
            better="lower",
        ),
        Metric("completion_p50_s", "completion time, median", "s", better="lower"),
        Metric("completion_p99_s", "completion time, 99 % within", "s", better="lower"),
    ),
    summarise=_summarise,
    headline=Headline("completion_mean_s", "mean burst completion"),
    completed=Completed("bursts", ("completion_mean_s", "completion_p50_s", "completion_p99_s")),
    plots=(
        Plot(
            "burst-cdf",
            title="Burst completion time, until all of it is acknowledged",
            x="completion time (s)",
            y="bursts completed\nwithin this time (%)",
            caption=(
                "Until the sender has the acknowledgement of a burst's last byte; a connection's "
                "first burst includes the handshake. A curve ends below 100 % where bursts were "
                "unfinished at the end. Each group has its own."
            ),
            says=_says,
            series=(Series("", "bursts", ("-", "end_s", "start_s"), shape="cdf"),),
        ),
    ),
)


class Bursts(Connections):
    """A group of TCP connections that send bursts, one after the other."""

    records: ClassVar[tuple[Record, ...]] = (BURSTS,)

    def lower_bursts(
        self, planner: Planner, *, burst: Amounts, idle: Amounts, bursts: int | None
    ) -> list[dict[str, Any]]:
        """One application, `on-off`.

        Args:
            planner: The plan so far.
            burst: Bytes of a burst.
            idle: Time from the acknowledgement of a burst to the start of the next.
            bursts: Bursts after which a connection closes; None: it stays open.
        """
        connections = self.lower_connections(planner)
        return [
            self.application(
                "on-off",
                connections=connections,
                burst=draw(burst),
                idle=draw(idle),
                bursts=bursts,
            )
        ]
