"""Settings of a valid scenario that mislead: late groups, unmarked ECN, rates that end too soon.

Such scenarios are not refused, so that one file can be swept over durations and queues. But
`narrows check` and `narrows run` warn of them: otherwise users might believe that they had measured
an effect that the run could not show.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from narrows.scenario.amounts import SECOND, DataRate, DataSize, Duration
from narrows.scenario.checks import WAYS, select_changes
from narrows.scenario.passed import direction, passed

if TYPE_CHECKING:
    from narrows.scenario.tables import Tables

__all__ = ["cautions"]


def cautions(scenario: Tables) -> Iterator[str]:
    """A sentence for each of them, with the group's name."""
    yield from _beginnings(scenario)
    yield from _unmarked(scenario)
    yield from _outlasting(scenario)


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
    if part.get("ecn") or part.get("ce_threshold") is not None:
        return True
    return any(map(_marks, part.values()))


def _outlasting(scenario: Tables) -> Iterator[str]:
    """Rates at which a full packet takes longer than they last: it blocks the link beyond."""
    steps: dict[int, list[tuple[int, int]]] = {}
    for change, links in select_changes(scenario):
        if change.rate is not None:
            for link in links:
                steps.setdefault(link, []).append((change.at, change.rate))
    for link, changes in steps.items():
        way = direction(scenario, link)
        ordered = sorted(changes, key=lambda step: step[0])
        for (at, rate), (until, _) in pairwise([(0, way.rate), *ordered]):
            framed = max(way.mtu + way.framing.overhead, way.framing.min)
            if 0 < until - at < (takes := framed * 8 * SECOND // rate):
                name = f"{scenario.links[link // 2].name}.{WAYS[link % 2]}"
                yield (
                    f'{name}: at "{DataRate(rate)}", from "{Duration(at)}" to "{Duration(until)}", '
                    f'a packet of "{DataSize(framed)}" takes "{Duration(takes)}": one that starts '
                    "then is sent to its end at this rate and delays all others after the change; "
                    "hint: a higher rate"
                )
