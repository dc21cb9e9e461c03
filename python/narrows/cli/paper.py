"""`narrows paper`: one folder with what a reader needs to repeat a paper's numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from narrows.cli.complete import runs_and_sweeps
from narrows.cli.failure import Exit, UserError, say
from narrows.cli.options import Plugins, Quiet, Workers, argument, option
from narrows.progress import shown

EXAMPLES = """\
# Writes paper/ with the scenarios, commands, tables (LaTeX, CSV), plots
# (PDF), versions and checksums of these runs, and compares them.
narrows paper runs/fifo-* runs/red-*

# Adds the scenario's file as you wrote it, with its comments.
narrows paper runs/buffers --scenario mine.toml --out artifact

# Is the folder as it was written? Do the same numbers come out again?
narrows paper --check artifact
narrows paper --check artifact --repeat

Exit codes: 0 done; 1 --check found differences; 2 bad input; 130 interrupted.
"""


def command(
    folders: Annotated[
        list[Path],
        argument(
            "RUN",
            "Folders of runs and sweeps; with --check, one that narrows paper wrote.",
            autocompletion=runs_and_sweeps,
        ),
    ],
    out: Annotated[
        Path | None, option("DIR", "The folder, which must be new or empty. [default: paper]")
    ] = None,
    scenario: Annotated[
        list[Path] | None,
        option("FILE", "Also add this scenario file, as it is; may be repeated."),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Compare a folder with its checksums instead.")
    ] = False,
    repeat: Annotated[
        bool,
        typer.Option(
            "--repeat", help="With --check: also run everything again, and compare the tables."
        ),
    ] = False,
    plugin: Plugins = None,
    workers: Workers = None,
    quiet: Quiet = False,
) -> Exit:
    """Put what a reader needs to repeat runs, sweeps and comparisons into one folder."""
    if check:
        if out is not None or scenario:
            raise UserError("--check: only reads; hint: leave out --out and --scenario")
        if len(folders) != 1:
            raise UserError("--check: takes one folder; hint: check them one after the other")
        return _check(folders[0], plugin or [], workers, repeat=repeat, quiet=quiet)
    if repeat or plugin or workers is not None:
        raise UserError("--repeat, --plugin and --workers: are for --check; hint: add --check")
    from narrows.paper import write_paper

    with shown("paper", quiet=quiet) as update:
        path = write_paper(folders, out or Path("paper"), scenario or (), update)
    if not quiet:
        say(f"wrote {path}")
    return Exit.DONE


def _check(
    folder: Path, plugins: list[Path], workers: int | None, *, repeat: bool, quiet: bool
) -> Exit:
    from narrows.paper import check
    from narrows.paper import repeat as again

    faults = check(folder)
    for fault in faults:
        print(fault)
    if faults or not repeat:
        print(
            f"{folder}: {len(faults) or 'no'} {'difference' if len(faults) == 1 else 'differences'}"
        )
        return Exit.FAILED if faults else Exit.DONE
    code = Exit.DONE
    with shown("paper", quiet=quiet) as update:
        for each in again(folder, plugins, update, workers):
            print(f"{each.at}: {each.outcome}: {each.words}")
            code = Exit.FAILED if each.outcome == "differs" else code
    return code
