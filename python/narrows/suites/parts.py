"""What a suite is made of: scenes that run, metrics, and parts of the report that show them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True)
class Metric:
    """A number that each run of a scene has."""

    title: str
    """Its name in tables; short."""
    unit: str = ""
    digits: int = 1
    low: float = 0.0
    high: float = math.inf
    """The least and the largest possible value."""

    @property
    def head(self) -> str:
        """Title and unit."""
        return f"{self.title}, {self.unit}" if self.unit else self.title


@dataclass(frozen=True)
class Scene:
    """A scenario that runs with each queue and seed."""

    key: str
    """Its name within the suite, of its folder, and of its scenario."""
    scenario: Mapping[str, Any]
    """In TOML's types; its queues under test are replaced."""
    places: tuple[str, ...] = ("links.bottleneck.forward.queue",)
    """The keys of its queues under test, all of which get the same queue."""


@dataclass(frozen=True)
class Column:
    """A metric of a scene as a column of a part's table."""

    scene: str
    metric: str
    title: str = ""
    """What to call it, if not the metric's own title."""


def columns(scene: str, *metrics: str) -> tuple[Column, ...]:
    """Columns with the metrics' own titles."""
    return tuple(Column(scene, metric) for metric in metrics)


Plot = Literal["trade-off", "over-time"]


@dataclass(frozen=True)
class Part:
    """A part of the report: what a section asks, what runs, and the columns of its table."""

    number: str
    """The section's number or the test's name."""
    title: str
    asks: str
    """What the section asks for, in our words."""
    chosen: str
    """What it leaves open, and what runs here."""
    columns: tuple[Column, ...] = ()
    telling: tuple[str, ...] = ()
    """Metrics, as `scene.metric`, about which the report says what is seen; first comes best."""
    plots: Mapping[str, Plot] = field(default_factory=dict)
    """Kinds of plots by scene."""

    @property
    def heading(self) -> str:
        """`5.2 Aggressive transport sender`, `alone: Does one fill the line?`."""
        return f"{self.number}{'' if self.number[:1].isdigit() else ':'} {self.title}"

    @property
    def scenes(self) -> list[str]:
        """The keys of its scenes."""
        return list(dict.fromkeys(column.scene for column in self.columns))


@dataclass(frozen=True)
class Suite:
    """Scenes, and the parts that show their metrics."""

    name: str
    """Its name on the command line."""
    title: str
    lead: str
    """What it is and where it comes from, in a sentence or two."""
    scenes: Sequence[Scene]
    parts: Sequence[Part]
    metrics: Mapping[str, Metric]
    measure: str
    """`MODULE:FUNCTION` that measures a run, for `narrows.sweep`."""
    left_out: Sequence[str] = ()
    """What the source asks for and the suite does not run, with the reason; a sentence each."""

    def metric(self, column: Column) -> Metric:
        """The metric of a column."""
        return self.metrics[column.metric]

    def head(self, column: Column) -> str:
        """The head of a column."""
        known = self.metric(column)
        if not column.title:
            return known.head
        return f"{column.title}, {known.unit}" if known.unit else column.title
