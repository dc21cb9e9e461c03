"""`narrows sweep plot`: any metric of a sweep against any of its keys."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from narrows.cli.complete import sweeps
from narrows.cli.failure import UserError, say
from narrows.cli.options import (
    Json,
    Latex,
    PlotFiles,
    Quiet,
    argument,
    form_of,
    key_values,
    listing_metrics,
    option,
    plot_files,
)
from narrows.plot_files import USUAL_PLOT_FILES

EXAMPLES = """\
# Writes plots/bursts.completion_mean_s-against-queue.limit.png and .svg.
narrows sweep plot runs/buffers --metric bursts.completion_mean_s \\
    --against queue.limit --by traffic.connections

# The end of a name is enough if no other name ends the same way.
narrows sweep plot runs/buffers --metric loss_percent \\
    --against connections --where queue.limit=100
"""

PLOTS = "plots"
"""The folder of plots, below the sweep's."""


def command(
    folder: Annotated[Path, argument("DIR", "A sweep's folder.", autocompletion=sweeps)],
    metric: Annotated[
        str, option("NAME", 'A column of the table, or the end of its name; "?" lists all.')
    ],
    against: Annotated[
        str | None, option("KEY", "The varied key on the horizontal axis. [default: the only one]")
    ] = None,
    by: Annotated[
        list[str] | None, option("KEY", "A line for each value of this key; may be repeated.")
    ] = None,
    where: Annotated[
        list[str] | None,
        option(
            "KEY=V1,V2,..",
            "Use only runs with this value or these values of the key, as printed tables show "
            "them. May be repeated, for other keys or for more values.",
        ),
    ] = None,
    x_scale: Annotated[
        str, typer.Option(metavar="SCALE", help="The horizontal axis: auto, linear or log.")
    ] = "auto",
    y_scale: Annotated[
        str, typer.Option(metavar="SCALE", help="The vertical axis: auto, linear or log.")
    ] = "auto",
    out: Annotated[
        Path | None, option("DIR", "Where the files go. [default: plots/ in the sweep's folder]")
    ] = None,
    plots: PlotFiles = None,
    json_output: Json = False,
    latex: Latex = False,
    quiet: Quiet = False,
) -> None:
    """Draw a metric of a sweep against a key: means over the seeds with 95 % intervals."""
    from narrows.report import plot_sweep
    from narrows.results import Sweep
    from narrows.results.metric_names import ALL
    from narrows.results.sweep_means import table_of_metrics

    form = form_of(json_output=json_output, latex=latex)
    kinds = plot_files(plots, USUAL_PLOT_FILES)
    sweep = Sweep.load(folder)
    if metric == ALL:
        table_of_metrics(sweep).print(sys.stdout)
        return
    if against is None:
        if len(sweep.keys) != 1:
            raise UserError(
                f"missing option '--against'; hint: one of {', '.join(sweep.keys) or 'seed'}"
            )
        against = sweep.keys[0]
    only: dict[str, list[object]] = {}
    for text in where or ():
        for key, value in key_values("--where", [text]).items():
            only.setdefault(key, []).append(value)
    fixed = {key: values[0] if len(values) == 1 else values for key, values in only.items()}
    with listing_metrics():
        plot = plot_sweep(sweep, metric, against, by or (), fixed, x_scale=x_scale, y_scale=y_scale)
    written = [str(path) for path in plot.write(out or folder / PLOTS, kinds)]
    if form == "json":
        print(json.dumps({**plot.document(), "files": written}, indent=2))
    else:
        plot.table().print(sys.stdout, latex=form == "latex")
    if not quiet:
        say(f"wrote {' and '.join(written)}")
