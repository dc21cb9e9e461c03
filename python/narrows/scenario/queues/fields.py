"""Values that several disciplines take."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationInfo, WithJsonSchema

from narrows.scenario.quantities import read_size, refuse

__all__ = ["Limit", "Packets", "Switch", "Threshold"]

Packets = Annotated[int, Field(strict=True, ge=1, le=10_000_000)]
Switch = Annotated[bool, Field(strict=True)]


def _read_threshold(value: Any, info: ValidationInfo) -> Any:
    """A number where the queue counts packets, a size where it counts bytes."""
    unit = info.data.get("unit")
    if unit == "packets" and isinstance(value, bool):
        raise refuse("is a Boolean, not a number")
    if unit == "packets" and isinstance(value, str):
        raise refuse('is text where unit is "packets"', "write a number, or set unit to bytes")
    if unit == "bytes":
        return read_size(value)
    return value


_IN_UNIT = WithJsonSchema({"type": ["number", "string"], "title": "number of packets, or size"})

Limit = Annotated[int, BeforeValidator(_read_threshold), Field(ge=1, le=2**32 - 1), _IN_UNIT]
"""A whole number of packets, or a size, as the field `unit` before it says."""

Threshold = Annotated[float, BeforeValidator(_read_threshold), Field(gt=0, le=2**32 - 1), _IN_UNIT]
"""A number of packets, or a size, as the field `unit` before it says."""
