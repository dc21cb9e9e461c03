"""A scatter plot for each metric: the kernel's value against the simulator's."""

from __future__ import annotations

import io
from pathlib import Path

from matplotlib.figure import Figure

from narrows.agreement.compare import METRICS
from narrows.agreement.conduct import Agreement
from narrows.report import style
from narrows.unfinished import write_whole


@style.styled
def scatter(result: Agreement) -> Figure:
    """Plots all metrics. Both agree on the diagonal; rings are values that do not count."""
    figure = Figure(figsize=(12.6, 6.0), layout="constrained")
    axes = figure.subplots(2, 4)
    found = {name for each in result.counted for name in each.differences()}
    metrics = [metric for metric in METRICS if metric.name in found]
    for unused in axes.flat[len(metrics) :]:
        unused.remove()
    for place, metric in zip(axes.flat, metrics, strict=False):
        known = [each for each in result.counted if metric.name in each.differences()]
        pairs, others = (
            [
                (each.kernel[metric.name], each.sim[metric.name])
                for each in known
                if (metric.name in each.judged()) is counts
            ]
            for counts in (True, False)
        )
        place.set_title(metric.name, fontsize=10.5)
        unit = f" ({metric.unit})" if metric.unit else ""
        place.set_xlabel(f"kernel{unit}")
        place.set_ylabel(f"narrows{unit}")
        if not known:
            continue
        values = [value for pair in (*pairs, *others) for value in pair]
        ends = (min(values), max(values))
        place.plot(ends, ends, color=style.MUTED, linewidth=0.8)
        for drawn, inside in ((pairs, style.BLUE), (others, "none")):
            if drawn:
                place.plot(
                    *zip(*drawn, strict=True),
                    "o",
                    color=style.BLUE,
                    markerfacecolor=inside,
                    markersize=3.5,
                )
        if metric.relative:
            place.set_xscale("symlog", linthresh=max(metric.floor, 1e-3))
            place.set_yscale("symlog", linthresh=max(metric.floor, 1e-3))
    return figure


def write_scatter(result: Agreement, path: Path) -> None:
    """Writes the plots as SVG."""
    data = io.BytesIO()
    scatter(result).savefig(data, format="svg", metadata={"Date": None})
    write_whole(path, data.getvalue())
