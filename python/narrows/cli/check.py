"""`narrows check`: is this scenario valid, and how large is it?"""

from __future__ import annotations

import json

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


def plan_size(plan: dict[str, object]) -> dict[str, int | float]:
    """What a run of `plan` consists of: counts, and its longest duration in seconds."""
    resolvers = _list(plan, "resolvers")
    end = plan["end"]
    assert isinstance(end, int), "a plan's times are integer picoseconds"
    return {
        "nodes": len(_list(plan, "nodes")),
        # A plan has one for each direction.
        "links": len(_list(plan, "links")) // 2,
        "connections": len(_list(plan, "connections")),
        "resolver_workers": sum(int(group["workers"]) for group in resolvers),
        "queries": sum(
            int(group["workers"]) * (int(group["warm_up"]) + int(group["queries"]))
            for group in resolvers
        ),
        "longest_s": end / 1e12,
    }


def _list(plan: dict[str, object], key: str) -> list[dict[str, int]]:
    found = plan[key]
    assert isinstance(found, list), f"a plan's {key} are a list"
    return found
