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
    """The advice in a few words, which depend on the numbers; empty for a remark."""
    text: str
    """The numbers behind it."""
    headline: bool = False
    """Whether it is one of the study's few headlines."""


@dataclass(frozen=True)
class Table:
    """Figures that belong to an audience's sentences."""

    audience: Audience
    title: str
    columns: Sequence[str]
    """The heads of the columns. The first column names the row; the others are numbers."""
    rows: Sequence[Sequence[str]]
