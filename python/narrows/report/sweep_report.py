"""The report of a sweep: one HTML file with plots of its likeliest metrics, and its table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

from narrows.errors import NarrowsError
from narrows.plot_files import PlotFile
from narrows.records.plotted import Axis as Ruler
from narrows.report.drawing import Drawing, Heat
from narrows.report.files import write_page
from narrows.report.page import Shown, live, render, shown_on_page, write_plots
from narrows.report.run_report import PLOTS, REPORT_FILE
from narrows.report.sweep_plot import plot_sweep
from narrows.results import Axis, Sweep
from narrows.results.metrics import value_text
from narrows.results.setting_names import key_words, value_names
from narrows.results.sweep_means import SweepMetric, metrics_of, points
from narrows.results.sweep_run import canonical
from narrows.results.sweep_text import likely_metrics, sweep_text

MOST_METRICS = 6
"""The most metrics that have plots."""
MOST_LINES = 6
"""The most lines of a plot; if a key has more values, heat maps alone show it."""
MOST_PARTS = 12
"""The most plots of one metric, one for each combination of the keys beyond the first two."""


def write_sweep_report(
    sweep: Sweep, out: str | Path | None = None, kinds: Sequence[PlotFile] = ()
) -> Path:
    """Writes `report.html`, and plots as files in `plots/` if kinds of files are named.

    Args:
        sweep: The sweep.
        out: The folder for them; by default the sweep's own.
        kinds: The file types in which plots are written.

    Returns:
        The page's path.

    Raises:
        RunFolderError: The report cannot be written.
        ValueError: The sweep was never saved and ``out`` is not given.
    """
    folder = Path(out) if out is not None else sweep.folder
    if folder is None:
        raise ValueError("a sweep that was not saved needs a folder for its report")
    shown = sweep_plots(sweep)
    write_plots(shown, folder / PLOTS, kinds, sweep)
    table = sweep_text(sweep)
    page = render(
        "sweep.html",
        live=live(shown),
        sweep=sweep,
        keys=[f"{key_words(axis.key)} ({axis.key})" for axis in sweep.axes],
        plots=shown_on_page(shown),
        header=table.header,
        rows=[row for _, rows in table.sections for row in rows],
        notes=table.notes,
        title=table.title,
    )
    return write_page(folder / REPORT_FILE, page)


def sweep_plots(sweep: Sweep) -> list[Shown]:
    """Plots of the likeliest metrics.

    Of one varied key: lines. Of two: a heat map, and a line for each value of the second. Of more:
    these for each combination of the others.
    """
    varied = [axis for axis in sweep.axes if len(axis.values) > 1]
    shown: list[Shown] = []
    if not varied:
        return shown
    known = metrics_of(sweep)
    for key in likely_metrics(sweep)[:MOST_METRICS]:
        metric = known[key]
        fixed = [[(axis, value) for value in axis.values] for axis in varied[2:]]
        for part in list(product(*fixed))[:MOST_PARTS]:
            try:
                shown += _of_metric(sweep, metric, varied[:2], list(part))
            except NarrowsError:
                # No complete run of this part has the metric.
                continue
    return shown


def _of_metric(
    sweep: Sweep, metric: SweepMetric, axes: Sequence[Axis], fixed: Sequence[tuple[Axis, object]]
) -> list[Shown]:
    where = {axis.key: value for axis, value in fixed}
    words = ", ".join(value_names(axis)[canonical(value)] for axis, value in fixed)
    shown = []
    if len(axes) == 2:
        shown.append(heat_map(sweep, metric, axes, where, words))
    if len(axes) == 1 or len(axes[1].values) <= MOST_LINES:
        lines = plot_sweep(sweep, metric.key, axes[0].key, [axis.key for axis in axes[1:]], where)
        shown.append(lines.shown)
    return [
        replace(
            each,
            name=f"{each.name}-{words}" if words else each.name,
            drawing=replace(each.drawing, title=f"{each.drawing.title}: {words}")
            if words
            else each.drawing,
        )
        for each in shown
    ]


def heat_map(
    sweep: Sweep,
    metric: SweepMetric,
    axes: Sequence[Axis],
    where: dict[str, object],
    words: str = "",
) -> Shown:
    """The means of a metric over two keys: a row for each value of the second."""
    across, down = axes
    fixed = {key: canonical(value) for key, value in where.items()}
    means: dict[tuple[str, str], float] = {}
    for point in points(sweep, metric):
        if all(canonical(point.settings[key]) == value for key, value in fixed.items()):
            at = canonical(point.settings[across.key]), canonical(point.settings[down.key])
            means[at] = point.mean
    columns, rows = value_names(across), value_names(down)
    values = [[means.get((column, row)) for column in columns] for row in rows]
    known = [value for row in values for value in row if value is not None]
    if not known:
        raise NarrowsError(f"{sweep.where}: no complete run has {metric.key}")
    texts = [["–" if v is None else value_text(v) for v in row] for row in values]
    unit = f" ({metric.unit})" if metric.unit else ""
    drawing = Drawing(
        f"{metric.name}{unit}",
        Ruler(key_words(across.key)),
        Ruler(key_words(down.key)),
        heat=Heat([*columns.values()], [*rows.values()], values, texts, metric.unit),
        height=1.4 + 0.4 * len(rows),
    )
    alt = (
        f"Heat map: {metric.name} from {value_text(min(known))} to {value_text(max(known))} "
        f"{metric.unit}".rstrip()
    )
    return Shown(
        f"{metric.key}-heat",
        drawing,
        alt,
        f"Means over the seeds. Across: {key_words(across.key)}; down: {key_words(down.key)}.",
    )
