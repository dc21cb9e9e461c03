"""Where the fq of a kernel differs from the scenario's.

- Linux 6.7 gave fq three bands and a way past its flows, and has no setting for it. Earlier kernels
  refuse `bands = true`.
- TCP stamps its packets with the time at which they may leave. veth and routers keep this stamp
  (since Linux 5.18), and an fq behind them takes it for the time of arrival. So its `ce_threshold`
  counts from the sender, and marks nearly every packet on a path that is longer than the threshold
  (docs/kernel-notes.md). A network card would not pass the stamp on.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from narrows.backends.backend import BackendError
from narrows.backends.kernel import kernels
from narrows.backends.kernel.available import choose

if TYPE_CHECKING:
    from narrows.scenario import Scenario

FEATURE = "bands of fq"
_SINCE = (6, 7)


def fq_differences(scenario: Scenario, kernel: str | None) -> Iterator[str]:
    """A sentence for each fq without bands, if the kernel's has them, and for each `ce_threshold`.

    Args:
        scenario: What would be run.
        kernel: The name of the kernel; None for the first that is available.
    """
    found = [
        (f"{direction.name}: {place}", queue)
        for link in scenario.links
        for direction in (link.direction("forward"), link.direction("backward"))
        for place, queue in _all(direction.queue, "queue")
    ]
    plain = [place for place, queue in found if not queue.bands]
    for place in plain if plain and _has_bands(kernel) else ():
        yield (
            f"{place}.bands = false is not followed: this kernel's fq has bands; "
            "hint: bands = true makes the simulator do the same"
        )
    for place, queue in found:
        if queue.ce_threshold is not None:
            yield (
                f"{place}.ce_threshold counts from TCP's time stamp at the sender, which veth "
                "passes on and a cable does not; hint: codel and fq-codel count from the arrival"
            )


def wanted(queue: Mapping[str, Any]) -> bool:
    """Whether a queue of a plan is, or has inside, an fq with bands."""
    ((kind, settings),) = queue.items()
    if kind == "fq":
        return bool(settings["bands"])
    inner = settings.get("classes" if kind == "classes" else "bands", ())
    return kind in ("prio", "classes") and any(wanted(each["queue"]) for each in inner)


def _all(queue: Any, place: str) -> Iterator[tuple[str, Any]]:
    """Every fq in a queue, with its place."""
    if queue.kind == "fq":
        yield place, queue
    elif queue.kind in ("prio", "classes"):
        name = "bands" if queue.kind == "prio" else "classes"
        for number, entry in enumerate(getattr(queue, name)):
            yield from _all(entry.queue, f"{place}.{name}[{number}].queue")


def _has_bands(kernel: str | None) -> bool:
    if kernel in kernels.names():
        return FEATURE not in kernels.find(kernel).lacks
    if kernel is None:
        try:
            kernel = choose().name
        except BackendError:
            return False
    version = tuple(map(int, re.findall(r"\d+", platform.release())[:2]))
    return kernel == "host" and version >= _SINCE
