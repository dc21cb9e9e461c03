"""`narrows kernel check`: which kernels scenarios can run on."""

from __future__ import annotations

import json

from narrows.cli.failure import Exit
from narrows.cli.options import Json

EXAMPLES = """\
# Shows the kernels of this machine, and which one a run would use.
narrows kernel check

narrows kernel check --json
"""


def command(json_output: Json = False) -> Exit:
    """Show which kernels a scenario can run on here, and what to install for the others.

    Exit codes: 0 at least one can be used; 1 none can.
    """
    from narrows.backends.kernel.survey import survey

    found = survey()
    if json_output:
        print(json.dumps(found.document(), indent=2))
    else:
        for line in found.lines():
            print(line)
    return Exit.DONE if found.chosen else Exit.FAILED
