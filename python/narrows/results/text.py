"""Tables as plain text: aligned, never cut off, the same on a terminal and in a pipe."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TextIO

from narrows.results.metrics import metrics, value_text
from narrows.results.run import Run

__all__ = ["TextTable", "summary_table"]


@dataclass(frozen=True)
class TextTable:
    """Rows under sections."""

    title: str
    header: tuple[str, ...]
    """Empty for none."""
    sections: Sequence[tuple[str, Sequence[tuple[str, ...]]]]
    notes: Sequence[str] = ()

    def __str__(self) -> str:
        rows = [row for _, part in self.sections for row in part]
        shown = [self.header, *rows] if self.header else rows
        count = max((len(row) for row in shown), default=0)
        widths = [
            max((len(row[i]) for row in shown if i < len(row)), default=0) for i in range(count)
        ]
        lines = [self.title] if self.title else []
        if self.header:
            lines += ["", _line("", self.header, widths)]
        for name, part in self.sections:
            lines += ["", name] if name else [""]
            lines += [_line("  " if name else "", row, widths) for row in part]
        if self.notes:
            lines += ["", *self.notes]
        return "\n".join(lines)

    def print(self, to: TextIO) -> None:
        """Writes the table and a line's end."""
        to.write(f"{self}\n")


def summary_table(run: Run) -> TextTable:
    """A run's figures for people."""
    sections: dict[str, list[tuple[str, ...]]] = {}
    for metric in metrics(run.summary):
        row = (metric.name, value_text(metric.value), metric.unit)
        sections.setdefault(metric.section, []).append(row)
    dns = run.summary.get("dns")
    notes = []
    if dns and dns["first_attempt_interval_percent"]:
        low, high = dns["first_attempt_interval_percent"]
        notes.append(f"first attempt: {low:.2f} to {high:.2f} % ({dns['interval']})")
    notes += [f"take care: {flag}" for flag in run.flags]
    if not run.complete:
        notes.append(f"this run is partial: {run.stopped}")
    title = f"{run.name}, seed {run.seed}: {run.end_s:.4g} s simulated, {run.events} events"
    return TextTable(title, (), list(sections.items()), notes)


def _line(indent: str, row: tuple[str, ...], widths: Sequence[int]) -> str:
    """The first column to the left, numbers to the right, a unit at the end to the left."""
    cells = [row[0].ljust(widths[0])]
    for cell, width in zip(row[1:], widths[1:], strict=False):
        cells.append(cell.rjust(width) if _numeric(cell) else cell.ljust(width))
    return (indent + "  ".join(cells)).rstrip()


def _numeric(cell: str) -> bool:
    # A unit may begin with a digit as well: 1/s.
    return cell == "-" or (cell != "" and cell[0] in "+-0123456789" and "/" not in cell)
