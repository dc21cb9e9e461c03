"""`narrows export flent`: a run as a data file of Flent."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from narrows.cli.failure import say
from narrows.cli.options import Quiet, argument, option

EXAMPLES = """\
# Flent draws the file, beside its own.
narrows export flent runs/home-line-1 home.flent.gz
flent -i home.flent.gz -p totals -o home.png
"""


def command(
    run: Annotated[Path, argument("RUN", "A run folder.")],
    file: Annotated[
        Path, argument("FILE", "The file to write, such as name.flent.gz; must not exist.")
    ],
    title: Annotated[
        str, option("TEXT", "The title in Flent's legends. [default: the scenario's name]")
    ] = "",
    quiet: Quiet = False,
) -> None:
    """Write a run as a data file of Flent."""
    from narrows.flent import write_flent
    from narrows.results import Run

    write_flent(Run.load(run), file, title=title)
    if not quiet:
        say(f"wrote {file}")
