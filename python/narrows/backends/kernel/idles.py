"""Queues whose `idles` no kernel follows: Linux has no setting for it.

RED's idle time begins when something asks it for a packet and it has none (`red_dequeue`, sch_red.c
of Linux 6.1). The shaper above it keeps the link's rate and never asks an empty queue
(`htb_dequeue_tree`, `tbf_dequeue`), nor do the classes of htb. Only `prio` asks empty bands: those
before the band that sends (`prio_dequeue`). DualPI2's turns start anew at such a moment, and
FQ-CoDel and FQ-PIE take the flow that was served last out of its turn. All guest kernels have these
shapers, including that of 2010.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from narrows.scenario import Scenario

_STAYS = "so a flow that has just been served is no new flow with its next packet"
_BELOW_A_SHAPER = {
    "red": ("RED", "so the average does not decay while it is empty"),
    "dualpi2": ("DualPI2", "so its turns do not start anew"),
    "fq-codel": ("FQ-CoDel", _STAYS),
    "fq-pie": ("FQ-PIE", _STAYS),
}
"""The title of each queue with `idles`, and what a shaper above it prevents."""


def idles_not_followed(scenario: Scenario) -> Iterator[str]:
    """A sentence for each queue whose given `idles` differs from what a kernel does.

    Args:
        scenario: What would be run. Only values that it gives count.
    """
    for link in scenario.links:
        for name in ("forward", "backward"):
            direction = link.direction(name)
            for place, queue, asked in _queues(direction.queue, "queue", asked=False):
                if "idles" not in queue.model_fields_set:
                    continue
                where = f"{direction.name}: {place}.idles"
                title, prevented = _BELOW_A_SHAPER[queue.kind]
                if asked:
                    yield (
                        f"{where} is not followed: on a kernel, {title} in a band notices that "
                        "it is idle only when a later band sends; hint: leave idles out"
                    )
                elif queue.idles:
                    yield (
                        f"{where} = true is not followed: on a kernel, the shaper above {title} "
                        f"never asks an empty queue, {prevented}; "
                        "hint: idles = false makes the simulator do the same"
                    )


def _queues(queue: Any, place: str, *, asked: bool) -> Iterator[tuple[str, Any, bool]]:
    """Every queue with `idles` in a queue: place, settings, and whether it is asked when empty."""
    if queue.kind in _BELOW_A_SHAPER:
        yield place, queue, asked
    elif queue.kind == "classes":
        for number, entry in enumerate(queue.classes):
            yield from _queues(entry.queue, f"{place}.classes[{number}].queue", asked=False)
    elif queue.kind == "prio":
        last = len(queue.bands) - 1
        for number, band in enumerate(queue.bands):
            inner = f"{place}.bands[{number}].queue"
            yield from _queues(band.queue, inner, asked=asked or number < last)
