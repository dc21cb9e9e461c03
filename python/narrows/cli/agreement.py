"""`narrows agreement`: compares the simulator with a kernel on randomly drawn scenarios."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from narrows.cli.failure import Exit, say
from narrows.cli.folders import free_folder
from narrows.cli.options import Json, Quiet, option, seed_option
from narrows.progress import shown

EXAMPLES = """\
# From the development set, which is for finding the causes of differences.
narrows agreement --draws 10 --seed 1

# A sealed set, which is looked at only once.
narrows agreement --draws 60 --seed 1001 --out runs/sealed

# The same command again continues where it was stopped.
narrows agreement --draws 60 --seed 1001 --out runs/sealed

# Today's congestion controls and queues, on the guest of Linux 7.
narrows agreement --draws 10 --distribution modern --backend kernel-7
"""


def command(
    draws: Annotated[
        int, typer.Option(min=1, max=10_000, metavar="N", help="Number of scenarios.")
    ] = 10,
    seed: Annotated[
        int,
        seed_option(
            "Seed of the draws: 0 to 99 for development, 1000 and above for final comparisons.", "S"
        ),
    ] = 1,
    distribution: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="What the scenarios are drawn from: classic (CUBIC, Reno), home (CAKE, FQ-PIE) or "
            "modern (BBR, DCTCP, paced CUBIC), which needs the backend kernel-7.",
        ),
    ] = "classic",
    sim_seeds: Annotated[
        int, typer.Option(min=1, max=100, metavar="K", help="Simulator runs of each scenario.")
    ] = 10,
    kernel_seeds: Annotated[
        int,
        typer.Option(
            min=1,
            max=100,
            metavar="K",
            help="Kernel runs of each scenario; one does not show how far two kernel runs differ.",
        ),
    ] = 2,
    backend: Annotated[
        str, typer.Option("--backend", metavar="NAME", help="The kernel backend.")
    ] = "kernel",
    jobs: Annotated[
        int, typer.Option(min=1, max=256, metavar="N", help="Scenarios at once; each takes a core.")
    ] = 1,
    out: Annotated[
        Path | None,
        option(
            "DIR",
            "Where agreement.json, the plots and the kernel's runs go; runs that are already "
            "there are not repeated. [default: runs/agreement-1, -2, ..]",
        ),
    ] = None,
    json_output: Json = False,
    quiet: Quiet = False,
) -> Exit:
    """Run random scenarios on a kernel and in the simulator, and report how far they differ.

    A difference above its bound is a finding, not a failure.
    """
    from narrows.agreement import DISTRIBUTIONS, conduct
    from narrows.agreement.output import agreement_table, write
    from narrows.agreement.saved import OWN
    from narrows.results.folder import refuse_others

    if distribution not in DISTRIBUTIONS:
        known = " or ".join(DISTRIBUTIONS)
        raise typer.BadParameter(f"--distribution: {distribution!r} is not known; use {known}")
    folder = out or free_folder(Path("runs"), "agreement")
    refuse_others(folder, allowed=OWN)
    with shown("agreement", quiet=quiet) as update:
        result = conduct(
            draws=draws,
            seed=seed,
            distribution=DISTRIBUTIONS[distribution],
            sim_seeds=sim_seeds,
            kernel_seeds=kernel_seeds,
            backend=backend,
            jobs=jobs,
            progress=lambda done, total: update(done / total, f"{done} of {total}"),
            folder=folder,
        )
    if not result.comparisons:
        return Exit.INTERRUPTED
    write(result, folder)
    print(json.dumps(result.document(), indent=2) if json_output else agreement_table(result))
    if not quiet:
        say(f"wrote {folder}")
    return Exit.INTERRUPTED if result.interrupted else Exit.DONE
