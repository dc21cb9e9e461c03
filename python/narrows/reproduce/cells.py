"""The experiments of a paper, and what another choice changes in them."""

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
    """The most runs of this cell, if more would take too long; `None`: no such limit."""
    quick: Mapping[str, str] = field(default_factory=dict)
    """With `--quick`, settings on top of all others, the paper's own `quick` included."""
    own_process: bool = False
    """Whether it runs in a separate process, whose time and memory become the metrics `cpu_s` and
    `peak_mb`."""


@dataclass(frozen=True)
class Choice:
    """Another choice for something that the paper leaves open."""

    name: str
    reason: str
    set: Mapping[str, str]
    """Settings on top of the cell's; empty if only `reads` matters, so that no cell runs again."""
    cells: frozenset[str] | None = None
    """The cells that it changes; `None`: all."""
    alone: bool = False
    """Whether only the cells that it changes count for the verdicts under it."""
    reads: Mapping[str, str] = field(default_factory=dict)
    """Metrics with another definition that claims read instead, by the usual metric's name."""
    of_cell: Callable[[Cell], Mapping[str, str]] | None = None
    """Returns further settings for a cell, because cells' scenarios name some keys differently."""
    on_kernel: bool = True
    """Whether a kernel can run it; a run on a kernel leaves out the choices that it cannot."""

    @property
    def runs_again(self) -> bool:
        """Whether cells run again under it; otherwise claims only read other metrics."""
        return bool(self.set) or self.of_cell is not None

    def settings(self, cell: Cell) -> dict[str, str]:
        """The settings that it makes in a cell."""
        return {**self.set, **(self.of_cell(cell) if self.of_cell else {})}

    def touches(self, cell: str) -> bool:
        """Whether `cell` has to be run again under this choice."""
        return self.cells is None or cell in self.cells
