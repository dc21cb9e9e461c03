"""A scatter plot for each metric: the kernel's figure against the simulator's."""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure

from narrows.agreement.compare import METRICS
from narrows.agreement.conduct import Agreement
from narrows.report import style

__all__ = ["scatter", "write_scatter"]


@style.styled
def scatter(result: Agreement) -> Figure:
    """All metrics; on the diagonal both say the same."""
    figure = Figure(figsize=(9.6, 6.0), layout="constrained")
    axes = figure.subplots(2, 3)
    for place, metric in zip(axes.flat, METRICS, strict=True):
        pairs = [
            (each.kernel[metric.name], each.sim[metric.name])
            for each in result.counted
            if metric.name in each.kernel and metric.name in each.sim
        ]
        place.set_title(metric.name, fontsize=10.5)
        place.set_xlabel(f"kernel ({metric.unit})")
        place.set_ylabel(f"narrows ({metric.unit})")
        if not pairs:
            continue
        values = [value for pair in pairs for value in pair]
        ends = (min(values), max(values))
        place.plot(ends, ends, color=style.MUTED, linewidth=0.8)
        place.plot(*zip(*pairs, strict=True), "o", color=style.BLUE, markersize=3.5)
        if metric.name != "first-attempt success":
            place.set_xscale("symlog", linthresh=max(metric.floor, 1e-3))
            place.set_yscale("symlog", linthresh=max(metric.floor, 1e-3))
    return figure


def write_scatter(result: Agreement, path: Path) -> None:
    """Writes the plots as SVG."""
    scatter(result).savefig(path, format="svg", metadata={"Date": None})
