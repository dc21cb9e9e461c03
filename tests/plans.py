"""What tests look up in a plan."""

from __future__ import annotations

from typing import Any

Plan = dict[str, Any]


def settings(plan: Plan, name: str | None = None) -> list[dict[str, Any]]:
    """The settings of all applications, or of those of one name, whatever their kind."""
    return [
        found
        for application in plan["applications"]
        if name in (None, application["name"])
        for found in application["kind"].values()
    ]


def connections(plan: Plan, group: str | None = None) -> list[dict[str, Any]]:
    """The TCP connections of all groups, or of one."""
    return [
        connection for found in settings(plan, group) for connection in found.get("connections", ())
    ]


def hops(plan: Plan, path: int) -> list[dict[str, Any]]:
    """The links of a path."""
    return [plan["links"][link] for link in plan["paths"][path]["links"]]
