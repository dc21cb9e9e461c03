"""`narrows kernel prepare`: builds the guest kernel."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from narrows.cli.failure import say
from narrows.cli.options import Quiet
from narrows.cli.progress import shown

EXAMPLES = """\
[bold]narrows kernel prepare[/bold] # builds a guest kernel into the user's cache, once.

[bold]narrows kernel prepare --source linux-6.1.tar.xz[/bold] # from a source of one's own.
"""


def command(
    source: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A kernel's source, as a tarball or a folder, instead of the distribution's.",
            show_default=False,
            exists=True,
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Build the guest kernel that runs in virtual time, into the user's cache.

    Nothing is built where it is there already.
    """
    from narrows.backends.kernel import prepare as build
    from narrows.backends.kernel.ways import guest_folder

    if not quiet and not (guest_folder() / "about.json").exists():
        say(f"building a guest kernel: about {build.estimate_s() / 60.0:.0f} minutes")
    with shown("prepare", quiet=quiet) as update:
        kernel = build.prepare(lambda what, done: update(done, what), source)
    print(kernel)
