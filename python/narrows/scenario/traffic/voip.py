"""VoIP: telephone calls, and how they sound by the E-model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from narrows.records import Axis, Headline, Metric, Parts, Plot, Record, Series, declared_table
from narrows.scenario.amounts import MILLISECOND
from narrows.scenario.declared import DeclaredTable
from narrows.scenario.draws import Pauses, SpanDistribution, draw
from narrows.scenario.quantities import refuse
from narrows.scenario.rules import Faults, known, rule
from narrows.scenario.traffic.base import Amount, Countable
from narrows.scenario.traffic.streams import Datagrams

if TYPE_CHECKING:
    import polars as pl

    from narrows.scenario.planner import Planner

CALLS = Countable("call", "calls", 100_000)


def _p_59(mean: str) -> SpanDistribution:
    return SpanDistribution(distribution="exponential", mean=mean, shape=None)


def _summarise(rows: pl.DataFrame, _end_s: float) -> dict[str, Any]:
    import polars as pl

    from narrows.records.numbers import floats, mean, percent, percentile

    def total(name: str) -> int:
        return int(rows.get_column(name).cast(pl.UInt64).sum())

    scores = floats(rows.get_column("mos"))
    received, lost, late = (total(f"{what}_packets") for what in ("received", "lost", "late"))
    return {
        "calls": rows.select("group", "call").n_unique(),
        "sent_packets": total("sent_packets"),
        "lost_percent": percent(lost, lost + received),
        "late_percent": percent(late, lost + received),
        "delay_mean_ms": mean(floats(rows.get_column("delay_mean_ms"))),
        "jitter_mean_ms": mean(floats(rows.get_column("jitter_mean_ms"))),
        "mouth_to_ear_mean_ms": mean(floats(rows.get_column("mouth_to_ear_ms"))),
        "r_mean": mean(floats(rows.get_column("r"))),
        "mos_mean": mean(scores),
        "mos_p5": percentile(scores, 0.05),
    }


def _says(metrics: Mapping[str, Any]) -> str | None:
    if metrics["mos_mean"] is None:
        return None
    return (
        f"Curve: the mean opinion score is {metrics['mos_mean']:.3g} on average, and 5 % of the "
        f"directions of calls have at most {metrics['mos_p5']:.3g}."
    )


VOIP = Record(
    table=declared_table("voip"),
    title="calls",
    metrics=(
        Metric("calls", "calls"),
        Metric("sent_packets", "sent", "packets"),
        Metric("lost_percent", "lost in the network", "%", better="lower"),
        Metric("late_percent", "too late to be heard", "%", better="lower"),
        Metric(
            "delay_mean_ms",
            "one-way delay in the network, mean",
            "ms",
            doc="One-way delay in the network, mean over both directions, like the means below.",
            better="lower",
        ),
        Metric("jitter_mean_ms", "jitter, mean", "ms", better="lower"),
        Metric("mouth_to_ear_mean_ms", "delay from mouth to ear, mean", "ms", better="lower"),
        Metric("r_mean", "rating R, mean", better="higher"),
        Metric("mos_mean", "mean opinion score, mean", range=(1.0, 4.5), better="higher"),
        Metric(
            "mos_p5",
            "mean opinion score, that 5 % have at most",
            range=(1.0, 4.5),
            doc="Mean opinion score that 5 % of the directions have at most, interpolated.",
            better="higher",
        ),
    ),
    summarise=_summarise,
    headline=Headline("mos_mean", "mean opinion score of calls"),
    parts=Parts(
        "direction",
        ("there", "back"),
        ("late_percent", "delay_mean_ms", "mouth_to_ear_mean_ms", "mos_mean", "mos_p5"),
        whole="both directions",
    ),
    plots=(
        Plot(
            "voip-mos",
            title="Mean opinion score of calls, by the E-model",
            x=Axis("mean opinion score (1 bad, 4.4 as good as G.711 gets)", ends=(1.0, 4.6)),
            y="directions of calls\nwith at most it (%)",
            caption=(
                "Each direction of a call counts once. Above 4.03 (R = 80) users are satisfied, "
                "below 3.1 (R = 60) nearly all are not (ITU-T G.107, Annex B)."
            ),
            says=_says,
            series=(Series("", "voip", "mos", shape="cdf", of="known"),),
        ),
    ),
)


class Voip(DeclaredTable, Datagrams, declares="Voip", without=("calls", "talk")):
    """Telephone calls: speech in both directions, and an estimate of its quality (ITU-T G.107)."""

    countables: ClassVar[tuple[Countable, ...]] = (CALLS,)
    records: ClassVar[tuple[Record, ...]] = (VOIP,)

    kind: Literal["voip"] = "voip"
    """Which kind of traffic this is."""
    calls: Annotated[int, Field(strict=True, ge=1, le=100_000)] = 1
    """Calls for each pair."""
    talk: Literal["spurts", "constant"] = "spurts"
    """When somebody speaks: in spurts, with nothing sent in the pauses, or all the time."""
    spurt: Pauses | None = None
    """Length of a talk spurt; exponential with a mean of 1.004 s by default (ITU-T P.59)."""
    pause: Pauses | None = None
    """Length of a pause; exponential with a mean of 1.587 s by default (ITU-T P.59)."""

    @rule
    def _packets_hold_whole_frames(self) -> Faults:
        if self.packet_time % (10 * MILLISECOND):
            yield refuse(
                "is not a multiple of 10 ms up to 100 ms", 'such as "20 ms"', "packet_time"
            )

    @rule
    def _spurts_are_talk(self) -> Faults:
        if self.talk == "constant":
            for key in ("spurt", "pause"):
                if known(self, key) is not None:
                    yield refuse('is only for talk = "spurts"', "leave it out, or change talk", key)
            if self.playout == "adaptive":
                yield refuse(
                    "adapts between talk spurts, but there are none",
                    'give a time such as "60 ms", or talk = "spurts"',
                    "playout",
                )

    @property
    def each(self) -> int:
        """Calls for each pair."""
        return self.calls

    def amounts(self) -> Iterator[Amount]:
        """Its calls."""
        yield Amount(self.total, CALLS, "calls")

    def lower(self, planner: Planner) -> list[dict[str, Any]]:
        """One application, `voip`."""
        talk = None
        if self.talk == "spurts":
            spurt = _p_59("1004 ms") if self.spurt is None else self.spurt
            pause = _p_59("1587 ms") if self.pause is None else self.pause
            talk = {"spurt": draw(spurt), "pause": draw(pause)}
        return [
            self.application(
                "voip",
                calls=self.lower_flows(planner),
                talk=talk,
                **self.plain(),
            )
        ]
