"""The type of what `Sweep.plot` returns, for typed code.

`narrows.report.SweepPlot` is the class. `results` cannot name it, because `report` builds on
`results`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from narrows.plot_files import USUAL_PLOT_FILES, PlotFile
from narrows.results.text import TextTable


class PlottedSweep(Protocol):
    """A plot of a sweep, and the numbers in it; a notebook shows both."""

    @property
    def notes(self) -> Sequence[str]:
        """Notes that readers must know."""

    def write(self, folder: str | Path, kinds: Sequence[PlotFile] = USUAL_PLOT_FILES) -> list[Path]:
        """Writes the plot into a folder, as these kinds of files; returns the files.

        Raises:
            RunFolderError: They cannot be written.
        """

    def table(self) -> TextTable:
        """The numbers, for people."""

    def document(self) -> dict[str, Any]:
        """The numbers, as JSON values."""

    def _repr_html_(self) -> str:
        """The plot and the numbers, for notebooks."""
