"""`narrows lab`: the laboratory page in a browser."""

from __future__ import annotations

import sys
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from narrows.cli.complete import scenarios
from narrows.cli.failure import UserError
from narrows.cli.options import Plugins, argument, option, outside

EXAMPLES = """\
# Every example, with its knobs.
narrows lab

# A scenario of yours, which the page opens.
narrows lab scenario.toml --no-open

# One that names a queue or a congestion control of yours, in C.
narrows lab scenario.toml --plugin codel.so
"""


def command(
    scenario: Annotated[
        Path | None, argument("SCENARIO", "A scenario file.", autocompletion=scenarios)
    ] = None,
    port: Annotated[
        int, option("PORT", "Port on 127.0.0.1; 0: any free one.", "--port", min=0, max=65535)
    ] = 0,
    plugin: Plugins = None,
    open_browser: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the page in a browser.")
    ] = True,
) -> None:
    """Open the laboratory page: change a setting, and see at once what the network does.

    The simulator runs in the browser. This command serves the page, to this machine alone, until
    Ctrl-C. Scenarios with a queue or a congestion control of your own run in this command, as do
    sweeps and runs on a kernel.
    """
    from narrows.lab.server import Server, site

    parts = outside(plugin)
    if parts and scenario is None:
        raise UserError(
            "--plugin: no scenario names its parts; hint: narrows lab SCENARIO --plugin FILE"
        )
    with Server(site(scenario, parts), port, parts, scenario) as server:
        print(server.address, flush=True)
        print("Ctrl-C ends it.", file=sys.stderr)
        if open_browser:
            webbrowser.open(server.address)
        server.serve_forever()
