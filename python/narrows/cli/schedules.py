"""When the clients of a scenario ask again over UDP: what `narrows check` and `narrows run` say.

That decides how many answers come within a second, and who gives no `retry` and no `profile` gets
Windows' schedule.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from narrows.scenario.quantities import span_text

if TYPE_CHECKING:
    from narrows.scenario import Scenario

__all__ = ["schedules"]


def schedules(scenario: Scenario) -> list[str]:
    """A line for each DNS group that asks over UDP."""
    return [
        f"{group.name}: over UDP it waits {', '.join(map(span_text, group.timeouts))} "
        f"({_source(group.retry, group.profile)})"
        for group in scenario.dns
        if group.transport == "udp"
    ]


def _source(retry: object, profile: str | None) -> str:
    if isinstance(retry, str):
        return f'retry = "{retry}"'
    if retry is not None:
        return "retry"
    if profile is not None:
        return f'profile = "{profile}"'
    return "Windows' schedule, as neither retry nor profile is given"
