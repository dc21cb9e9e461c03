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
from narrows.cli.options import DEFAULT_BACKEND, Backend, Figures, Json, Quiet, figure_files

EXAMPLES = """\
# Everything: each claim's published value, ours, and the verdict.
narrows reproduce

# Table I of Harhalakis et al. 2011.
narrows reproduce H1 H2

narrows reproduce H --quick --json | jq '.claims[] \\
    | select(.verdict == "fails")'

# Without other choices for what the paper leaves open.
narrows reproduce K --seeds 5 --no-sensitivity --out runs/k

Exit codes: 0 it ran, whatever the verdicts; 1 a run failed; 2 bad input; 130 interrupted. After 1
and 130 the claims that could be judged are printed and written all the same, "status": "partial".
"""


def command(
    ids: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ID",
            help="Papers (H, harhalakis-2011) or claims (H1); all by default.",
            autocompletion=known_ids,
            show_default=False,
        ),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help="3 seeds, no sensitivity rows, and shorter runs where a paper says so.",
        ),
    ] = False,
    seeds: Annotated[
        int | None,
        typer.Option(
            min=2,
            max=10_000,
            help="Runs of each experiment. [default: what the paper's README says]",
            show_default=False,
        ),
    ] = None,
    sensitivity: Annotated[
        bool,
        typer.Option(
            "--sensitivity/--no-sensitivity",
            help="Also run other choices for what a paper leaves open, which the verdict "
            "depends needs and which take most of the time.",
        ),
    ] = True,
    against: Annotated[
        str | None,
        typer.Option(
            help="Also run what only that reference has: kernel.",
            show_default=False,
        ),
    ] = None,
    bench: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="S alone: a folder of make bench-gateway, which measures and needs "
            "root. [default: the one that comes with narrows]",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Where report.html, figures and result.json go. "
            "[default: runs/reproduce-1, -2, ..]",
            show_default=False,
        ),
    ] = None,
    figures: Figures = None,
    json_output: Json = False,
    backend: Backend = DEFAULT_BACKEND,
    jobs: Annotated[
        int | None,
        typer.Option(
            min=1, help="Runs at once. [default: the number of cores]", show_default=False
        ),
    ] = None,
    quiet: Quiet = False,
) -> Exit:
    """Reproduce published experiments: published value, ours with its interval, and a verdict.

    A number holds when the 95 % interval of ours (Student's t over seeds) lies inside
    the claim's tolerance; a worded claim when its inequality holds at 95 %. It fails
    when ours lies wholly on the other side, and is undecided when it overlaps both. It
    depends when a listed sensitivity row turns one into the other, and is
    fitted when the published value chose a setting.
    """
    from narrows import backends
    from narrows.reproduce import reproduce_several, select
    from narrows.reproduce.output import claim_folder, print_outcomes, write

    if against not in (None, "kernel"):
        raise typer.BadParameter(f"{against!r} is no reference that we have; use kernel")
    kinds = figure_files(figures)
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
        # Printed even if the disk is full, and written even if the reader of stdout has gone.
        print_outcomes(found.papers, sys.stdout, as_json=json_output)
    return ended(
        found.status,
        found.failures,
        others=f"all are in {folder / 'result.json'}",
        wrote=folder / "report.html",
        interrupted="; the result is partial",
        quiet=quiet,
    )
