"""The settings of parts from outside: keys that only the part knows."""

from __future__ import annotations

import math
from typing import Any

from narrows.scenario.quantities import refuse
from narrows.scenario.rules import Faults


def settings(given: dict[str, Any] | None) -> list[dict[str, Any]]:
    """The plan's form: each setting as text, and as a number in base units if it is one."""
    return [
        {"key": key, "text": str(value), "number": _number(value)}
        for key, value in (given or {}).items()
    ]


def faults(given: dict[str, Any] | None) -> Faults:
    """Values that are neither text nor a number."""
    for key, value in (given or {}).items():
        if not isinstance(value, str | int | float | bool):
            yield refuse("is neither text nor a number", "write one value for each key", key)


def _number(value: object) -> float | None:
    """A number in base units: seconds, bytes, bit/s; None if it is text of another kind."""
    from narrows.scenario.amounts import DataRate, DataSize, Duration

    if isinstance(value, bool | int | float):
        return float(value) if math.isfinite(value) else None
    text = str(value)
    for quantity, per_unit in ((Duration, 1e12), (DataRate, 1.0), (DataSize, 1.0)):
        try:
            return quantity(text) / per_unit
        except ValueError:
            continue
    return None
