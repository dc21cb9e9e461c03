"""Writes the plans that the fuzz target `plan` starts from, one for each fuzz/plans/*.toml."""

from __future__ import annotations

import json
from pathlib import Path

from narrows import Scenario

PLANS = Path(__file__).parents[1] / "fuzz" / "plans"


def text(scenario: Path) -> str:
    """A scenario's plan, as JSON with a line for each value."""
    return json.dumps(Scenario.load(scenario).plan(), indent=1) + "\n"


if __name__ == "__main__":
    for scenario in sorted(PLANS.glob("*.toml")):
        scenario.with_suffix(".json").write_text(text(scenario), encoding="utf-8")
