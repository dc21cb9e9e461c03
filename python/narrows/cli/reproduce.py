"""`narrows reproduce`: published experiments, with verdicts."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from narrows.cli.complete import ids as known_ids
from narrows.cli.failure import Exit, say
from narrows.cli.folders import free_folder
from narrows.cli.options import DEFAULT_BACKEND, Backend, Figures, Json, Quiet, figure_files
from narrows.progress import shown

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

QUICK_SEEDS = 3
"""Runs of each experiment with `--quick`."""

SHOWN_FAILURES = 3
"""The most failed runs that are named on the terminal."""


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
    from narrows.reproduce import Progress, document, reproduce, select
    from narrows.reproduce.output import claim_folder, print_outcome, write

    if against not in (None, "kernel"):
        raise typer.BadParameter(f"{against!r} is no reference that we have; use kernel")
    kinds = figure_files(figures)
    backends.get(backend)
    selected = select(ids or [])
    if bench is not None:
        from narrows.results.gateway_bench import GatewayBench

        if not any(paper.recorded for paper, _ in selected):
            raise typer.BadParameter("--bench is for S alone; hint: narrows reproduce S")
        # A folder that cannot be read is reported now, not after the other papers' runs.
        GatewayBench.load(bench)
    folder = out or free_folder(Path("runs"), "reproduce")
    claim_folder(folder)
    count = seeds or (QUICK_SEEDS if quick else None)
    outcomes = []
    for paper, claims in selected:
        with shown(paper.slug, quiet=quiet) as update:

            def progress(at: Progress) -> None:
                update(at.done / at.total, at.label)

            outcomes.append(
                reproduce(
                    paper,
                    claims=claims,
                    rows=paper.rows if sensitivity and not quick else (),
                    against=against is not None,
                    seeds=count,
                    quick=quick,
                    backend=backend,
                    jobs=jobs,
                    progress=progress,
                    recorded=bench,
                )
            )
        if outcomes[-1].interrupted:
            break
    try:
        write(outcomes, folder, kinds)
    finally:
        # Printed even if the disk is full, and written even if the reader of stdout has gone.
        if json_output:
            print(json.dumps(document(outcomes), indent=2))
        else:
            for outcome in outcomes:
                print_outcome(outcome, sys.stdout)
    failures = [line for outcome in outcomes for line in outcome.failures]
    for line in failures[:SHOWN_FAILURES]:
        say(f"failed: {line}")
    if len(failures) > SHOWN_FAILURES:
        say(f"failed: {len(failures) - SHOWN_FAILURES} more; all are in {folder / 'result.json'}")
    if not quiet:
        say(f"wrote {folder / 'report.html'}")
    if any(outcome.interrupted for outcome in outcomes):
        say("interrupted; the result is partial")
        return Exit.INTERRUPTED
    return Exit.DONE if all(outcome.complete for outcome in outcomes) else Exit.FAILED
