"""Plots as declarations: which columns of a run's tables they show, and how.

A declaration is plain data. `document` turns it into JSON, which Python (`narrows.report.evaluate`)
and browsers (`report/evaluate.js`) evaluate against a run's tables; the result is a drawing
(`narrows.report.drawing`). docs/plots.md explains both formats.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Literal

Expression = str | float | tuple[Any, ...]
"""A value for each row: a column, a number, or an operation on expressions.

Operations are `("+", a, b)`, `("-", a, b)`, `("*", a, b)` and `("/", a, b)`; `("end",)`, the time
at which the run ended, in seconds; `("place", column, names)`, the position of a column's text
among names; and, in a series with `by`, `("sum", a)`, `("max", a)` and `("mean", a)` over rows,
which leave out what is missing.
"""

Where = Mapping[str, str | float | bool]
"""The value that each of these columns has in the rows that count. The column `group` of a table
that names connections (`flow`) instead is the connection's group."""

Shape = Literal["line", "before", "after", "points", "area", "cdf"]
"""How points are drawn. `before`: as steps, each value holds since the point before; `after`: until
the next point; `area`: a line with what is below it filled; `cdf`: the share of the rows whose
value is at most x, in percent."""

Color = str
"""`ink`, `muted`, `blue`, `vermilion`, `green`, `purple`, `orange`, `sky`, or empty for the next of
the cycle (in the order of these names, from `blue` on)."""


@dataclass(frozen=True)
class Extreme:
    """The least or the largest value of an expression over a table's rows."""

    of: Literal["min", "max"]
    table: str
    value: Expression
    where: Where | None = None


@dataclass(frozen=True)
class Axis:
    """An axis."""

    label: str
    """Its name, with the unit in parentheses at the end."""
    ends: tuple[float | None, float | Literal["end"] | None] = (None, None)
    """Where it begins and ends; None: where the data do, with a margin; `end`: where the longest
    run does."""
    log: bool | Literal["auto"] = False
    """Whether it is logarithmic; `auto`: from three times the least value on."""
    ticks: Sequence[tuple[float, str]] = ()
    """Places with names, instead of numbers."""
    linear_to: float | None = None
    """An axis that is linear up to this value on both sides of zero, and logarithmic beyond."""
    mixed: bool = False
    """Whether values are times in milliseconds that are shown in seconds from 1000 ms on."""


SHARES = (0.0, 104.0)
"""The ends of the y axis of distributions, in percent."""


@dataclass(frozen=True)
class Counter:
    """Turns the running total `y` into rates per second: between samples, or in equal slots."""

    least_s: float | Extreme = 0.0
    """Intervals between samples are joined until they last this long."""
    most: int | None = None
    """The most intervals."""
    slot_s: float | None = None
    """The length of the slots, between whose ends the total is interpolated."""
    kept: float = 0.0
    """The weight of the old value, where slots are smoothed: V(n) = kept V(n-1) + (1 - kept) P(n).
    """
    from_zero: bool = True
    """Whether the total is zero at time zero; otherwise it has the first sample's value there."""


@dataclass(frozen=True)
class Means:
    """Averages of neighbouring samples, which join as in `Counter`."""

    least_s: float | Extreme
    most: int


@dataclass(frozen=True)
class Series:
    """One curve, or one for each combination of the values of some columns."""

    label: str
    """Its name. With `each`, `{column}` stands for a column's value."""
    table: str
    x: Expression
    """Of a CDF: the values whose distribution it shows."""
    y: Expression = 0.0
    where: Where | None = None
    shape: Shape = "line"
    color: Color = ""
    by: bool = False
    """Whether rows with the same x become one point, whose y is an aggregate."""
    each: tuple[str, ...] = ()
    """Columns of whose values each combination has a curve."""
    change: Counter | Means | None = None
    """What is done to the points before they are drawn."""
    of: Literal["all", "known"] = "all"
    """The rows of which a CDF shows the share: all, or those that have a value."""
    open: tuple[str, Expression] | None = None
    """Of a CDF: if this column is missing too, the row waits for its value and has done so for the
    time in the expression. It then counts for as long as it waited (Kaplan and Meier 1958)."""
    omit: Literal["zero", "missing"] | None = None
    """The series is left out where all values are zero or missing, or all are missing."""
    several: bool = True
    """Whether it is drawn if several cases are compared."""
    width: float = 1.4
    """In points."""
    seed: bool = False
    """Whether it goes thinly behind the series before it, without a name."""


@dataclass(frozen=True)
class Points:
    """A curve whose points are known when it is declared, such as a link's rate."""

    label: str
    x: Sequence[float | Literal["end"]]
    """`end` stands for the end of the longest run."""
    y: Sequence[float]
    shape: Shape = "line"
    color: Color = ""
    width: float = 1.4
    dash: bool = False
    margin: str = ""
    """Its name in the margin beside its last point, instead of one in the legend."""


@dataclass(frozen=True)
class Mark:
    """A level (on the y axis) or an event (on the x axis)."""

    axis: Literal["x", "y"]
    at: float | Extreme
    name: str
    color: Color = "muted"
    dash: bool = False
    upright: bool = False
    """Whether the name of an event is turned by 90 degrees."""
    most: float | None = None
    """A level above this many times the highest value is left out."""
    inside: bool = False
    """Whether an event is left out that is not within the axis's ends, or within the data where
    the axis has none."""
    unit: str = ""
    """A level's unit: the name then goes on with its value."""
    per_s: float = 0.0
    """How much of the unit leaves in a second: the name then says how long the level lasts."""


@dataclass(frozen=True)
class Spans:
    """Bars over time: a row's way from moment to moment, thin at first and then thick.

    They show the rows that have the same `same` as the row whose first moment is the earliest.
    """

    table: str
    name: str
    """The column with the bars' names."""
    moments: tuple[str, str, str]
    """Columns: when it begins, when it becomes thick, when it ends. Rows without the second have no
    bar; those without the third have one up to the last of all."""
    same: tuple[str, ...]
    whose: str
    """What the shown rows have in common, for a note beside the title; `{column}` as in labels."""
    where: Where | None = None


@dataclass(frozen=True)
class Shares:
    """Bars of how often a number occurs in a column, in percent of the rows."""

    table: str
    value: str
    """The column; it counts from 1, and 0 stands for none."""
    name: str
    """The name of a bar; `{value}` stands for the number."""
    none: str
    """The name of the bar of those with 0."""
    where: Where | None = None
    done: str = ""
    """Rows in which this column is missing do not count."""
    each: str = ""
    """A column of whose values each has bars of its own; empty for none."""
    interval: str = ""
    """What the legend says of the 95 % interval of the first bar's share (Wilson 1927)."""


@dataclass(frozen=True)
class Declaration:
    """A plot of one run, or of several cases."""

    name: str
    """The name of its files: lower case, digits and hyphens."""
    title: str
    x: Axis
    y: Axis
    series: tuple[Series | Points, ...] = ()
    marks: tuple[Mark, ...] = ()
    bars: Spans | Shares | None = None
    caption: str = ""
    """What readers should look for."""
    alt: str = ""
    """What it shows, in one sentence with its main numbers, for readers who cannot see it."""
    height: float = 3.4
    """On paper, in inches."""

    def document(self) -> dict[str, Any]:
        """The declaration as JSON values."""
        found: dict[str, Any] = _json(self)
        return found


def _json(value: Any) -> Any:
    """A value as JSON; what has its default is left out."""
    if is_dataclass(value):
        named = {each.name: getattr(value, each.name) for each in fields(value)}
        kinds = {
            Points: "points",
            Counter: "counter",
            Means: "means",
            Spans: "spans",
            Shares: "shares",
        }
        kind = {"kind": kinds[type(value)]} if type(value) in kinds else {}
        given = {each.name: each.default for each in fields(value)}
        return kind | {k: _json(v) for k, v in named.items() if v != given[k]}
    if isinstance(value, Mapping):
        return {key: _json(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json(each) for each in value]
    return value
