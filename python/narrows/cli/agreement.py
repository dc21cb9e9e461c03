"""`narrows agreement`: the simulator against a kernel on scenarios drawn at random."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from narrows.cli.failure import Exit, UserError, say
from narrows.cli.folders import free_folder
from narrows.cli.options import Json, Quiet, seed_option
from narrows.progress import shown

EXAMPLES = """\
# The development set: to find mechanisms with.
narrows agreement --draws 10 --seed 1

# A sealed set: looked at once.
narrows agreement --draws 60 --seed 1001 --out runs/sealed

# The same command again goes on where it was stopped.
narrows agreement --draws 60 --seed 1001 --out runs/sealed
"""

WORST = 10


def command(
    draws: Annotated[int, typer.Option(min=1, max=10_000, metavar="N", help="How many.")] = 10,
    seed: Annotated[
        int,
        seed_option(
            "Seed of the draws: 0 to 99 are for development, 1000 and above are sealed.", "S"
        ),
    ] = 1,
    sim_seeds: Annotated[
        int, typer.Option(min=1, max=100, metavar="K", help="Runs of each in the simulator.")
    ] = 10,
    backend: Annotated[
        str, typer.Option("--backend", metavar="NAME", help="The kernel backend.")
    ] = "kernel",
    jobs: Annotated[
        int, typer.Option(min=1, max=256, metavar="N", help="Draws at once; a core for each.")
    ] = 1,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Where agreement.json, the plots and the kernel's runs go; runs that are there "
            "are not repeated. [default: runs/agreement-1, -2, ..]",
            show_default=False,
        ),
    ] = None,
    json_output: Json = False,
    quiet: Quiet = False,
) -> Exit:
    """Run scenarios drawn at random on a kernel and in the simulator, and say how far they differ.

    A difference above its bound is a finding, not a failure.
    """
    from narrows.agreement import conduct
    from narrows.agreement.figures import write_scatter
    from narrows.agreement.kept import OWN

    folder = out or free_folder(Path("runs"), "agreement")
    if folder.exists() and any(path.name not in OWN for path in folder.iterdir()):
        raise UserError(f"{folder}: holds something else; hint: name another folder")
    with shown("agreement", quiet=quiet) as update:
        result = conduct(
            draws=draws,
            seed=seed,
            sim_seeds=sim_seeds,
            backend=backend,
            jobs=jobs,
            told=lambda done, total: update(done / total, f"{done} of {total}"),
            folder=folder,
        )
    if not result.comparisons:
        return Exit.INTERRUPTED
    document = result.document()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "agreement.json").write_text(json.dumps(document, indent=2) + "\n")
    write_scatter(result, folder / "scatter.svg")
    if json_output:
        print(json.dumps(document, indent=2))
    else:
        print(_table(document, result), file=sys.stdout)
    if not quiet:
        say(f"wrote {folder}")
    return Exit.INTERRUPTED if result.interrupted else Exit.DONE


def _table(document: dict[str, object], result: object) -> str:
    from narrows.agreement import METRICS, RESPONSE, Agreement
    from narrows.results.text import TextTable

    assert isinstance(result, Agreement), "the command has made one"
    rows = [
        (
            entry["metric"],
            _number(entry["mean_absolute_difference"], entry["unit"]),
            _number(entry["by_chance"], entry["unit"]),
            _number(entry["bound"], entry["unit"]),
            _number(entry["within_twice_percent"], "%"),
            "yes" if entry["agrees"] else "no",
        )
        for entry in result.summary()
    ]
    worst = sorted(result.counted, key=lambda each: -each.worst())[:WORST]
    bounds = {metric.name: metric.bound_shown for metric in METRICS}
    listed = []
    for each in worst:
        name, by = max(each.judged().items(), key=lambda found: abs(found[1]) / bounds[found[0]])
        values = f"{each.kernel[name]:.4g} and {each.sim[name]:.4g}"
        listed.append((f"{each.number}", name, f"{by:+.3g}", values, each.what))
    notes = [
        f"draw {each.number} is left out: {each.left_out}"
        for each in result.comparisons
        if each.left_out
    ]
    if result.at_the_jump:
        every = next(entry for entry in result.summary() if entry["metric"] == RESPONSE)
        notes.append(
            f"response time is not compared in {len(result.at_the_jump)} draws where 95 % of the "
            "queries are answered by one attempt, as nearly as one can tell; with them its mean "
            f"difference is {_number(every['mean_absolute_difference_with_jumps'], '%')}"
        )
    kernel = result.kernel
    clock = "virtual" if kernel.get("virtual_time") else "real"
    return str(
        TextTable(
            f"{document['set']} set, seed {result.seed}: {len(result.counted)} draws, "
            f"Linux {kernel.get('version')}, {clock} time",
            ("metric", "mean difference", "by chance", "bound", "within twice that", "agrees"),
            [("", rows), ("worst draws (kernel and narrows)", listed)],
            notes,
        )
    )


def _number(value: float | None, unit: str) -> str:
    return "-" if value is None else f"{value:.3g} {unit}"
