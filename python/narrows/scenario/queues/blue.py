"""Blue."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_serializer

from narrows.scenario.base import Table
from narrows.scenario.quantities import Probability, Span, bytes_text
from narrows.scenario.queues.fields import Limit, Switch

__all__ = ["Blue"]

Step = Annotated[Probability, Field(gt=0.0)]


class Blue(Table):
    """Blue (Feng, Shin, Kandlur, Saha 1999): the probability follows losses and idleness."""

    kind: Literal["blue"] = "blue"
    """Which discipline this is."""
    unit: Literal["packets", "bytes"] = "packets"
    """What `limit` and `threshold` count."""
    limit: Limit
    """What may wait: a number of packets, or a size."""
    threshold: Limit | None = None
    """A queue longer than this counts as a loss does (the paper's L): a number of packets, or a
    size. By default only losses count."""
    increment: Step = 0.02
    """What a loss adds to the probability (the paper's d1)."""
    decrement: Step = 0.002
    """What an idle link takes from it (d2)."""
    freeze: Span = 100 * 10**9
    """Shortest time between two changes of the probability (`freeze_time`)."""
    idle: Literal["repeated", "once"] = "repeated"
    """How often an idle link counts: once each `freeze`, or once when it becomes idle."""
    ecn: Switch = False
    """Marks packets of ECN-capable transports instead of dropping them."""

    @field_serializer("limit", "threshold", when_used="json")
    def _in_its_unit(self, value: int | None) -> int | str | None:
        return bytes_text(value) if self.unit == "bytes" and value is not None else value
