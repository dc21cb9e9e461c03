"""Figures in a session or a notebook: what `plot` of a run, a sweep or a comparison gives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from narrows.errors import NarrowsError
from narrows.report.comparison_report import comparison_figures
from narrows.report.page import Shown, html_of, write_figures
from narrows.report.run_report import run_figures
from narrows.report.sweep_plot import SweepPlot, plot_sweep
from narrows.results import Comparison, Run, Sweep
from narrows.results.sweep_means import figures_of
from narrows.scenario.faults import nearest

__all__ = ["Figures", "of_comparison", "of_run", "of_sweep"]

_FIRST = (
    "dns.first_attempt_percent",
    "bursts.completion_mean_s",
    "rounds.round_p50_ms",
    "loads.load_p50_s",
    "flows.goodput_mbit_per_s",
)
"""What a sweep's plot shows where nobody says: the first of these that it has."""


@dataclass(frozen=True)
class Figures:
    """Figures that a notebook shows; each has its Matplotlib `figure`, `name`, `alt`, `caption`."""

    shown: tuple[Shown, ...]

    def __iter__(self) -> Iterator[Shown]:
        return iter(self.shown)

    def __len__(self) -> int:
        return len(self.shown)

    def __getitem__(self, name: str) -> Shown:
        for one in self.shown:
            if one.name == name:
                return one
        raise KeyError(name)

    def write(self, folder: str | Path, *kinds: Literal["png", "svg", "pdf"]) -> list[Path]:
        """Writes each into a folder, as PNG and SVG or as the kinds that are named.

        Returns:
            The files.

        Raises:
            RunFolderError: They cannot be written.
        """
        return write_figures(self.shown, Path(folder), kinds or ("png", "svg"))

    def __repr__(self) -> str:
        return f"<{len(self)} figures: {', '.join(one.name for one in self.shown)}>"

    def _repr_html_(self) -> str:
        """The figures, for notebooks."""
        return html_of(self.shown)


def of_run(run: Run, names: Sequence[str]) -> Figures:
    """The figures of a run's report, or those of it whose names begin so.

    Raises:
        NarrowsError: No figure's name begins so.
    """
    return _named(run_figures(run), names)


def of_comparison(comparison: Comparison, names: Sequence[str]) -> Figures:
    """The figures of a comparison's report, or those of it whose names begin so.

    Raises:
        NarrowsError: No figure's name begins so.
    """
    return _named(comparison_figures(comparison), names)


def of_sweep(
    sweep: Sweep,
    metric: str | None,
    against: str | None,
    by: Sequence[str] | None,
    where: Mapping[str, Any],
) -> SweepPlot:
    """A figure of a sweep: what is not said is the first that there is.

    Raises:
        NarrowsError: There is nothing to draw, or `narrows.report.plot_sweep` refuses it.
    """
    varied = [axis.key for axis in sweep.axes if len(axis.values) > 1 and axis.key not in where]
    if against is None:
        if not varied:
            raise NarrowsError(f"{sweep.name}: no key has several values to draw anything against")
        against = next((key for key in varied if key not in (by or ())), varied[0])
    if metric is None:
        known = figures_of(sweep)
        metric = next((key for key in _FIRST if key in known), next(iter(known), ""))
    if by is None:
        by = [key for key in varied if key != against and not key.endswith(f".{against}")]
    return plot_sweep(sweep, metric, against, by, where)


def _named(shown: Sequence[Shown], names: Sequence[str]) -> Figures:
    for name in names:
        if not any(one.name.startswith(name) for one in shown):
            known = [one.name for one in shown]
            raise NarrowsError(f"figure {name}: there is none; hint: {nearest(name, known)}")
    wanted = [one for one in shown if not names or one.name.startswith(tuple(names))]
    return Figures(tuple(wanted))
