"""Plots in a session or a notebook: the results of `plot` of a run, a sweep or a comparison."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, TypeVar

from narrows.errors import NarrowsError
from narrows.plot_files import USUAL_PLOT_FILES, PlotFile
from narrows.records.plotted import Declaration
from narrows.report.comparison_report import comparison_plots
from narrows.report.notebook import html_of
from narrows.report.page import Shown, write_plots
from narrows.report.run_report import run_plots
from narrows.report.sweep_plot import SweepPlot, plot_sweep
from narrows.results import Comparison, Run, Sweep, summary_table
from narrows.results.emphasis import GOODPUT, likeliest
from narrows.results.sweep_means import metrics_of
from narrows.results.sweep_text import sweep_text
from narrows.scenario.suggestions import suggestion

_Plot = TypeVar("_Plot", Shown, Declaration)

_FIRST = (
    "dns.first_attempt_percent",
    "bursts.completion_mean_s",
    "rounds.round_p50_ms",
    "pages.load_p50_s",
)
"""The default metric of a sweep's plot is the first of these that the sweep has, or else the
goodput of TCP."""


@dataclass(frozen=True)
class Plots:
    """Plots that a notebook shows; each has its Matplotlib `figure`, `name`, `alt`, `caption`."""

    shown: tuple[Shown, ...]
    of: Run | Comparison

    def __iter__(self) -> Iterator[Shown]:
        return iter(self.shown)

    def __len__(self) -> int:
        return len(self.shown)

    def __getitem__(self, name: str) -> Shown:
        for one in self.shown:
            if one.name == name:
                return one
        raise KeyError(name)

    def write(self, folder: str | Path, *kinds: PlotFile) -> list[Path]:
        """Writes each plot into a folder, as PNG and SVG or as the named kinds.

        Returns:
            The files.

        Raises:
            RunFolderError: They cannot be written.
        """
        return write_plots(self.shown, Path(folder), kinds or USUAL_PLOT_FILES, self.of)

    def __repr__(self) -> str:
        plots = "1 plot" if len(self) == 1 else f"{len(self)} plots"
        return f"<{plots}: {', '.join(one.name for one in self.shown)}>"

    def _repr_html_(self) -> str:
        """The plots, for notebooks."""
        return html_of(self.shown)


def of_run(run: Run, names: Sequence[str]) -> Plots:
    """The plots of a run's report, or only those whose names begin with one of `names`.

    Raises:
        NarrowsError: No plot's name begins with one of them.
    """
    return Plots(tuple(run_plots(run, lambda declared: _named(declared, names))), run)


def of_comparison(comparison: Comparison, names: Sequence[str]) -> Plots:
    """The plots of a comparison's report, or only those whose names begin with one of `names`.

    Raises:
        NarrowsError: No plot's name begins with one of them.
    """
    return Plots(tuple(_named(comparison_plots(comparison), names)), comparison)


def of_sweep(
    sweep: Sweep,
    metric: str | None,
    against: str | None,
    by: Sequence[str] | None,
    where: Mapping[str, Any],
) -> SweepPlot:
    """A plot of a sweep; an argument that is not given takes its first possible value.

    Raises:
        NarrowsError: There is nothing to draw, or `narrows.report.plot_sweep` refuses it.
    """
    varied = [axis.key for axis in sweep.axes if len(axis.values) > 1 and axis.key not in where]
    if against is None:
        if not varied:
            raise NarrowsError(f"{sweep.name}: no key has several values to draw a plot against")
        against = next((key for key in varied if key not in (by or ())), varied[0])
    if metric is None:
        known = metrics_of(sweep)
        likely = likeliest([*_FIRST, GOODPUT], known, [run.summary for run in sweep.runs], 1)
        metric = next(iter([*likely, *known]), "")
    if by is None:
        by = [key for key in varied if key != against and not key.endswith(f".{against}")]
    return plot_sweep(sweep, metric, against, by, where)


def in_notebook(result: Run | Sweep | Comparison) -> str:
    """Plots, and the table that the command prints, as HTML."""
    try:
        plots = result.plot()._repr_html_()
    except NarrowsError:
        # The tables of an old run may lack what a plot needs; a sweep may vary nothing.
        plots = ""
    if isinstance(result, Comparison):
        return f"{plots}{result.table()._repr_html_()}"
    table = summary_table(result) if isinstance(result, Run) else sweep_text(result)
    return f"<p>{escape(repr(result))}</p>{plots}{table._repr_html_()}"


def _named(plots: Sequence[_Plot], names: Sequence[str]) -> list[_Plot]:
    """The plots whose names begin with one of `names`; all if there are no names."""
    for name in names:
        if not any(one.name.startswith(name) for one in plots):
            known = [one.name for one in plots]
            raise NarrowsError(f"there is no plot {name}; hint: {suggestion(name, known)}")
    return [one for one in plots if not names or one.name.startswith(tuple(names))]
