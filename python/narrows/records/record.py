"""What a kind of traffic records beyond the tables of every run, and how it is shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from narrows.records.table import Table

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes

__all__ = ["Completed", "Figure", "Headline", "Parts", "Pen", "Picture", "Record"]


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
    """From the summary's unit to this one."""
    doc: str = ""
    """One sentence for docs/run-folder.md, where the name does not say it all."""
    range: tuple[float, float] | None = None
    """Of a score: its lowest and highest possible value, which axes show in full."""


@dataclass(frozen=True)
class Completed:
    """Figures of what came to its end alone: without the slowest, where the run ended before."""

    begun: str
    """The key of how many were begun; `completed` is that of how many came to their end."""
    figures: tuple[str, ...]
    """Keys of the figures that leave out the others."""


@dataclass(frozen=True)
class Parts:
    """Figures that the parts of a table have too, as the directions of calls."""

    column: str
    """Tells the parts: each of its values is a key in the summary's section."""
    figures: tuple[str, ...]
    """Keys of the figures that people are shown of each part."""
    whole: str
    """What the section of all parts together says, as `both directions`."""


@dataclass(frozen=True)
class Headline:
    """A figure that readers of the report look for first."""

    key: str
    """In the summary."""
    words: str
    """What stands below the number."""


class Pen(Protocol):
    """Draws on the axes of one figure, in the report's style."""

    @property
    def axes(self) -> Axes:
        """Matplotlib's, for what the pen cannot do."""

    def cdf(self, label: str, values: Any, of: int | None = None) -> None:
        """A curve that says which share of `of` (or else of the values) is at most x.

        Args:
            label: Whose values they are; each label has a colour of its own.
            values: Numbers, in any order.
            of: More than there are values where some have none: the curve ends below 100 %.
        """

    def series(self, label: str, x: Any, y: Any) -> None:
        """A line through values over time; without a value it breaks."""

    def from_zero(self) -> None:
        """Lets the y axis begin at zero and end above all values."""


@dataclass(frozen=True)
class Picture:
    """A figure of the report of a run, and of that of a comparison."""

    name: str
    """Of its files: lower case, digits and hyphens."""
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
    """Draws the rows of one run or several, by what they are called."""


@dataclass(frozen=True)
class Record:
    """A table that a kind of traffic brings, its section in summaries, and its figures."""

    table: Table
    title: str
    """Of its section, for people."""
    figures: tuple[Figure, ...]
    summarise: Callable[[pl.DataFrame, float], Mapping[str, Any]]
    """The section's figures from rows, one or more, and the run's end in seconds; where the table
    has a column `group`, each group's too. Keys that are not in `figures` are in the summary alone.
    None stands for a figure that the rows do not give."""
    headline: Headline | None = None
    completed: Completed | None = None
    parts: Parts | None = None
    pictures: tuple[Picture, ...] = ()
