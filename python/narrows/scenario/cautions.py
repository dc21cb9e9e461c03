"""Settings of a valid scenario that mislead: late groups, unmarked ECN, rates that end too soon.

Such scenarios are not refused, so that one file can be swept over durations and queues. But
`narrows check` and `narrows run` warn of them: otherwise users might believe that they had measured
an effect that the run could not show.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from narrows.scenario.amounts import SECOND, DataRate, DataSize, Duration
from narrows.scenario.checks import DIRECTIONS, select_changes
from narrows.scenario.passed import direction, passed

if TYPE_CHECKING:
    from narrows.scenario.changes import Change
    from narrows.scenario.tables import Tables


def cautions(scenario: Tables) -> Iterator[str]:
    """A sentence for each of them, with the group's name."""
    yield from _beginnings(scenario)
    yield from _unmarked(scenario)
    yield from _outlasting(scenario)
    for group in scenario.dns:
        if group.is_guessed:
            over = {"http3": "HTTP/3"}.get(group.transport.kind, group.transport.kind.upper())
            yield (
                f"{group.name}: {group.profile} was not captured over {over}: handshakes, "
                "padding and Fast Open are as without a profile; timeouts, tries and persistent "
                "connections are those over TCP"
            )


def _beginnings(scenario: Tables) -> Iterator[str]:
    groups = [group for _, group in scenario.groups()]
    if not groups:
        yield "no group of traffic or DNS, so nothing is sent; hint: add [[traffic]] or [[dns]]"
        return
    end = f'the end of the run ("{Duration(scenario.duration)}")'
    ends = [(group.name, *group.beginnings()) for group in groups]
    if all(first >= scenario.duration for _, first, _ in ends):
        yield f"no group begins before {end}, so nothing is sent; hint: a longer duration"
        return
    for name, first, last in ends:
        if first >= scenario.duration:
            yield (
                f'{name}: begins at "{Duration(first)}", not before {end}, so it sends nothing; '
                "hint: a longer duration"
            )
        elif last >= scenario.duration:
            yield (
                f'{name}: some of it may begin as late as "{Duration(last)}", not before {end}, '
                "and then sends nothing; hint: a longer duration"
            )


def _unmarked(scenario: Tables) -> Iterator[str]:
    groups = [group for _, group in scenario.groups() if group.wants_ecn]
    if not groups:
        return
    network = scenario.network()
    known: dict[int, bool] = {}

    def marks(index: int) -> bool:
        if index not in known:
            known[index] = _marks(direction(scenario, index).queue.plain())
        return known[index]

    for group in groups:
        if not any(marks(index) for leg in group.legs() for index in passed(network, leg)):
            yield (
                f"{group.name}: uses ECN, but no queue on its path marks, so ECN has no effect; "
                "hint: ecn = true in the queue of the bottleneck"
            )


def _marks(part: Any) -> bool:
    """Whether a queue, or one within it, marks packets."""
    if isinstance(part, list):
        return any(map(_marks, part))
    if not isinstance(part, dict):
        return False
    if "cake" in part or "dualpi2" in part:
        return True
    if part.get("ecn") or part.get("ce_threshold") is not None:
        return True
    return any(map(_marks, part.values()))


def _outlasting(scenario: Tables) -> Iterator[str]:
    """Rates at which a full packet takes longer than they last: it blocks the link beyond."""
    changes: dict[int, list[Change]] = {}
    for change, links in sorted(select_changes(scenario), key=lambda entry: entry[0].at):
        for link in links:
            changes.setdefault(link, []).append(change)
    rates = {link: _rates(direction(scenario, link).rate, of) for link, of in changes.items()}
    for number, each in enumerate(scenario.links):
        for side, steps in each.tables_of_rates():
            rates[2 * number + side] = [(at, rate or None) for at, rate in steps]
    for link, of_link in rates.items():
        own = direction(scenario, link)
        framed = max(own.mtu + own.framing.overhead, own.framing.min)
        for (at, rate), (until, later) in pairwise(of_link):
            # A packet that the link cuts off by going down delays no other.
            if rate and later and until - at < (takes := framed * 8 * SECOND // rate):
                name = f"{scenario.links[link // 2].name}.{DIRECTIONS[link % 2]}"
                yield (
                    f'{name}: at "{DataRate(rate)}", from "{Duration(at)}" to "{Duration(until)}", '
                    f'a packet of "{DataSize(framed)}" takes "{Duration(takes)}": one that starts '
                    "then is sent to its end at this rate and delays all others after the change; "
                    "hint: a higher rate"
                )


def _rates(rate: int, changes: Sequence[Change]) -> list[tuple[int, int | None]]:
    """The times at which a link's rate becomes another, with this rate; None while it is down."""
    found: list[tuple[int, int | None]] = [(0, rate)]
    is_up = True
    for change in changes:
        rate = rate if change.rate is None else change.rate
        is_up = is_up if change.state is None else change.state == "up"
        if found[-1][0] == change.at:
            found.pop()
        now = rate if is_up else None
        if not found or found[-1][1] != now:
            found.append((change.at, now))
    return found
