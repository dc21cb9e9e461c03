"""Lines of `narrows check` and `narrows run` on DNS clients.

The lines state when clients ask, when they ask again over UDP, whether they keep connections, and
when they give up. The retry schedule decides how many answers come within a second; a group
without `retry` and `profile` has Windows' schedule. A worker that keeps its port also keeps its
bucket if a queue hashes flows.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

from narrows.scenario.amounts import Duration
from narrows.scenario.cautions import cautions
from narrows.scenario.dns_transports import OverUdp
from narrows.scenario.shared_buckets import shared_buckets

if TYPE_CHECKING:
    from narrows.scenario import Scenario
    from narrows.scenario.dns import Dns


def arrivals(scenario: Scenario) -> list[str]:
    """A line for each DNS group whose queries arrive independently of answers."""
    return [
        f"{group.name}: {group.arrivals.per_second:g} queries arrive a second, and at most "
        f"{group.arrivals.outstanding:,} are under way at once"
        for group in scenario.dns
        if group.arrivals is not None
    ]


def schedules(scenario: Scenario) -> list[str]:
    """Lines on how each DNS group asks and when it gives up, and warnings."""
    lines = [
        f"{group.name}: over UDP it waits "
        f"{', '.join(str(Duration(timeout)) for timeout in group.timeouts)} "
        f"({_source(group.transport.retry, group.profile)})"
        for group in scenario.dns
        if isinstance(group.transport, OverUdp)
    ]
    lines += [_connections(group) for group in scenario.dns if group.transport.kind != "udp"]
    lines += [_limit(group) for group in scenario.dns if group.limit is not None]
    lines += [f"warning: {line}" for line in cautions(scenario)]
    lines += [
        f"warning: {name}: a worker keeps its port, and with it its bucket in the queue of "
        f"{link}, which it may share with a download for the whole run; hint: transport.new_port = "
        "true, or the profile of a client"
        for name, link in shared_buckets(scenario)
    ]
    return lines


def _connections(group: Dns) -> str:
    """Whether queries share connections, which decides how many round trips they take."""
    over = f"{group.name}: over {group.transport.kind.upper()}"
    if group.transport.reuse is not None:
        source = "transport.reuse"
    elif group.profile is not None:
        source = f'profile = "{group.profile}"'
    else:
        source = "the default"
    if not group.keeps_connections:
        more = "" if group.transport.reuse is False else "; transport.reuse = true keeps them"
        return f"{over} each query opens a connection of its own ({source}{more})"
    whose = "its workers share them" if group.transport.shared else "each worker has its own"
    return f"{over} it keeps connections: {whose} ({source})"


def _limit(group: Dns) -> str:
    """When a group gives up, and how many of its attempts over UDP begin before."""
    assert group.limit is not None, "the group has a limit"
    source = "gives_up" if group.gives_up is not None else f'profile = "{group.profile}"'
    words = f"{group.name}: it gives up a query after {Duration(group.limit)}"
    begins = accumulate(group.timeouts[:-1], initial=0) if group.timeouts else ()
    made = sum(begin < group.limit for begin in begins)
    if made < len(group.timeouts):
        words += f", so it makes only {made} of its {len(group.timeouts)} attempts over UDP"
    return f"{words} ({source})"


def _source(retry: object, profile: str | None) -> str:
    if isinstance(retry, str):
        return f'retry = "{retry}"'
    if retry is not None:
        return "retry"
    if profile is not None:
        return f'profile = "{profile}"'
    return "Windows' schedule, as neither retry nor profile is given"
