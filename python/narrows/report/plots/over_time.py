"""What plots over time have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from narrows.records.plotted import Axis, Expression, Extreme, Mark
from narrows.results import Run

TIME = Axis("time (s)", ends=(0.0, "end"))
"""The time of runs, from zero to the end of the longest."""


def events(runs: Sequence[Run]) -> tuple[Mark, ...]:
    """The window that the scenario declares, and when DNS started, in the first run."""
    first = runs[0]
    window = zip(first.window or (), ("measured from here", "to here"), strict=False)
    return (
        *(Mark("x", at, name, inside=True) for at, name in window),
        Mark("x", Extreme("min", "queries", "start_s"), "DNS starts", inside=True),
    )


def from_zero(label: str) -> Axis:
    """A y axis that begins at zero."""
    return Axis(label, ends=(0.0, None))


def total(columns: Mapping[str, str]) -> Expression:
    """The sum of columns."""
    first, *others = columns.values()
    expression: Expression = first
    for column in others:
        expression = ("+", expression, column)
    return expression
