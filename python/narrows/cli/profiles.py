"""`narrows profiles`: the named TCP profiles and their settings."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer

from narrows.cli.options import Json

EXAMPLES = """\
# Shows all profiles side by side.
narrows profiles

narrows profiles --json | jq '."linux-6"'
"""


def command(
    json_output: Json = False,
    differing: Annotated[
        bool, typer.Option("--differing", help="Show only settings in which profiles differ.")
    ] = False,
) -> None:
    """Print the named TCP profiles with all their settings."""
    from rich.console import Console
    from rich.table import Table

    from narrows import _core

    found: dict[str, dict[str, Any]] = {
        name: json.loads(_core.tcp_profile(name)) for name in _core.tcp_profiles()
    }
    if json_output:
        print(json.dumps(found, indent=2))
        return
    table = Table("setting", *found)
    for key in next(iter(found.values()), {}):
        values = [_text(key, profile.get(key)) for profile in found.values()]
        if not differing or len(set(values)) > 1:
            table.add_row(key, *values)
    Console(file=sys.stdout).print(table)


def _text(key: str, value: object) -> str:
    from narrows.scenario.amounts import Duration

    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) and (key.endswith("rto") or key == "timer_granularity"):
        return str(Duration(value))
    if isinstance(value, dict):
        return ", ".join(f"{name} {_text('rto', part)}" for name, part in value.items())
    return str(value)
