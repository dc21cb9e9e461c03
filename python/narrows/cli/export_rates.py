"""`narrows export rates`: a link's rate over time, for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from narrows.cli.complete import runs_and_sweeps
from narrows.cli.failure import say
from narrows.cli.options import Quiet, argument, option

EXAMPLES = """\
# What the downstream link of a run carried, for mm-link(1) of Mahimahi.
narrows export rates runs/home-line-1 down.trace --link line.forward \\
    --throughput --mahimahi

# The rates that a scenario's link had, as a table that rate_trace reads.
narrows export rates runs/rate-change-1 rates.csv
"""


def command(
    run: Annotated[Path, argument("RUN", "A run folder.", autocompletion=runs_and_sweeps)],
    file: Annotated[Path, argument("FILE", "The file to write; must not exist.")],
    link: Annotated[
        str, option("NAME", "Such as bottleneck.forward. [default: the only sampled one]")
    ] = "",
    throughput: Annotated[
        bool,
        typer.Option(
            "--throughput",
            help="What the link carried between samples, not the rate of the scenario.",
        ),
    ] = False,
    mahimahi: Annotated[
        bool,
        typer.Option(
            "--mahimahi", help="Milliseconds at which 1500 bytes may leave, instead of a table."
        ),
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Write a link's rate over time: a table in CSV, or a trace in Mahimahi's format."""
    from narrows.report.rates import write_rates
    from narrows.results import Run

    write_rates(Run.load(run), file, link=link, throughput=throughput, mahimahi=mahimahi)
    if not quiet:
        say(f"wrote {file}")
