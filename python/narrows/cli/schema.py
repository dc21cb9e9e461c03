"""`narrows schema`: the scenario language for editors."""

from __future__ import annotations

import json

EXAMPLES = """\
# For an editor. Put #:schema narrows.schema.json at the top of a
# scenario file.
narrows schema > narrows.schema.json
"""


def command() -> None:
    """Print the JSON schema of scenario files."""
    from narrows.scenario import json_schema

    print(json.dumps(json_schema(), indent=2))
