"""RED and DualPI2 queues whose `idles` no kernel follows: Linux has no setting for it.

RED's idle time begins when something asks it for a packet and it has none (`red_dequeue`, sch_red.c
of Linux 6.1). The shaper above it keeps the link's rate and never asks an empty queue
(`htb_dequeue_tree`, `tbf_dequeue`), nor do the classes of htb. Only `prio` asks empty bands: those
before the band that sends (`prio_dequeue`). DualPI2's turns start anew at such a moment, too. All
guest kernels have these shapers, including that of 2010.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from narrows.scenario import Scenario


def idle_red(scenario: Scenario) -> Iterator[str]:
    """A sentence for each RED or DualPI2 whose given `idles` differs from what a kernel does.

    Args:
        scenario: What would be run. Only values that it gives count.
    """
    for link in scenario.links:
        for name in ("forward", "backward"):
            direction = link.direction(name)
            for place, red, asked in _reds(direction.queue, "queue", asked=False):
                where = f"{direction.name}: {place}.idles"
                if "idles" not in red.model_fields_set:
                    continue
                if asked:
                    title = "DualPI2" if red.kind == "dualpi2" else "RED"
                    yield (
                        f"{where} is not followed: on a kernel, {title} in a band notices that "
                        "it is idle only when a later band sends; hint: leave idles out"
                    )
                elif red.idles and red.kind == "dualpi2":
                    yield (
                        f"{where} = true is not followed: on a kernel, the shaper above DualPI2 "
                        "never asks an empty queue, so its turns do not start anew; "
                        "hint: idles = false makes the simulator do the same"
                    )
                elif red.idles:
                    yield (
                        f"{where} = true is not followed: on a kernel, the shaper above RED never "
                        "asks an empty queue, so the average does not decay while it is empty; "
                        "hint: idles = false makes the simulator do the same"
                    )


def _reds(queue: Any, place: str, *, asked: bool) -> Iterator[tuple[str, Any, bool]]:
    """Every RED and DualPI2 in a queue: place, settings, and whether it is asked when empty."""
    if queue.kind in ("red", "dualpi2"):
        yield place, queue, asked
    elif queue.kind == "classes":
        for number, entry in enumerate(queue.classes):
            yield from _reds(entry.queue, f"{place}.classes[{number}].queue", asked=False)
    elif queue.kind == "prio":
        last = len(queue.bands) - 1
        for number, band in enumerate(queue.bands):
            inner = f"{place}.bands[{number}].queue"
            yield from _reds(band.queue, inner, asked=asked or number < last)
