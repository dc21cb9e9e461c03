"""What the study says: sentences and their tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

__all__ = ["Audience", "Sentence", "Table"]

Audience = Literal["dns operator", "network operator", "paper H's worst cell", "limits"]


@dataclass(frozen=True)
class Sentence:
    """Something that the study says, and to whom."""

    audience: Audience
    advice: str
    """What to do or to know, in a few words that the numbers chose; empty for a plain remark."""
    text: str
    """The numbers behind it."""
    headline: bool = False
    """Whether it is among the few that stand for the whole."""


@dataclass(frozen=True)
class Table:
    """Figures that belong to an audience's sentences."""

    audience: Audience
    title: str
    columns: Sequence[str]
    """The first names a row, the others are numbers."""
    rows: Sequence[Sequence[str]]
