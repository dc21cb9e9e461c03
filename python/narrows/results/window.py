"""The window of time that a scenario declares for the metrics of its summary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from narrows.scenario.amounts import Duration


def declared_window(scenario: Mapping[str, Any]) -> tuple[float, float] | None:
    """The window's start and end in seconds; None if a scenario declares none.

    Args:
        scenario: A resolved scenario, as run.json has it.

    Raises:
        ValueError: It has something else where the window should be.
    """
    measure = scenario.get("measure")
    if measure is None:
        return None
    try:
        start, end = measure.get("from", "0 s"), measure.get("to", scenario["duration"])
        return Duration(str(start)).s, Duration(str(end)).s
    except (AttributeError, LookupError, TypeError) as error:
        raise ValueError(f"measure: {error}") from None
