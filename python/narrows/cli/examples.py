"""`narrows examples`: the scenarios that come with narrows."""

from __future__ import annotations

import json

from narrows.cli.options import Json

EXAMPLES = """\
# Lists them, each with what it shows.
narrows examples

# Copies one, to edit and run it.
narrows examples copy dns-behind-red
narrows run dns-behind-red.toml
"""


def command(json_output: Json = False) -> None:
    """List the example scenarios. `narrows examples copy NAME` copies one."""
    from narrows.scenario import examples

    found = examples()
    if json_output:
        shown = [{"name": e.name, "title": e.title, "path": str(e.path)} for e in found]
        print(json.dumps(shown, indent=2))
        return
    width = max(len(each.name) for each in found)
    for each in found:
        print(f"{each.name:<{width}}  {each.title}")
