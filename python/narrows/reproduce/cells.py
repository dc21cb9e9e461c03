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
    """The most runs of it, if more would take too long; `None`: as many as asked for."""
    quick: Mapping[str, str] = field(default_factory=dict)
    """Settings on top of all others with `--quick`, after the paper's own."""
    own_process: bool = False
    """Whether it runs in a separate process, whose time and memory become the figures `cpu_s` and
    `peak_mb`."""


@dataclass(frozen=True)
class Row:
    """A sensitivity row: another choice for something that the paper leaves open."""

    name: str
    reason: str
    set: Mapping[str, str]
    """Settings on top of the cell's; empty if nothing runs again because only `reads` matters."""
    cells: frozenset[str] | None = None
    """The cells that it changes; `None`: all."""
    alone: bool = False
    """Whether claims are judged under it only from the cells that it changes."""
    reads: Mapping[str, str] = field(default_factory=dict)
    """Figures that claims read instead, by the usual figure's name: other definitions of it."""
    of_cell: Callable[[Cell], Mapping[str, str]] | None = None
    """Further settings of a cell, for keys that have other names in other cells' scenarios."""
    on_kernel: bool = True
    """Whether a kernel can run it; a run on a kernel leaves out the rows that it cannot."""

    @property
    def runs_again(self) -> bool:
        """Whether cells are run again under it, instead of being read differently."""
        return bool(self.set) or self.of_cell is not None

    def settings(self, cell: Cell) -> dict[str, str]:
        """The settings that it makes in a cell."""
        return {**self.set, **(self.of_cell(cell) if self.of_cell else {})}

    def touches(self, cell: str) -> bool:
        """Whether `cell` has to be run again under this row."""
        return self.cells is None or cell in self.cells
