"""What a probe shows: a table that changes while it asks, and a final one with verdicts."""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from narrows.cli.failure import Exit, say
from narrows.foreign_text import printable
from narrows.probe.whole_ratio import ratio_after_truncated, whole_ratio
from narrows.progress import lines
from narrows.results.verdict_groups import group_verdicts

if TYPE_CHECKING:
    from narrows.probe import Plan, Progress
    from narrows.results import Measurement

LEGEND = (
    "medians in ms; 95 % and longest: of whole times; ratio: whole time to UDP's in the same round;"
    "\nsegments: bytes in each segment of the most common reply"
)

AFTER = "ratio after the semicolon: including the truncated answer over UDP that came before"

MANY = 20
"""The number of answers from which the 95th percentile is not simply the longest time."""

WIDTH = 100
"""Columns of a table that does not go to a terminal."""

Key = tuple[str, str, str]


class _Board:
    """Rows by server, vantage point and transport."""

    def __init__(self, several_vantages: bool, *, reuse: bool) -> None:
        self.rows: dict[Key, list[Mapping[str, Any]]] = {}
        self.several = several_vantages
        self.reuse = reuse

    def add(self, row: Mapping[str, Any]) -> None:
        self.rows.setdefault((row["target"], row["vantage"], row["transport"]), []).append(row)

    def table(self) -> Table:
        """Medians in ms, long times, ratios to UDP, and what failed."""
        many = all(len(_answered(rows)) >= MANY for rows in self.rows.values())
        silent = any(_timeouts(rows) for rows in self.rows.values())
        table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
        table.add_column("server", overflow="fold")
        if self.several:
            table.add_column("from")
        table.add_column("over", no_wrap=True)
        titles = ["asked", "replies", *(["no reply"] if silent else []), "connect", "query"]
        for title in (*titles, "whole", "95 %" if many else "longest", "ratio"):
            table.add_column(title, justify="right", no_wrap=True)
        table.add_column("segments", min_width=len("segments"))
        table.add_column("else", min_width=len("else"))
        # Servers answer at their own pace, but the rows of each stay together.
        places: dict[tuple[str, ...], int] = {}
        for place, (target, vantage, _) in enumerate(self.rows):
            places.setdefault((target, vantage), place)
        for key in sorted(self.rows, key=lambda key: places[key[:2]]):
            (target, vantage, transport), rows = key, self.rows[key]
            cells = [target, *([vantage] if self.several else []), transport]
            cells += self._metrics((target, vantage, transport), rows, many=many, silent=silent)
            # Text, so that nothing in a name is taken for markup.
            table.add_row(*(Text(printable(cell)) for cell in cells))
        return table

    def _metrics(
        self, key: Key, rows: list[Mapping[str, Any]], *, many: bool, silent: bool
    ) -> list[str]:
        answered = _answered(rows)
        whole = _median(answered, "total_ms")
        udp = self.rows.get((key[0], key[1], "udp"), [])
        ratio = None if key[2] == "udp" else whole_ratio(udp, rows)
        after = ratio_after_truncated(udp, ratio)
        beside = "" if after is None else f"; {after:.2f}"
        cut = [row["segment_bytes"] for row in answered if row.get("segment_bytes")]
        usual = statistics.mode([tuple(sizes) for sizes in cut]) if cut else ()
        return [
            str(len(rows)),
            str(len(answered)),
            *([str(_timeouts(rows))] if silent else []),
            _text(_median(rows, "connect_ms")),
            _text(_median(answered, "query_ms")),
            _text(whole),
            _text(_long(answered, many=many)),
            "-" if ratio is None else f"{ratio:.2f}{beside}",
            " + ".join(str(size) for size in usual) or "-",
            _others(rows, reuse=self.reuse),
        ]


@contextmanager
def live(plan: Plan, *, quiet: bool) -> Iterator[Callable[[Progress], None]]:
    """A table that changes with each answer, if stderr is a terminal and `quiet` is not set."""
    if quiet:
        yield lambda _: None
        return
    if not sys.stderr.isatty():
        tell = lines("probe")
        yield lambda at: tell(at.done / at.total, f"{at.done} of {at.total} queries")
        return
    board = _Board(len(plan.sources) > 1, reuse=plan.reuse)
    console = Console(stderr=True)
    with Live(console=console, transient=True, refresh_per_second=8) as shown:

        def update(at: Progress) -> None:
            board.add(at.latest)
            bar = ProgressBar(total=at.total, completed=at.done, width=40)
            left = Text(f"{at.done} of {at.total} queries, ms", style="dim")
            shown.update(Group(board.table(), bar, left))

        yield update


def end_probe(measurement: Measurement, folder: Path, *, json_output: bool, quiet: bool) -> Exit:
    """Saves a measurement, prints it, and gives the exit code.

    Raises:
        RunFolderError: It cannot be saved; it is printed all the same.
    """
    try:
        measurement = measurement.save(folder)
    finally:
        if json_output:
            print(json.dumps(measurement.document(), indent=2))
        else:
            print_measurement(measurement, sys.stdout)
    if not quiet:
        if not measurement.settings["watched"]:
            say("segment sizes are estimates from TCP_INFO; with CAP_NET_RAW they would be exact")
        say(f"wrote {folder}")
    if not measurement.complete:
        say("interrupted; the measurement is partial")
        return Exit.INTERRUPTED
    return Exit.DONE if measurement.summary["answered"] else Exit.FAILED


def print_measurement(measurement: Measurement, file: TextIO) -> None:
    """The table of medians, and below it each verdict with its notes."""
    several = measurement.exchanges["vantage"].n_unique() > 1
    board = _Board(several, reuse=bool(measurement.settings.get("reuse")))
    for row in measurement.exchanges.iter_rows(named=True):
        board.add(row)
    width = None if file.isatty() else WIDTH
    console = Console(file=file, width=width, highlight=False)
    console.print(board.table())
    console.print(LEGEND, style="dim", soft_wrap=True)
    found = measurement.findings.get("verdicts", [])
    if any(verdict.get("metrics", {}).get("ratio_after_truncated") for verdict in found):
        console.print(AFTER, style="dim", soft_wrap=True)
    for vantages, verdict in group_verdicts(measurement.findings.get("verdicts", [])):
        where = f" from {vantages}" if board.several else ""
        over = "" if verdict["transport"] == "tcp" else f" over {verdict['transport'].upper()}"
        said = printable(f"{verdict['target']}{where}{over}: {verdict['sentence']}")
        console.print(Text(f"\n{said}"), soft_wrap=True)
        for note in verdict["notes"]:
            console.print(Text(printable(f"  {note}")), soft_wrap=True)
    for kept in measurement.findings.get("kept", []):
        over = f" over {kept['transport'].upper()}"
        said = printable(f"{kept['target']}{over}: {kept['sentence']}")
        console.print(Text(f"\n{said}"), soft_wrap=True)


def _answered(rows: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [row for row in rows if row["outcome"] == "answered"]


def _timeouts(rows: list[Mapping[str, Any]]) -> int:
    return sum(1 for row in rows if row["outcome"] == "timeout")


def _long(answered: list[Mapping[str, Any]], *, many: bool) -> float | None:
    """The 95th percentile of whole times, or the longest of few."""
    known = [float(row["total_ms"]) for row in answered if row["total_ms"] is not None]
    if not known:
        return None
    # Cut points at 5 %, 10 %, ...: the last is at 95 %.
    return statistics.quantiles(known, n=20, method="inclusive")[-1] if many else max(known)


def _median(rows: list[Mapping[str, Any]], column: str) -> float | None:
    known = [row[column] for row in rows if row[column] is not None]
    return statistics.median(known) if known else None


def _text(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _others(rows: list[Mapping[str, Any]], *, reuse: bool) -> str:
    names = [row["outcome"] for row in rows if row["outcome"] not in ("answered", "timeout")]
    names += ["truncated" for row in rows if row["truncated"]]
    names += [row["rcode"] for row in rows if row["rcode"] not in (None, "NOERROR")]
    if reuse:
        # New connections, not counting the first of each vantage point.
        numbers = [row["connection"] for row in rows if row["connection"] is not None]
        again = [new for old, new in pairwise(numbers) if old != new]
        names += ["connected again"] * len(again)
    return ", ".join(f"{names.count(name)} {name}" for name in dict.fromkeys(names)) or "-"
