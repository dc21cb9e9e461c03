"""The forms of what the study says: sentences and their tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

__all__ = ["Audience", "Sentence", "Table"]

Audience = Literal["dns operator", "network operator", "paper H's worst cell", "limits"]


@dataclass(frozen=True)
class Sentence:
    """A conclusion of the study, and its audience."""

    audience: Audience
    advice: str
    """What to do or to know, in a few words that depend on the numbers; empty for a remark."""
    text: str
    """The numbers behind it."""
    headline: bool = False
    """Whether it is among the few headlines of the whole study."""


@dataclass(frozen=True)
class Table:
    """Figures that belong to an audience's sentences."""

    audience: Audience
    title: str
    columns: Sequence[str]
    """The heads of the columns: the first column names a row, the others are numbers."""
    rows: Sequence[Sequence[str]]
