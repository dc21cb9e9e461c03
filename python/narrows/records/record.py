"""What a kind of traffic records beyond the tables of every run, and how reports show it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from narrows.records.plotted import SHARES, Axis, Declaration, Series, Spans
from narrows.records.table import Table

if TYPE_CHECKING:
    import polars as pl

Direction = Literal["higher", "lower", ""]


@dataclass(frozen=True)
class Metric:
    """A metric of a summary."""

    key: str
    """Its name in the summary, with the unit, as in `rtt_median_ms`."""
    name: str
    """The name that people see."""
    unit: str = ""
    """The unit that people see."""
    scale: float = 1.0
    """The factor from the summary's unit to `unit`."""
    doc: str = ""
    """A sentence for docs/run-folder.md, if the name does not say everything."""
    range: tuple[float, float] | None = None
    """The lowest and highest possible value, if it is a score; axes show the whole scale."""
    better: Direction = ""
    """Whether a higher or a lower value is better; empty if neither is."""


@dataclass(frozen=True)
class Completed:
    """Metrics of completed items only, which lack the slowest items if the run ended too early."""

    begun: str
    """The key of the number of begun items; `completed` is the key of the number completed."""
    metrics: tuple[str, ...]
    """Keys of the metrics that leave out items that were not completed."""


@dataclass(frozen=True)
class Parts:
    """Metrics that parts of a table also have, such as the directions of calls."""

    column: str
    """The column that distinguishes the parts; each value is a key in the summary's section."""
    names: tuple[str, ...]
    """The column's values."""
    metrics: tuple[str, ...]
    """Keys of the metrics that people see for each part."""
    whole: str
    """The name of all parts together, such as `both directions`."""


@dataclass(frozen=True)
class Headline:
    """A metric that readers of the report look for first."""

    key: str
    """The key in the summary."""
    words: str
    """The text below the number."""


@dataclass(frozen=True)
class Plot:
    """A plot in the reports of runs and of comparisons."""

    name: str
    """The name of its files: lower case, digits and hyphens."""
    title: str
    x: str | Axis
    """The horizontal axis, or its label with the unit."""
    y: str | Axis
    """The vertical axis, which begins at zero if only its label is given."""
    caption: str
    """What readers should look for."""
    says: Callable[[Mapping[str, Any]], str | None]
    """Says from the summary's metrics what it shows, in one sentence with its main numbers, for
    readers who cannot see it. None means that there is nothing to draw."""
    series: tuple[Series, ...] = ()
    """Curves of a table. Those without a name of their own are of a run, or of each of its groups.
    """
    bars: Spans | None = None
    """Bars instead of curves."""
    single: bool = False
    """Whether it shows a single item of a run, which other seeds would only hide."""

    @property
    def declaration(self) -> Declaration:
        """The plot of all rows."""
        shares = any(series.shape == "cdf" for series in self.series)
        x, y = self.x, self.y
        if isinstance(x, str):
            x = Axis(x, ends=(0.0 if shares else None, None))
        if isinstance(y, str):
            y = Axis(y, ends=SHARES if shares else (0.0, None))
        return Declaration(
            self.name,
            self.title,
            x,
            y,
            self.series,
            bars=self.bars,
            caption=self.caption,
            height=3.2,
        )


@dataclass(frozen=True)
class Record:
    """A table that a kind of traffic adds, with its section in summaries and its metrics."""

    table: Table
    title: str
    """The title of its section, for people."""
    metrics: tuple[Metric, ...]
    summarise: Callable[[pl.DataFrame, float], Mapping[str, Any]]
    """Computes the section's metrics from one or more rows and the length in seconds of the time
    that they cover, which is the run or the declared window. If the
    table has a column `group` or `flow`, it does so for each group too. Keys that are not in
    `metrics` are only in the summary. A metric that the rows do not give is None."""
    headline: Headline | None = None
    completed: Completed | None = None
    parts: Parts | None = None
    plots: tuple[Plot, ...] = ()
    whole: bool = False
    """Whether the metrics always cover the whole run, as those of samples of a counter."""
