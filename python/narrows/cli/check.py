"""`narrows check`: is this scenario valid, and how large is it?"""

from __future__ import annotations

import json
from typing import Any

from narrows.cli.failure import UserError
from narrows.cli.options import Json, ScenarioFile, Settings, settings

EXAMPLES = """\
[bold]narrows check scenarios/dns-behind-red.toml[/bold] # says whether a run would start, and how
large it is.

[bold]narrows check scenarios/dns-behind-red.toml --set dns.stubs.workers=1000 --json[/bold]
"""


def command(scenario: ScenarioFile, set: Settings = None, json_output: Json = False) -> None:
    """Validate a scenario without running it and print the size of what it describes."""
    from narrows import Scenario, _core

    loaded = Scenario.load(scenario, set=settings(set))
    plan = loaded.plan()
    try:
        _core.check_plan(json.dumps(plan))
    except ValueError as error:
        raise UserError(f"{scenario}: {error}") from None
    size = plan_size(plan)
    if json_output:
        print(json.dumps({"file": str(scenario), "valid": True, **size}, indent=2))
        return
    print(f"{scenario}: valid")
    for name, value in size.items():
        words = "seconds, at most" if name == "longest_s" else name.replace("_", " ")
        print(f"  {words:<18} {value:,}")


def plan_size(plan: dict[str, Any]) -> dict[str, int | float]:
    """What a run of `plan` consists of: counts, and its longest duration in seconds."""
    kinds = [application["kind"] for application in plan["applications"]]
    clients = [kind["dns-client"] for kind in kinds if "dns-client" in kind]
    return {
        "nodes": len(plan["nodes"]),
        # A plan has one for each direction.
        "links": len(plan["links"]) // 2,
        "connections": sum(
            len(settings.get("connections", ())) for kind in kinds for settings in kind.values()
        ),
        "resolver_workers": sum(client["workers"] for client in clients),
        "queries": sum(
            client["workers"] * (client["warm_up"] + client["queries"]) for client in clients
        ),
        "longest_s": plan["end"] / 1e12,
    }
