"""The option `--seed` has one range in all commands, which is that of the scenario's key."""

from __future__ import annotations

from importlib import import_module
from typing import Any, get_type_hints

from narrows.cli.app import COMMANDS
from narrows.scenario import json_schema


def seed_options() -> dict[str, Any]:
    """The option of each command that has it."""
    found = {}
    for name, module in COMMANDS.items():
        command = import_module(f"narrows.cli.{module}").command
        hints = get_type_hints(command, include_extras=True)
        if "seed" in hints:
            (found[name],) = hints["seed"].__metadata__
    return found


def test_every_seed_has_the_range_of_the_key() -> None:
    key = json_schema()["properties"]["seed"]
    assert (key["minimum"], key["maximum"]) == (0, 2**63 - 1)
    options = seed_options()
    assert {"run", "agreement", "resolve", "monitor"} <= options.keys()
    for name, option in options.items():
        assert (option.min, option.max) == (key["minimum"], key["maximum"]), name
