"""RED as in the paper of 1993 and in ns-2."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_serializer, model_validator

from narrows.scenario.base import Table
from narrows.scenario.quantities import (
    PositiveBytes,
    PositiveSpan,
    Probability,
    Rate,
    bytes_text,
    refuse,
)
from narrows.scenario.queues.fields import Limit, Threshold

__all__ = ["Adaptive", "Red1993"]

Fraction = Annotated[Probability, Field(gt=0.0)]


class Adaptive(Table):
    """How Adaptive RED (Floyd, Gummadi, Shenker 2001) changes `max_p`; `true` is these defaults."""

    interval: PositiveSpan = 500 * 10**9
    """Least time between changes."""
    alpha: Fraction = 0.01
    """Added to `max_p` while the average is above its target, but at most a quarter of `max_p`."""
    beta: Fraction = 0.9
    """What `max_p` is multiplied by while the average is below its target."""
    top: Fraction = 0.5
    """Above it `max_p` does not grow."""
    bottom: Fraction = 0.01
    """Below it `max_p` does not shrink."""


DEFAULT_ADAPTIVE = Adaptive()


def _named_adaptive(value: Any) -> Any:
    if value is True:
        return DEFAULT_ADAPTIVE
    return None if value is False else value


class Red1993(Table):
    """RED as in the paper of 1993 and in ns-2: thresholds in packets or bytes, weight given."""

    kind: Literal["red-1993"] = "red-1993"
    """Which discipline this is."""
    unit: Literal["packets", "bytes"] = "packets"
    """What `limit`, `min` and `max` count."""
    mean_packet: PositiveBytes = 500
    """Average packet size, by which byte mode scales the probability (ns-2: 500)."""
    limit: Limit
    """Hard limit of the real queue: a number of packets, or a size."""
    min: Threshold
    """Average at which marking or dropping starts: packets, or a size."""
    max: Threshold
    """Average above which every packet is marked or dropped: packets, or a size."""
    weight: Annotated[Probability, Field(gt=0.0)] = 0.002
    """Weight of a new sample in the average (the paper's w_q)."""
    max_p: Annotated[Probability, Field(gt=0.0)] = 0.1
    """Probability of marking or dropping when the average reaches `max`."""
    gentle: bool = Field(default=False, strict=True)
    """Lets the probability rise from `max_p` to 1 between `max` and twice `max`."""
    wait: bool = Field(default=False, strict=True)
    """Spaces drops 1/p to 2/p packets apart (ns-2's default) instead of 1 to 1/p (the paper)."""
    ecn: bool = Field(default=False, strict=True)
    """Marks packets of ECN-capable transports where it would drop them early."""
    mark_above_max: bool = Field(default=False, strict=True)
    """Marks above `max` too (Linux does, ns-2 drops)."""
    adaptive: Annotated[Adaptive | None, BeforeValidator(_named_adaptive)] = None
    """Adapts `max_p`, so that the average stays half-way between `min` and `max`: true, or a table;
    false by default."""
    bandwidth: Rate | None = None
    """Rate by which the average decays while the queue is idle; the link's by default."""

    @field_serializer("limit", "min", "max", when_used="json")
    def _in_its_unit(self, value: float) -> float | str:
        return bytes_text(int(value)) if self.unit == "bytes" else value

    @model_validator(mode="after")
    def _is_possible(self) -> Red1993:
        if self.min >= self.max:
            raise refuse(
                f"{self.min:g} is not below max ({self.max:g})", "exchange or mend them", "min"
            )
        return self
