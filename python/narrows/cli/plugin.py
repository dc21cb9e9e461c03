"""`narrows plugin`: what a shared object offers, and where narrows.h is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from narrows.cli.failure import UserError

EXAMPLES = """\
# Compiles a queue in C, and runs it.
cc -O2 -shared -fPIC -I"$(narrows plugin --include)" mine.c -o mine.so
narrows plugin mine.so
narrows run scenario.toml --plugin mine.so \\
    --set 'links.bottleneck.forward.queue={ kind = "plugin", name = "mine" }'
"""


def command(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="The shared object.", show_default=False)
    ] = None,
    include: Annotated[
        bool, typer.Option("--include", help="Print the folder of narrows.h.")
    ] = False,
) -> None:
    """Print the queues and congestion controls of a plugin. This loads it: its code runs."""
    from narrows import _core
    from narrows.queues import INCLUDE

    if include:
        print(INCLUDE)
    if file is not None:
        try:
            queues, controls = _core.plugin_offers(file)
        except ValueError as error:
            raise UserError(str(error)) from None
        for name in queues:
            print(f"queue {name}")
        for name in controls:
            print(f"control {name}")
    elif not include:
        raise UserError("plugin: names no file; hint: narrows plugin mine.so, or --include")
