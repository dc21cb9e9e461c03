"""A paper's reproduction: its cells, its claims, its other choices, and how to measure a run.

Each paper's folder declares its `Paper` in a file `paper.py`. These files look alike because they
declare the same things for each paper; they share no logic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from narrows.reproduce.cells import Cell, Choice
from narrows.reproduce.claims import Claim, Measured
from narrows.reproduce.measurements import Agreement, Measurements, Table

if TYPE_CHECKING:
    import threading

    from narrows.report.picture import Picture
    from narrows.results import Run


@dataclass(frozen=True)
class Recorded:
    """Runs that were recorded earlier, and not from a scenario."""

    runs: Mapping[str, Mapping[int, Measured]]
    """The runs by cell and number of the round."""
    source: str
    """Where they come from, in one sentence."""
    complete: bool = True
    """False when some of what the claims need could not be measured."""


class Execute(Protocol):
    """Runs one cell."""

    def __call__(
        self, paper: Paper, cell: Cell, set: Mapping[str, str], seed: int, stop: threading.Event
    ) -> Measured:
        """Runs `cell` once and measures it; soon after `stop` is set, raises an exception."""
        ...


@dataclass(frozen=True)
class Paper:
    """Everything that `narrows reproduce` needs to know about a paper."""

    key: str
    """The letter with which its claims' ids begin."""
    slug: str
    title: str
    citation: str
    folder: Path
    cells: Sequence[Cell]
    claims: Sequence[Claim]
    choices: Sequence[Choice]
    measure: Callable[[Run], Measured]
    tables: Callable[[Measurements], list[Table]]
    """The paper's own tables, next to our values."""
    plots: Callable[[Measurements], list[Picture]]
    """Makes the plots that the runs allow."""
    agreement: Callable[[Measurements], list[Agreement]] = lambda _: []
    """Compares our metrics with other measurements of the same test bed."""
    agreement_title: str = (
        "Agreement with Linux 6.1 in the same test bed (User-Mode Linux, mostly in virtual time)"
    )
    """The title of that comparison, which names the origin of those measurements."""
    headline: Callable[[Measurements], Sequence[str]] = lambda _: ()
    """What was measured, in a sentence or two with intervals; it comes before the summary."""
    summary: Sequence[str] = ()
    """What the paper claims, what was found, and why they differ: a few plain sentences."""
    agreement_cells: frozenset[str] = frozenset()
    """Cells that are run for the agreement table even when no claim needs them."""
    seeds: int = 10
    """The default number of runs of each cell."""
    choice_seeds: int = 5
    """The most runs of each cell under another choice."""
    quick: Mapping[str, str] = field(default_factory=dict)
    """Settings on top of every cell's with `--quick`."""
    on_kernel: Callable[[Cell], Mapping[str, str]] = lambda _: {}
    """For a run on a kernel: settings that replace those of a cell that Linux lacks."""
    recorded: Callable[[Path | None], Recorded] | None = None
    """Reads runs from a folder, or from the one that comes with narrows, instead of running cells.
    It is for a paper that needs what `narrows reproduce` does not have, such as root."""
    execute: Execute | None = None
    """Runs a cell, for a paper whose cells are not scenarios."""
    lacks: Callable[[Cell], str | None] = lambda _: None
    """Says in a few words why this machine cannot run a cell; None if it can."""

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
