"""`narrows schema`: the scenario language for editors."""

from __future__ import annotations

import json

EXAMPLES = """\
[bold]narrows schema > narrows.schema.json[/bold] # for an editor; put [bold]#:schema
narrows.schema.json[/bold] at the head of a scenario file.
"""


def command() -> None:
    """Print the JSON schema of scenario files."""
    from narrows.scenario import json_schema

    print(json.dumps(json_schema(), indent=2))
