"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from narrows.backends import DEFAULT
from narrows.cli.complete import backends, scenarios
from narrows.cli.failure import UserError

ScenarioFile = Annotated[
    Path,
    typer.Argument(
        metavar="SCENARIO",
        help="The scenario file (TOML).",
        autocompletion=scenarios,
        show_default=False,
    ),
]

Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Change a key of the scenario, such as "
        "[bold]queue.probability=0.2[/bold] (the monitored queue) or "
        "[bold]links.bottleneck.rate='5 Mbit/s'[/bold]; may be repeated.",
        show_default=False,
    ),
]

DEFAULT_BACKEND = DEFAULT

Backend = Annotated[
    str,
    typer.Option(
        "--backend",
        metavar="NAME",
        help="What runs scenarios: [bold]sim[/bold], [bold]kernel[/bold], or "
        "[bold]program:COMMAND[/bold], a simulator with parts of your own.",
        autocompletion=backends,
    ),
]

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Nothing on stderr but errors.")]


def settings(given: Sequence[str] | None) -> dict[str, str]:
    """`KEY=VALUE` texts as a mapping.

    Raises:
        UserError: A text has no `=`, no key, or the key comes twice.
    """
    found: dict[str, str] = {}
    for text in given or []:
        key, equals, value = text.partition("=")
        key = key.strip()
        if not equals or not key:
            raise UserError(f"--set {text}: not KEY=VALUE; hint: such as --set seed=2")
        if key in found:
            raise UserError(f"--set {key}: given twice; hint: keep one")
        found[key] = value.strip()
    return found
