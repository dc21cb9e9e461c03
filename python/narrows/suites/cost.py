"""What a queue costs: processor time for each packet (RFC 7928, section 11).

The same datagrams pass each queue in turn in this process, several times, and the least time
counts, because anything else on the machine only adds to it. What remains after subtracting the
time of a FIFO is the discipline's own work, and that of the simulator's events for departures,
which disciplines that decide on arrival alone (FIFO, RED, Blue, PIE) do not need. The numbers
depend on the machine; they say which discipline costs more, not what it would cost in a router.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from narrows.backends.outside import Outside
from narrows.suites.conduct import run_one
from narrows.suites.contenders import Contender
from narrows.suites.parts import Scene

ROUNDS = 3
FIFO = Contender("pfifo", {"kind": "pfifo", "limit": 1000})


def costs(
    scene: Scene,
    queues: Sequence[Contender],
    plugins: Sequence[Path] = (),
    report: Callable[[str], object] = lambda _: None,
) -> Mapping[str, float]:
    """Nanoseconds of processor time for each packet, more than with a FIFO, by queue."""
    base = _least(scene, FIFO, ())
    found = {}
    for each in queues:
        report(each.name)
        found[each.name] = _least(scene, each, plugins) - base
    return found


def _least(scene: Scene, each: Contender, plugins: Sequence[Path]) -> float:
    least = float("inf")
    for _ in range(ROUNDS):
        began = time.process_time()
        run = run_one(scene, each, 1, Outside(plugins=plugins))
        spent = time.process_time() - began
        packets = run.queues.filter(link="bottleneck.forward")["arrived_packets"][-1]
        least = min(least, 1e9 * spent / max(1, packets))
    return least
