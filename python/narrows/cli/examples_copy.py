"""`narrows examples copy`: an example scenario to edit."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from narrows.cli.complete import examples
from narrows.cli.failure import say
from narrows.cli.options import argument

EXAMPLES = """\
# Copies dns-behind-red.toml into this folder.
narrows examples copy dns-behind-red

narrows examples copy camera --into lines
"""


def command(
    name: Annotated[
        str,
        argument("NAME", "The example, as `narrows examples` lists it.", autocompletion=examples),
    ],
    into: Annotated[
        Path,
        typer.Option("--into", metavar="DIR", help="The folder to copy to; made if it is missing."),
    ] = Path(),
) -> None:
    """Copy an example scenario, with the files that it needs; nothing is overwritten.

    The names of the copies go to stdout.
    """
    from narrows.scenario import copy_example

    copies = copy_example(name, into)
    for copy in copies:
        print(copy)
    say(f"run it with: narrows run {shlex.quote(str(copies[0]))}")
