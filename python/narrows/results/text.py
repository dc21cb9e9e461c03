"""Tables as plain text: aligned, never cut off, the same on a terminal and in a pipe."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any, TextIO

from narrows.foreign_text import printable
from narrows.results.emphasis import telling
from narrows.results.jump import jumps
from narrows.results.latex import tabular
from narrows.results.left_out import left_out
from narrows.results.metrics import MetricValue, metrics, value_text
from narrows.results.origin import MEASURED, length
from narrows.results.run import Run


@dataclass(frozen=True)
class TextTable:
    """Rows under sections."""

    title: str
    header: tuple[str, ...]
    """The title; empty for none."""
    sections: Sequence[tuple[str, Sequence[tuple[str, ...]]]]
    notes: Sequence[str] = ()
    plot: Sequence[str] = ()
    """Lines below the title, before everything else."""

    def __str__(self) -> str:
        rows = [row for _, part in self.sections for row in part]
        heads = _heads(self.header, rows) if self.header else []
        shown = [*heads, *rows]
        count = max((len(row) for row in shown), default=0)
        widths = [
            max((len(row[i]) for row in shown if i < len(row)), default=0) for i in range(count)
        ]
        lines = [self.title] if self.title else []
        lines += ["", *self.plot] if self.plot else []
        if heads:
            lines += ["", *(_line("", head, widths) for head in heads)]
        for name, part in self.sections:
            lines += ["", name] if name else [""]
            lines += [_line("  " if name else "", row, widths) for row in part]
        if self.notes:
            lines += ["", *self.notes]
        return printable("\n".join(lines), kept="\n")

    def _repr_html_(self) -> str:
        """The table for notebooks."""
        width = max((len(row) for _, part in self.sections for row in part), default=1)
        rows = [_html_row("th", self.header)] if self.header else []
        for name, part in self.sections:
            if name:
                cell = f'<th colspan="{width}" style="text-align:left">{escape(name)}</th>'
                rows.append(f"<tr>{cell}</tr>")
            rows += [_html_row("td", row) for row in part]
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.notes if note)
        return f"<p>{escape(self.title)}</p><table>{''.join(rows)}</table>{notes}"

    def latex(self) -> str:
        """The table for LaTeX with the package booktabs; title and notes are comments above it.

        Every character of a name is printed as it is. Bars are left out.
        """
        rows = [row for _, part in self.sections for row in part]
        heads = _heads(self.header, rows) if self.header else []
        return tabular(self.title, heads, self.sections, self.notes)

    def print(self, to: TextIO, *, latex: bool = False) -> None:
        """Writes the table, as text or for LaTeX, and a line end."""
        to.write(f"{self.latex() if latex else self}\n")


def summary_table(run: Run) -> TextTable:
    """A table of a run's metrics for people, without those that mean nothing."""
    sections: dict[str, list[tuple[str, ...]]] = {}
    for metric in shown_metrics(run):
        row = (
            metric.name,
            value_text(metric.value),
            metric.unit,
            *([f"({metric.of})"] * bool(metric.of)),
        )
        sections.setdefault(metric.section, []).append(row)
    notes = []
    for group, dns in (run.summary.get("dns_groups") or {"": run.summary.get("dns")}).items():
        if dns and dns["first_attempt_interval_percent"]:
            low, high = dns["first_attempt_interval_percent"]
            of = f"DNS group {group}, " if group else ""
            notes.append(f"{of}first attempt: {low:.2f} to {high:.2f} % ({dns['interval']})")
        if dns and dns["response_median_ms"] is None:
            of = f" of DNS group {group}" if group else ""
            which = "measured query" + of + (" that ended" if dns.get("unfinished") else "")
            notes.append(f"warning: no {which} was answered, so there are no response times")
    flags = [*run.flags, *left_out([run.summary]), *jumps(run.summary)]
    notes += [f"warning: {flag}" for flag in flags]
    if not run.complete:
        notes.append(f"this run is partial: {run.stopped}")
    name = run.name if run.backend in MEASURED else f"{run.name}, seed {run.seed}"
    name += f", with {run.settings}" if run.set else ""
    events = f", {run.events} events" if run.events else ""
    window = "" if run.window is None else "; metrics from {:g} to {:g} s".format(*run.window)
    title = f"{name}: {length(run.backend, run.end_s)}{events}{window}"
    return TextTable(title, (), list(sections.items()), notes)


def shown_metrics(run: Run) -> list[MetricValue]:
    """A run's metrics, without those that mean nothing."""
    known = {metric.key: metric for metric in metrics(run.summary)}
    values = {key: [metric.value] for key, metric in known.items()}
    return [_named(known[key], run) for key in telling(values, [run.summary])]


def _named(metric: MetricValue, run: Run) -> MetricValue:
    """The metric, in words for the link: without a ring, it holds the packet in transmission."""
    begin, _, key = metric.key.rpartition(".")
    if key != "ring_mean_bytes":
        return metric
    link = begin.removeprefix("queues.").rpartition(".")[0]
    where = "the ring" if _has_ring(run.scenario, link) else "transmission"
    return replace(metric, name=f"in {where}, mean")


def _has_ring(scenario: Mapping[str, Any], direction: str) -> bool:
    """Whether a link's direction has a ring; True if this version does not understand the link."""
    name, _, which = direction.rpartition(".")
    for link in scenario.get("links") or ():
        if isinstance(link, Mapping) and link.get("name") == name:
            own = link.get(which)
            return bool((isinstance(own, Mapping) and own.get("ring")) or link.get("ring"))
    return True


def bars(title: str, values: Sequence[tuple[str, float]], width: int = 50) -> list[str]:
    """Horizontal bars from zero for a terminal; the largest value has `width` characters.

    Examples:
        >>> for line in bars("drops (1/s)", [("fifo", 4.0), ("red", 2.0)], width=8):
        ...     print(line)
        drops (1/s)
          fifo  ########  4
          red   ####      2
    """
    longest = max((value for _, value in values), default=0.0)
    label = max((len(name) for name, _ in values), default=0)
    lines = [title]
    for name, value in values:
        bar = "#" * (round(width * value / longest) if longest > 0.0 else 0)
        lines.append(f"  {name:<{label}}  {bar:<{width}}  {value_text(value)}")
    return lines


def _html_row(tag: str, row: Sequence[str]) -> str:
    first, *others = row or ("",)
    cells = "".join(f'<{tag} style="text-align:right">{escape(cell)}</{tag}>' for cell in others)
    return f'<tr><{tag} style="text-align:left">{escape(first)}</{tag}>{cells}</tr>'


def _heads(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """The header's lines: one, or several if it would make the table too wide.

    Names of metrics then break behind their dots, and end in the last line.
    """
    widths = [
        max((len(row[i]) for row in rows if i < len(row)), default=0) for i in range(len(header))
    ]
    wide = sum(max(len(head), width) + 2 for head, width in zip(header, widths, strict=True))
    if wide <= _WIDE:
        return [header]
    columns = [_broken(head, width) for head, width in zip(header, widths, strict=True)]
    most = max(map(len, columns))
    filled = [[""] * (most - len(column)) + column for column in columns]
    return list(zip(*filled, strict=True))


_WIDE = 120
"""The most characters of a table's line with its header in one line."""


_SHORT = 16
"""Names of up to this many characters stay in one line."""


def _broken(head: str, width: int) -> list[str]:
    """A dotted name in lines of `width` characters, or longer if a part is.

    Examples:
        >>> _broken("dns_groups.udp.within_1s_percent", 20)
        ['dns_groups.udp.', 'within_1s_percent']
    """
    parts = head.split(".")
    if not all(parts) or not re.fullmatch(r"[\w.-]+", head):
        return [head]
    width = max(width, _SHORT, *(len(part) + 1 for part in parts))
    lines = [""]
    for part in [*(f"{part}." for part in parts[:-1]), parts[-1]]:
        if lines[-1] and len(lines[-1]) + len(part) > width:
            lines.append("")
        lines[-1] += part
    return lines


def _line(indent: str, row: tuple[str, ...], widths: Sequence[int]) -> str:
    """Aligns the first column to the left, numbers to the right, and a unit at the end left."""
    cells = [row[0].ljust(widths[0])]
    for cell, width in zip(row[1:], widths[1:], strict=False):
        cells.append(cell.rjust(width) if _numeric(cell) else cell.ljust(width))
    return (indent + "  ".join(cells)).rstrip()


def _numeric(cell: str) -> bool:
    # A unit may begin with a digit as well: 1/s.
    return cell == "-" or (cell != "" and cell[0] in "+-0123456789" and "/" not in cell)
