"""UDP at a rate: constant, Poisson, or on and off."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from narrows.scenario.amounts import SECOND, DataSize
from narrows.scenario.declared import Declared, DeclaredTable
from narrows.scenario.draws import Pauses, SpanDistribution, draw
from narrows.scenario.quantities import refuse
from narrows.scenario.rules import Faults, rule
from narrows.scenario.traffic.streams import Streams

if TYPE_CHECKING:
    from narrows.scenario.planner import Planner


class Udp(DeclaredTable, Streams, declares="Udp", without=("streams", "packet_bytes", "on_off")):
    """Datagrams that nobody answers, at a rate: constant, Poisson, or on and off."""

    kind: Literal["udp"] = "udp"
    """Which kind of traffic this is."""
    packet: Annotated[DataSize, Declared("Udp", "packet_bytes")] = DataSize("1500 B")
    """Length of an IP packet; `"1500 B"` by default. If a link takes less, the packet goes in
    fragments."""
    on: Pauses | None = None
    """How long a stream is on, such as `{ distribution = "exponential", mean = "1 s" }`; it goes
    with `off`. Without both, a stream is always on."""
    off: Pauses | None = None
    """How long it is off. The wait for the next packet pauses then, and continues in the next on
    time."""

    @rule
    def _has_both_times(self) -> Faults:
        if (self.on is None) != (self.off is None):
            yield refuse("is missing", "on and off go together", "on" if self.on is None else "off")

    @rule
    def _is_on_long_enough(self) -> Faults:
        # The simulator goes through all on times between two packets.
        gap = 8 * self.packet * SECOND // self.rate
        if self.on is not None and 1000 * _least(self.on) < max(gap, 1):
            yield refuse(
                "is below a thousandth of the time between packets",
                "make it longer, or raise rate",
                "on",
            )

    def lower(self, planner: Planner) -> list[dict[str, Any]]:
        """One application, `udp`."""
        both = None
        if self.on is not None and self.off is not None:
            both = {"on": draw(self.on), "off": draw(self.off)}
        return [
            self.application(
                "udp",
                streams=self.lower_flows(planner),
                packet_bytes=self.packet,
                on_off=both,
                **self.plain(),
            )
        ]


def _least(times: int | SpanDistribution | tuple[int, ...]) -> int:
    """The shortest of listed times, or the mean of drawn ones."""
    if isinstance(times, int):
        return times
    return min(times) if isinstance(times, tuple) else times.mean
