"""A paper's reproduction: its cells, claims, sensitivity rows, and how a run is measured."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from narrows.reproduce.claims import Claim, Measured

if TYPE_CHECKING:
    import threading

    from narrows.report.page import Shown
    from narrows.reproduce.outcome import Agreement, Outcome, Table
    from narrows.results import Run


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


@dataclass(frozen=True)
class Recorded:
    """Runs that were made before, by other means than a scenario."""

    runs: Mapping[str, Mapping[int, Measured]]
    """By cell and number of the round."""
    source: str
    """Where they come from, in a sentence."""
    complete: bool = True
    """False when some of what the claims need could not be measured."""


class Execute(Protocol):
    """Runs one cell."""

    def __call__(
        self, paper: Paper, cell: Cell, set: Mapping[str, str], seed: int, stop: threading.Event
    ) -> Measured:
        """One run of `cell`, measured; ends early, by any exception, once `stop` is set."""
        ...


@dataclass(frozen=True)
class Paper:
    """Everything that `narrows reproduce` needs to know of a paper."""

    key: str
    """The letter of its claims' ids."""
    slug: str
    title: str
    citation: str
    folder: Path
    cells: Sequence[Cell]
    claims: Sequence[Claim]
    rows: Sequence[Row]
    measure: Callable[[Run], Measured]
    tables: Callable[[Outcome], list[Table]]
    """The paper's own tables with ours beside them."""
    figures: Callable[[Outcome], list[Shown]]
    """What can be drawn of the runs."""
    agreement: Callable[[Outcome], list[Agreement]] = lambda _: []
    """Ours against other people's measurements of the same test bed."""
    agreement_title: str = (
        "Agreement with Linux 6.1 in the same test bed (User-Mode Linux, mostly in virtual time)"
    )
    """Whose measurements these are."""
    summary: Sequence[str] = ()
    """What the paper claims, what was found, and why they differ: a few plain sentences."""
    agreement_cells: frozenset[str] = frozenset()
    """Cells that are run for the agreement table even when no claim needs them."""
    seeds: int = 10
    """Runs of each cell, unless asked for otherwise."""
    row_seeds: int = 5
    """Runs of each cell under a sensitivity row, at most."""
    quick: Mapping[str, str] = field(default_factory=dict)
    """Settings on top of every cell's with `--quick`."""
    recorded: Callable[[Path | None], Recorded] | None = None
    """Reads its runs from a folder, or from the one that comes with narrows, and nothing is run:
    for a paper that needs what `narrows reproduce` cannot have, such as root."""
    execute: Execute | None = None
    """Runs a cell, for a paper whose cells are no scenarios."""
    lacks: Callable[[Cell], str | None] = lambda _: None
    """Why this machine cannot run a cell, in a few words; None where it can."""

    def cell(self, name: str) -> Cell:
        """The cell of that name."""
        for cell in self.cells:
            if cell.name == name:
                return cell
        raise KeyError(name)

    def cells_of(self, claims: Iterable[Claim]) -> list[Cell]:
        """The cells that `claims` need, in the paper's order."""
        wanted = {name for claim in claims for name in claim.cells}
        return [cell for cell in self.cells if cell.name in wanted]
