"""Bursts, with idle times between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from narrows.scenario.declared import DeclaredTable
from narrows.scenario.draws import Pauses, Sizes, SpanDistribution
from narrows.scenario.quantities import Span, refuse
from narrows.scenario.rules import Faults, rule
from narrows.scenario.traffic.bursts import Bursts

if TYPE_CHECKING:
    from narrows.scenario.planner import Planner


class OnOff(DeclaredTable, Bursts, declares="OnOff", without=("connections",)):
    """Bursts, with idle times from the acknowledgement of one to the start of the next."""

    kind: Literal["on-off"] = "on-off"
    """Which kind of traffic this is."""
    burst: Sizes
    """Bytes of a burst: a size, a list that starts again at its end, or a distribution such as
    `{ distribution = "pareto", mean = "100 kB", shape = 1.5 }`."""
    idle_mean: Span | None = None
    """Mean of an exponentially distributed idle time. Give this or `idle`."""
    idle: Pauses | None = None
    """The idle time: a duration, a list that starts again at its end, or a distribution such as
    `{ distribution = "pareto", mean = "2 s", shape = 1.5 }`."""

    @rule
    def _has_one_idle_time(self) -> Faults:
        if (self.idle is None) == (self.idle_mean is None):
            said = "is missing" if self.idle is None else "excludes idle_mean"
            yield refuse(said, 'idle_mean = "2 s" is exponential', "idle")

    @property
    def pauses(self) -> int | SpanDistribution | tuple[int, ...]:
        """The idle time in effect."""
        if self.idle is not None:
            return self.idle
        assert self.idle_mean is not None, "the validator requires one of the two"
        return SpanDistribution(distribution="exponential", mean=str(self.idle_mean), shape=None)

    def lower(self, planner: Planner) -> list[dict[str, Any]]:
        """Bursts as they are given."""
        return self.lower_bursts(planner, burst=self.burst, idle=self.pauses, bursts=self.bursts)
