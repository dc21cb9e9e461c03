"""`narrows reproduce`: published experiments, with verdicts."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from narrows.cli.complete import ids as known_ids
from narrows.cli.ending import ended
from narrows.cli.failure import Exit
from narrows.cli.folders import free_folder
from narrows.cli.options import (
    DEFAULT_BACKEND,
    Backend,
    Json,
    PlotFiles,
    Quiet,
    argument,
    option,
    plot_files,
)
from narrows.plot_files import USUAL_PLOT_FILES

EXAMPLES = """\
# Everything: each claim's published value, ours, and the verdict.
narrows reproduce

# Table I of Harhalakis et al. 2011.
narrows reproduce H1 H2

# BBR beside CUBIC with a buffer of 16 bandwidth-delay products; L4S.
narrows reproduce BBR-W7
narrows reproduce L4S --no-sensitivity

narrows reproduce H --quick --json | jq '.claims[] \\
    | select(.verdict == "fails")'

# Without the other choices for what the paper leaves open.
narrows reproduce K --seeds 5 --no-sensitivity --out runs/k

Exit codes: 0 every run is complete, whatever the verdicts; 1 a run failed; 2 bad input; 130
interrupted. After 1 or 130 the claims that could be judged are still printed and written, with
"status": "partial".
"""


# Long: the arguments declare the options.
def command(
    ids: Annotated[
        list[str] | None,
        argument(
            "ID",
            "Papers (H, harhalakis-2011) or claims (H1). [default: all]",
            autocompletion=known_ids,
        ),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help="3 seeds, no other choices, and shorter runs for some papers.",
        ),
    ] = False,
    seeds: Annotated[
        int | None,
        option(
            "N", "Runs of each experiment. [default: as in the paper's README]", min=2, max=10_000
        ),
    ] = None,
    sensitivity: Annotated[
        bool,
        typer.Option(
            "--sensitivity/--no-sensitivity",
            help="Also run other choices for what a paper leaves open. They take most of the time; "
            'without them no verdict is "depends".',
        ),
    ] = True,
    against: Annotated[
        str | None, option("NAME", "Also run the experiments that only this reference has: kernel.")
    ] = None,
    bench: Annotated[
        Path | None,
        option(
            "DIR",
            "For S only: a folder that make bench-gateway wrote, which needs root. "
            "[default: the one that comes with narrows]",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        option(
            "DIR",
            "Where report.html, plots and result.json go. [default: runs/reproduce-1, -2, ..]",
        ),
    ] = None,
    plots: PlotFiles = None,
    json_output: Json = False,
    backend: Backend = DEFAULT_BACKEND,
    jobs: Annotated[
        int | None, option("N", "Runs at once. [default: the number of cores]", min=1)
    ] = None,
    quiet: Quiet = False,
) -> Exit:
    """Reproduce published experiments: published value, ours with its interval, and a verdict.

    A number holds if the 95 % interval of ours (Student's t over seeds) lies inside the claim's
    tolerance, and a claim in words if its inequality holds at 95 %. A claim fails if our interval
    lies wholly outside, and is undecided if it lies on both sides. The verdict is "depends" if a
    listed choice turns "holds" into "fails" or the reverse, and "fitted" if a setting was
    chosen to match the published value.
    """
    from narrows import backends
    from narrows.reproduce import reproduce_several, select
    from narrows.reproduce.output import claim_folder, print_outcomes, write

    if against not in (None, "kernel"):
        raise typer.BadParameter(f"{against!r} is not a known reference; use kernel")
    kinds = plot_files(plots, USUAL_PLOT_FILES)
    backends.get(backend)
    selected = select(ids or [], bench)
    folder = claim_folder(out or free_folder(Path("runs"), "reproduce"))
    found = reproduce_several(
        selected,
        sensitivity=sensitivity,
        against=against is not None,
        seeds=seeds,
        quick=quick,
        backend=backend,
        jobs=jobs,
        recorded=bench,
        quiet=quiet,
    )
    try:
        write(found.papers, folder, kinds)
    finally:
        # This prints even if the disk is full, and writes even if the reader of stdout has gone.
        print_outcomes(found.papers, sys.stdout, as_json=json_output)
    return ended(
        found.status,
        found.failures,
        others=f"all are in {folder / 'result.json'}",
        wrote=folder / "report.html",
        interrupted="; the result is partial",
        quiet=quiet,
    )
