"""`narrows compare`: runs or sweeps side by side."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from narrows.cli.complete import runs_and_sweeps
from narrows.cli.failure import UserError, say
from narrows.cli.options import (
    Json,
    Latex,
    Plots,
    Quiet,
    argument,
    form_of,
    key_values,
    listing_metrics,
    option,
    plot_files,
)

EXAMPLES = """\
# Prints the metrics of both and the difference from the first, with
# confidence intervals.
narrows compare runs/dns-behind-fifo-1 runs/dns-behind-red-1

# Writes report.html with the curves drawn over each other. Runs of one
# scenario with different seeds count as repetitions; if both sides have
# the same seeds, runs are paired by seed.
narrows compare runs/fifo-* runs/red-* --out comparison

# Compares each combination of values with the same one in the other
# sweep. A single sweep has its own combinations compared.
narrows compare runs/fifo-sweep runs/red-sweep \\
    --metric dns.first_attempt_percent

# In one sweep: compares every queue with this one, for each combination
# of the other keys.
narrows compare runs/queues --against queue=fq-codel

# For a paper: the same table for LaTeX, with its intervals.
narrows compare runs/fifo-* runs/red-* --latex > table.tex

# Two analyses of narrows ratio, or two measurements: before and after a
# change, two servers, IPv4 and IPv6.
narrows compare runs/ratio-1 runs/ratio-2
"""


def command(
    runs: Annotated[
        list[Path],
        argument(
            "RUN",
            "Two or more run folders; or sweep folders; or two folders of narrows ratio.",
            autocompletion=runs_and_sweeps,
        ),
    ],
    metric: Annotated[
        list[str] | None,
        option(
            "NAME",
            "Show only this metric, such as dns.first_attempt_percent or "
            'loss_percent; may be repeated. "?" lists all metrics.',
        ),
    ] = None,
    against: Annotated[
        list[str] | None,
        option(
            "KEY=VALUE",
            "In one sweep: compare the other values of KEY with this one, for each "
            "combination of the other keys; may be repeated.",
        ),
    ] = None,
    json_output: Json = False,
    latex: Latex = False,
    out: Annotated[Path | None, option("DIR", "Write a report with plots to this folder.")] = None,
    plots: Plots = None,
    quiet: Quiet = False,
) -> None:
    """Compare runs or sweeps: metrics, differences with intervals, and verdicts."""
    from narrows.cli.compare_ratios import are_ratios, compare_ratios
    from narrows.results.compare_folders import compare_folders
    from narrows.results.metric_names import ALL

    form = form_of(json_output=json_output, latex=latex)
    kinds = plot_files(plots, written=out is not None, needs="give --out too")
    for folder in runs:
        if not folder.exists():
            raise UserError(f"{folder}: does not exist; hint: {_hint(folder)}")
    if are_ratios(runs):
        compare_ratios(runs, form=form, out=out, kinds=kinds, quiet=quiet)
        return
    found = compare_folders(runs, key_values("--against", against))
    asked = [name for name in metric or () if name != ALL]
    if metric and not asked and form != "json":
        found.metrics.print(sys.stdout)
        return
    with listing_metrics():
        shown = found.only(asked) if asked else found
    shown.print(sys.stdout, all_metrics=ALL in (metric or ()), form=form)
    if out is not None:
        from narrows.report import write_comparison

        write_comparison(shown.shown, out, kinds)
        if not quiet:
            say(f"wrote {out}")


def _hint(folder: Path) -> str:
    """A hint at the folder that the user may have meant."""
    from narrows.scenario.suggestions import suggestion

    if not folder.parent.is_dir():
        return f"{folder.parent} does not exist either"
    known = sorted(entry.name for entry in folder.parent.iterdir() if entry.is_dir())
    return suggestion(folder.name, known) or "narrows run and narrows sweep write folders to runs/"
