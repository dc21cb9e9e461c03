"""One run of a sweep, and the keys that a sweep varies."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

VARIANT = "variant"
"""The key of the axis of named variants."""


@dataclass(frozen=True)
class Axis:
    """A key of the scenario and the values that it takes, or variants that set several keys."""

    key: str
    """`variant` for variants."""
    values: tuple[Any, ...]
    """The values in TOML's types, or the names of variants."""
    sets: Mapping[str, Mapping[str, Any]] | None = None
    """The values that each variant sets, by its name and by key; None for the axis of a key."""

    @classmethod
    def of_document(cls, axis: Mapping[str, Any]) -> Axis:
        """Makes the axis from the JSON values of `document`."""
        return cls(axis["key"], tuple(axis["values"]), axis.get("sets"))

    def document(self) -> dict[str, Any]:
        """The axis as JSON values."""
        sets = {} if self.sets is None else {"sets": self.sets}
        return {"key": self.key, "values": list(self.values), **sets}

    def settings(self, place: int) -> Mapping[str, Any]:
        """The scenario's keys that the value at an index sets, with their values."""
        value = self.values[place]
        return {self.key: value} if self.sets is None else self.sets[value]

    @cached_property
    def places(self) -> Mapping[str, int]:
        """Each value's index, by its JSON text."""
        return {canonical(value): place for place, value in enumerate(self.values)}


@dataclass(frozen=True)
class SweepRun:
    """One run of a sweep: its place in the sweep, how it ended, and its metrics."""

    run: str
    """The digest of the resolved scenario, the seed, the backend and the version."""
    settings: Mapping[str, Any]
    """The varied keys' values."""
    seed: int
    status: Literal["complete", "partial", "failed"]
    stopped: str
    """Why it ended, as in run.json; empty if it failed."""
    message: str
    """What went wrong; empty if nothing did."""
    end_s: float | None
    events: int | None
    summary: Mapping[str, Any] = field(default_factory=dict, repr=False)
    folder: Path | None = None
    """Its run folder, if it was kept."""

    @property
    def name(self) -> str:
        """Its settings in words."""
        return ", ".join(setting_text(key, value) for key, value in self.settings.items())

    @property
    def failure(self) -> str:
        """One line that names the run and says why it failed or ended early."""
        which = ", ".join(filter(None, (self.name, f"seed {self.seed}")))
        return f"{which}: {self.message or f'stopped early: {self.stopped}'}"

    @property
    def complete(self) -> bool:
        """Whether it reached its scenario's end."""
        return self.status == "complete"

    @property
    def flags(self) -> list[str]:
        """Sentences that readers should know before they trust a metric."""
        return list(self.summary.get("flags", ()))


def setting_text(key: str, value: Any) -> str:
    """A key and its value in words: text as it is, anything else as JSON.

    Examples:
        >>> setting_text("links.wan.rate", "2 Mbit/s"), setting_text("queue", {"kind": "red"})
        ('links.wan.rate=2 Mbit/s', 'queue={"kind":"red"}')
    """
    return f"{key}={plain_value(value)}"


def plain_value(value: Any) -> str:
    """A value of a varied key: text as it is, anything else as JSON."""
    return value if isinstance(value, str) else canonical(value)


def canonical(value: Any) -> str:
    """A value as JSON without spaces; values that JSON cannot represent become text."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=str)
