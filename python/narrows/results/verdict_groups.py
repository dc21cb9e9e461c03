"""Groups a probe's verdicts: equal verdicts on a server count as one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def group_verdicts(
    found: Sequence[Mapping[str, Any]],
) -> list[tuple[str, Mapping[str, Any]]]:
    """The first verdict of each group, preceded by the vantage points for which it holds.

    Args:
        found: Verdicts as in the findings of a measurement.

    Examples:
        >>> same = {"target": "ns", "transport": "tcp", "sentence": "one write", "notes": []}
        >>> found = [{**same, "vantage": f"192.0.2.{number}"} for number in range(1, 15)]
        >>> [where for where, _ in group_verdicts(found)]
        ['14 vantage points']
        >>> [where for where, _ in group_verdicts([*found[:2], {**found[2], "notes": ["late"]}])]
        ['192.0.2.1 and 192.0.2.2', '192.0.2.3']
    """
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for part in found:
        key = (part["target"], part["transport"], part["sentence"], *part["notes"])
        groups.setdefault(key, []).append(part)
    return [(_names([part["vantage"] for part in parts]), parts[0]) for parts in groups.values()]


def _names(vantages: Sequence[str]) -> str:
    if len(vantages) > MOST_NAMES:
        return f"{len(vantages)} vantage points"
    return " and ".join(filter(None, (", ".join(vantages[:-1]), vantages[-1])))


MOST_NAMES = 3
"""The most vantage points that a line names."""
