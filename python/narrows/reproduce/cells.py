"""The experiments of a paper, and what a sensitivity row changes about them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Cell:
    """One experiment of a paper: a scenario file with settings on top."""

    name: str
    title: str
    scenario: str
    """File name in the paper's `scenarios` folder."""
    set: Mapping[str, str] = field(default_factory=dict)
    """Settings as `narrows run --set` takes them."""
    seeds: int | None = None
    """Runs of it at most, where more would take too long; `None`: as many as asked for."""
    quick: Mapping[str, str] = field(default_factory=dict)
    """Settings on top of all with `--quick`, after the paper's own."""
    own_process: bool = False
    """Runs in a process of its own, whose time and memory become the figures `cpu_s` and
    `peak_mb`."""


@dataclass(frozen=True)
class Row:
    """A sensitivity row: another choice for something that the paper leaves open."""

    name: str
    reason: str
    set: Mapping[str, str]
    """Settings on top of the cell's; empty where nothing runs again but `reads` says more."""
    cells: frozenset[str] | None = None
    """Cells that it touches; `None`: all."""
    alone: bool = False
    """Claims are judged under it from the cells that it touches, without the others."""
    reads: Mapping[str, str] = field(default_factory=dict)
    """Figures that claims read instead, by the usual one's name: another definition of it."""
    of_cell: Callable[[Cell], Mapping[str, str]] | None = None
    """Further settings, where keys have other names in other cells' scenarios."""
    on_kernel: bool = True
    """Whether a kernel can run it; a run on a kernel leaves out the rows that it cannot."""

    @property
    def runs_again(self) -> bool:
        """Whether cells are run under it, rather than read otherwise."""
        return bool(self.set) or self.of_cell is not None

    def settings(self, cell: Cell) -> dict[str, str]:
        """What it sets in a cell."""
        return {**self.set, **(self.of_cell(cell) if self.of_cell else {})}

    def touches(self, cell: str) -> bool:
        """Whether `cell` has to be run again under this row."""
        return self.cells is None or cell in self.cells
