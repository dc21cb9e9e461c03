"""A comparison as plain text: two groups in columns, or more groups in rows below each metric."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from narrows.results.compare_rows import Difference, Group, Row, interval_text, signed
from narrows.results.emphasis import is_of_group
from narrows.results.metrics import value_text
from narrows.results.sweep_text import range_text
from narrows.results.text import TextTable, bars


class Compared(Protocol):
    """What this module needs of a `Comparison`."""

    @property
    def groups(self) -> Sequence[Group]:
        """What is compared."""

    @property
    def title(self) -> str:
        """What is compared."""

    @property
    def leading(self) -> Sequence[Row]:
        """The metrics that matter most; those of groups come one after the other."""

    @property
    def telling(self) -> Sequence[Row]:
        """The metrics that say something."""

    @property
    def first_sentences(self) -> Sequence[str]:
        """The verdicts on the metrics that matter most."""

    @property
    def other_sentences(self) -> Sequence[str]:
        """The verdicts on other metrics."""

    @property
    def notes(self) -> Sequence[str]:
        """Notes that a reader has to know."""


Sections = list[tuple[str, Sequence[tuple[str, ...]]]]
"""Titles, and the lines below them."""
Chosen = Iterable[tuple[str, Sequence[Row]]]
"""Titles, and the metrics below them."""

FIRST = "What matters most"


def comparison_table(comparison: Compared) -> TextTable:
    """The metrics that matter first, then all that say something, then the verdicts in words."""
    header, sections = arranged(comparison, chosen(comparison))
    sentences = list(comparison.first_sentences)
    if count := len(comparison.other_sentences):
        sentences.append(f"(The table above has the intervals of {count} more.)")
    notes = ["In words:", *(f"  {sentence}" for sentence in sentences), ""] if sentences else []
    single = _single_seeds(comparison)
    notes += ["Seed by seed:", *(f"  {line}" for line in single), ""] if single else []
    notes += comparison.notes
    return TextTable(comparison.title, header, sections, notes, _plot(comparison))


def arranged(comparison: Compared, sections: Chosen) -> tuple[tuple[str, ...], Sections]:
    """The header and the lines of metrics: two groups in columns, more groups in lines."""
    arrange = _beside if len(comparison.groups) <= 2 else _below
    return arrange(comparison, sections)


def _beside(comparison: Compared, sections: Chosen) -> tuple[tuple[str, ...], Sections]:
    """Arranges two groups as columns, which is easiest to read."""
    header = ["", *(group.label for group in comparison.groups[:1])]
    for group in comparison.groups[1:]:
        header += [group.label, "difference", "95 % interval"]
    found: dict[str, list[tuple[str, ...]]] = {}
    for section, rows in sections:
        found.setdefault(section, []).extend(
            (row.full_title, *row.cells[1:]) if section == FIRST else row.cells for row in rows
        )
    return tuple(header), list(found.items())


def _below(comparison: Compared, sections: Chosen) -> tuple[tuple[str, ...], Sections]:
    """Arranges groups as rows below each metric's name, because many columns fit no window."""
    several = max(len(group.runs) for group in comparison.groups) > 1
    header = ("", "mean" if several else "value", *(["least to most"] if several else []))
    header = (*header, "difference", "95 % interval")
    found: dict[str, list[tuple[str, ...]]] = {}
    for section, rows in sections:
        for row in rows:
            name = row.full_title if section == FIRST else f"{section}: {row.title}"
            lines = found.setdefault(name, [])
            if not lines:
                lines += [_line(comparison, row, number, several=several) for number in _of(row)]
    return header, list(found.items())


def _of(row: Row) -> range:
    return range(len(row.values))


def _line(comparison: Compared, row: Row, number: int, *, several: bool) -> tuple[str, ...]:
    difference = row.differences[number]
    seeds = [range_text(row.samples[number])] if several else []
    first = ("", "") if number == 0 else ("-", "-")
    word = f" {better}" if (better := row.word(number)) else ""
    changes = (
        first
        if difference is None
        else (signed(difference.value) + word, interval_text(difference))
    )
    label = comparison.groups[number].label
    return (label, value_text(row.values[number]), *seeds, *changes)


def chosen(comparison: Compared) -> list[tuple[str, list[Row]]]:
    """The rows of each section, in order; first those that matter most, if many others follow.

    Each row is there once: those that matter most are left out of their own sections.
    """
    first, rows = list(comparison.leading), list(comparison.telling)
    sections: dict[str, list[Row]] = {}
    # If there are few metrics, none has to stand for the others.
    if len(rows) > 2 * len(first):
        sections[FIRST] = first
        rows = [row for row in rows if row not in first]
    for row in rows:
        sections.setdefault(row.section, []).append(row)
    return list(sections.items())


def _single_seeds(comparison: Compared) -> list[str]:
    """Lines on how far apart single seeds are in the metrics that matter most.

    A mean over few seeds hides that there are two kinds of runs, such as calls that begin in a full
    queue and calls that do not.
    """
    found = []
    few = len(comparison.telling) <= len(comparison.leading) + 1
    for row in comparison.telling if few else comparison.leading:
        for number, difference in enumerate(row.differences):
            if difference is not None and (words := _spread(difference)):
                label = comparison.groups[number].label
                first = comparison.groups[0].label
                found.append(f"{row.full_title}: {label} less {first}: {words}")
    return found


def _spread(difference: Difference) -> str:
    if difference.least is None or difference.most is None:
        return ""
    words = f"{signed(difference.least)} to {signed(difference.most)}"
    if difference.correlation is not None:
        words += f", correlation of pairs {difference.correlation:.2f}"
    return words


def _plot(comparison: Compared) -> list[str]:
    """Bars of the metric that matters most, if every group has it and no value is negative.

    If traffic has several groups, each has its own bars.
    """
    lines: list[str] = []
    for row in comparison.leading:
        first = comparison.leading[0]
        same = is_of_group(row.key) and row.key.rpartition(".")[2] == first.key.rpartition(".")[2]
        values = [value for value in row.values if value is not None and value >= 0.0]
        if (row is first or same) and len(values) == len(comparison.groups):
            labels = [group.label for group in comparison.groups]
            lines += bars(row.full_title, list(zip(labels, values, strict=True)))
    return lines
