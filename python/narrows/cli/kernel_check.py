"""`narrows kernel check`: which kernels scenarios can run on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

from narrows.cli.complete import scenarios
from narrows.cli.failure import Exit, UserError
from narrows.cli.options import Json, Settings, argument, settings

EXAMPLES = """\
# Shows the kernels of this machine, and which one a run would use.
narrows kernel check

# Shows which of them can run a scenario, and what the others refuse.
narrows kernel check scenarios/dns-behind-red.toml

narrows kernel check --json
"""


def command(
    scenario: Annotated[
        Path | None, argument("SCENARIO", "A scenario file (TOML).", autocompletion=scenarios)
    ] = None,
    set: Settings = None,
    json_output: Json = False,
) -> Exit:
    """Show which kernels a scenario can run on here, and what to install for the others.

    Exit codes: 0 at least one can be used; 1 none can.
    """
    from narrows.backends.kernel.survey import survey
    from narrows.scenario import Scenario

    if set and scenario is None:
        raise UserError("--set: there is no scenario to change; hint: name its file")
    found = survey(None if scenario is None else Scenario.load(scenario, set=settings(set)))
    if json_output:
        print(json.dumps(found.document(), indent=2))
    else:
        for line in found.lines():
            print(line)
    return Exit.DONE if found.usable and not found.missing_tools else Exit.FAILED
