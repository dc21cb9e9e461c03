"""`narrows check`: is this scenario valid, and how large is it?"""

from __future__ import annotations

import json

from narrows.cli.failure import Exit, UserError
from narrows.cli.options import (
    DEFAULT_BACKEND,
    Backend,
    Json,
    Plugins,
    ScenarioFile,
    Settings,
    outside,
    settings,
)
from narrows.errors import MOST_TOGETHER, together

EXAMPLES = """\
# Checks whether a run would start, and shows how large it is.
narrows check scenarios/dns-behind-red.toml

narrows check scenarios/dns-behind-red.toml --set dns.stubs.workers=1000 \\
    --json
"""


def command(
    scenario: ScenarioFile,
    set: Settings = None,
    backend: Backend = DEFAULT_BACKEND,
    plugin: Plugins = None,
    json_output: Json = False,
) -> Exit:
    """Validate a scenario without running it, and print its size.

    If the scenario is invalid, this prints all errors, one on each line.
    """
    from narrows import Scenario, _core, backends
    from narrows.cli.schedules import arrivals, schedules
    from narrows.scenario.extent import extent

    loaded = Scenario.load(scenario, set=settings(set))
    parts = outside(plugin)
    chosen = backends.chosen_for(backend, parts)
    chosen.check(loaded)
    if parts:
        parts.refuse_unused(loaded)
    plan = loaded.plan()
    if refused := parts.wrong(plan) if parts else _core.check_plan(json.dumps(plan)):
        raise together([UserError(f"{scenario}: {why}") for why in refused[:MOST_TOGETHER]])
    size = extent(loaded, plan, every=json_output)
    if json_output:
        found = {"file": str(scenario), "valid": True, **size}
        print(json.dumps({**found, "differences": list(chosen.differences(loaded))}, indent=2))
        return Exit.DONE
    print(f"{scenario}: valid")
    for name, value in size.items():
        if value:
            words = "seconds, at most" if name == "longest_s" else name.replace("_", " ")
            print(f"  {words:<19} {value:,}")
    for line in [*arrivals(loaded), *schedules(loaded)]:
        print(line)
    for line in chosen.differences(loaded):
        print(f"warning: {line}")
    return Exit.DONE
