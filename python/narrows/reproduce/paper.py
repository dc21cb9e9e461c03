"""A paper's reproduction: its cells, claims, sensitivity rows, and how a run is measured."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from narrows.reproduce.claims import Claim, Measured

if TYPE_CHECKING:
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


@dataclass(frozen=True)
class Row:
    """A sensitivity row: another choice for something that the paper leaves open."""

    name: str
    reason: str
    set: Mapping[str, str]
    cells: frozenset[str] | None = None
    """Cells that it touches; `None`: all."""

    def touches(self, cell: str) -> bool:
        """Whether `cell` has to be run again under this row."""
        return self.cells is None or cell in self.cells


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
    agreement: Callable[[Outcome], list[Agreement]]
    """Ours against other people's measurements of the same test bed."""
    agreement_cells: frozenset[str] = frozenset()
    """Cells that are run for the agreement table even when no claim needs them."""

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
