"""What a kind of traffic records beyond the tables of every run, and how it is shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from narrows.records.table import Table

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes

__all__ = ["Completed", "Direction", "Figure", "Headline", "Parts", "Pen", "Picture", "Record"]


Direction = Literal["higher", "lower", ""]


@dataclass(frozen=True)
class Figure:
    """A figure of a summary."""

    key: str
    """Its name in the summary, with the unit, as in `rtt_median_ms`."""
    name: str
    """For people."""
    unit: str = ""
    """For people."""
    scale: float = 1.0
    """The factor from the summary's unit to `unit`."""
    doc: str = ""
    """A sentence for docs/run-folder.md, if the name does not say everything."""
    range: tuple[float, float] | None = None
    """The lowest and highest possible value, if it is a score; axes show all of the scale."""
    better: Direction = ""
    """Whether a higher or a lower value is better; empty if neither is."""


@dataclass(frozen=True)
class Completed:
    """Figures of completed items only, which lack the slowest if the run ended before they did."""

    begun: str
    """The key of how many were begun; `completed` is the key of how many were completed."""
    figures: tuple[str, ...]
    """Keys of the figures that leave out items that were not completed."""


@dataclass(frozen=True)
class Parts:
    """Figures that the parts of a table have too, such as the directions of calls."""

    column: str
    """The column that distinguishes the parts; each value is a key in the summary's section."""
    names: tuple[str, ...]
    """The column's values."""
    figures: tuple[str, ...]
    """Keys of the figures that people see for each part."""
    whole: str
    """The name of all parts together, such as `both directions`."""


@dataclass(frozen=True)
class Headline:
    """A figure that readers of the report look for first."""

    key: str
    """The key in the summary."""
    words: str
    """The text below the number."""


class Pen(Protocol):
    """Draws on the axes of one figure, in the report's style."""

    @property
    def axes(self) -> Axes:
        """Matplotlib's axes, for what the pen cannot do."""

    def cdf(self, label: str, values: Any, of: int | None = None) -> None:
        """A curve that says which share of `of` (or else of the values) is at most x.

        Args:
            label: Whose values they are; each label has a colour of its own.
            values: Numbers, in any order.
            of: The number of items, if some have no value: the curve then ends below 100 %.
        """

    def series(self, label: str, x: Any, y: Any) -> None:
        """A line through values over time; without a value it breaks."""

    def from_zero(self) -> None:
        """Lets the y axis begin at zero and end above all values."""


@dataclass(frozen=True)
class Picture:
    """A figure in the report of a run and in that of a comparison."""

    name: str
    """The name of its files: lower case, digits and hyphens."""
    title: str
    x: str
    """Label of the horizontal axis, with its unit."""
    y: str
    caption: str
    """What to look for."""
    says: Callable[[Mapping[str, Any]], str | None]
    """From the summary's figures: what it shows, in one sentence with its main numbers, for those
    who do not see it. None: there is nothing to draw."""
    draw: Callable[[Pen, Mapping[str, pl.DataFrame]], None]
    """Draws the rows of one run or several, by their labels."""
    single: bool = False
    """Whether it shows a single thing of a run, so that other seeds would only hide it."""


@dataclass(frozen=True)
class Record:
    """A table that a kind of traffic brings, its section in summaries, and its figures."""

    table: Table
    title: str
    """The title of its section, for people."""
    figures: tuple[Figure, ...]
    summarise: Callable[[pl.DataFrame, float], Mapping[str, Any]]
    """The section's figures from rows, one or more, and the run's end in seconds; where the table
    has a column `group`, or `flow`, each group's too. Keys that are not in `figures` are in the
    summary alone. None stands for a figure that the rows do not give."""
    headline: Headline | None = None
    completed: Completed | None = None
    parts: Parts | None = None
    pictures: tuple[Picture, ...] = ()
