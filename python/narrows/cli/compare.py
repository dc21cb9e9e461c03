"""`narrows compare`: runs or sweeps side by side."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from narrows.cli.complete import runs_and_sweeps
from narrows.cli.failure import UserError, say
from narrows.cli.options import Json, Quiet

EXAMPLES = """\
[bold]narrows compare runs/dns-behind-fifo-1 runs/dns-behind-red-1[/bold] # prints their figures and
the difference to the first, with confidence intervals.

[bold]narrows compare runs/fifo-* runs/red-* --out comparison[/bold] # writes report.html with the
curves drawn over each other. Runs of one scenario with different seeds count as repetitions; where
all have the same seeds, these are paired.

[bold]narrows compare runs/fifo-sweep runs/red-sweep --metric dns.first_attempt_percent[/bold]
# each combination of values with the same one of the other sweep; of one sweep alone, its
combinations.

[bold]narrows compare runs/ratio-1 runs/ratio-2[/bold] # two analyses of [bold]narrows ratio[/bold],
or two measurements: before and after a change, two servers, IPv4 and IPv6.
"""


def command(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN",
            help="Run folders, two or more; or sweep folders; or two of narrows ratio.",
            autocompletion=runs_and_sweeps,
            show_default=False,
        ),
    ],
    metric: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Only these figures, such as [bold]dns.first_attempt_percent[/bold] or "
            "[bold]loss_percent[/bold]; may be repeated.",
            show_default=False,
        ),
    ] = None,
    json_output: Json = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write a report with figures there.", show_default=False),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Set runs or sweeps side by side: figures, differences with intervals, and verdicts."""
    from narrows.cli.compare_ratios import are_ratios, compare_ratios
    from narrows.results import RUN_FILE, SWEEP_FILE, Run, Sweep, compare, compare_sweeps

    if are_ratios(runs):
        compare_ratios(runs, json_output=json_output, out=out, quiet=quiet)
        return
    of_sweeps = [folder for folder in runs if (folder / SWEEP_FILE).is_file()]
    if of_sweeps and len(of_sweeps) < len(runs):
        other = next(folder for folder in runs if folder not in of_sweeps)
        what = "a run" if (other / RUN_FILE).exists() else "no sweep"
        raise UserError(
            f"{other}: is {what}, and {of_sweeps[0]} a sweep; hint: compare runs with runs, "
            "sweeps with sweeps"
        )
    if of_sweeps:
        several = compare_sweeps([Sweep.load(folder) for folder in runs])
    elif len(runs) < 2:
        raise UserError(f"{runs[0]}: one run has nothing to be compared with; hint: name a second")
    else:
        several = [compare([Run.load(folder) for folder in runs])]
    if metric:
        several = [comparison.only(metric) for comparison in several]
    comparisons = several if of_sweeps else several[0]
    if json_output:
        documents = [comparison.document() for comparison in several]
        document = {"comparisons": documents} if of_sweeps else documents[0]
        print(json.dumps(document, indent=2))
    else:
        for number, comparison in enumerate(several):
            sys.stdout.write("\n" if number else "")
            comparison.table().print(sys.stdout)
    if out is not None:
        from narrows.report import write_comparison

        write_comparison(comparisons, out)
        if not quiet:
            say(f"wrote {out}")
