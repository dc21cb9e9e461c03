"""The live display of `narrows monitor` in the terminal."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from narrows.monitor.watch import Reading

_BARS = " ▁▂▃▄▅▆▇█"
ROWS = 6
SHOWN_S = 1.0
"""Seconds over which rates are averaged."""


class Screen:
    """The display: a line for each queue, and the busiest queue's backlog over time."""

    def __init__(self, width: int) -> None:
        """`width` is the number of columns of the terminal."""
        self._width = max(20, width - 12)
        self._recent: dict[str, deque[Reading]] = {}
        self._backlogs: dict[str, deque[int]] = {}

    def add(self, readings: Sequence[Reading]) -> None:
        """Adds the samples of one moment."""
        for each in readings:
            recent = self._recent.setdefault(each.queue, deque())
            recent.append(each)
            while len(recent) > 2 and recent[-1].t_s - recent[1].t_s >= SHOWN_S:
                recent.popleft()
            backlogs = self._backlogs.setdefault(each.queue, deque(maxlen=self._width))
            backlogs.append(each.counters["backlog_bytes"])

    def show(self) -> RenderableType:
        """Returns what the terminal shows now."""
        table = Table(box=None, pad_edge=False)
        for name in ("queue", "kind"):
            table.add_column(name)
        for name in ("backlog", "packets", "Mbit/s", "packets/s", "drops/s", "marks/s"):
            table.add_column(name, justify="right")
        for name, recent in sorted(self._recent.items()):
            table.add_row(name, recent[-1].kind, *_metrics(recent))
        busiest = max(self._backlogs, key=lambda name: sum(self._backlogs[name]), default=None)
        if busiest is None:
            return table
        return Group(table, Text(), *self._plot(busiest))

    def _plot(self, name: str) -> list[Text]:
        values = list(self._backlogs[name])
        top = max(*values, 1)
        lines = [Text(f"backlog of {name}")]
        for row in reversed(range(ROWS)):
            cells = ""
            for value in values:
                level = value / top * ROWS - row
                cells += _BARS[min(8, max(0, round(8 * level)))]
            label = f"{_size(top * (row + 1) // ROWS):>10} "
            lines.append(Text(label + cells, no_wrap=True, overflow="crop"))
        return lines


def _metrics(recent: Sequence[Reading]) -> list[str]:
    first, last = recent[0], recent[-1]
    seconds = last.t_s - first.t_s

    def per_second(key: str) -> float:
        return (last.counters[key] - first.counters[key]) / seconds if seconds > 0 else 0.0

    return [
        _size(last.counters["backlog_bytes"]),
        f"{last.counters['backlog_packets']}",
        f"{8e-6 * per_second('sent_bytes'):.3f}",
        f"{per_second('sent_packets'):.0f}",
        f"{per_second('drops'):.1f}",
        f"{per_second('marked'):.1f}",
    ]


def _size(count: int) -> str:
    if count < 10_000:
        return f"{count} B"
    return f"{count / 1e3:.1f} kB" if count < 10_000_000 else f"{count / 1e6:.1f} MB"
