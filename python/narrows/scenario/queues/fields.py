"""Types of values that several disciplines take."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationInfo, WithJsonSchema

from narrows.scenario.quantities import read_size, refuse

__all__ = ["Packets", "in_unit"]

Packets = Annotated[int, Field(strict=True, ge=1, le=10_000_000)]


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


def in_unit(number: Any) -> Any:
    """A number of packets or a size, depending on the field `unit` before it."""
    schema = {"type": ["number", "string"], "title": "number of packets, or size"}
    return Annotated[number, BeforeValidator(_read_threshold), WithJsonSchema(schema)]
