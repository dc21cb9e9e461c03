"""The distribution `modern`: today's congestion controls and queues, for the guest of Linux 7.

The network is that of the other distribution (`dumbbell`). Each draw chooses these independently:

- the bottleneck's rate: 2 to 30 Mbit/s, uniform in its logarithm; it never changes
- the round trip: 5 to 100 ms for bulk traffic and 2 to 60 ms for DNS, uniform in its logarithm
- connections: 1 to 40, uniform in their logarithm; all BBR, all DCTCP or all CUBIC with pacing
- ECN: BBR with or without; CUBIC without, as in RFC 3168 or accurate; DCTCP with its own feedback
  or accurate
- the queue: pfifo, fq-codel, codel, fq, dualpi2, or red that marks
- its size: half to four times the bandwidth-delay product, 15 kB to 1 MB, uniform in its logarithm;
  RED's `min` and `max` as shares of it; `target` of CoDel and DualPI2 5 to 30 ms
- `ce_threshold`: 1 to 5 ms in CoDel and FQ-CoDel for DCTCP, otherwise none
- DualPI2's `step_thresh`: 1 to 5 ms; with DCTCP, and in half of the other draws, ECT(0) goes to the
  queue L (`any_ect`)
- DNS workers: 5 to 20; pauses of 50 to 500 ms on average; two thirds over UDP, half of these with a
  new port for each query; else over TCP, on new or on persistent connections

A draw is short, because a guest that runs a minute for each would take hours. BBR looks for the
minimum of the round trip every 10 s, so the time that counts has two such phases.
"""

from __future__ import annotations

import random

from narrows.agreement.dumbbell import Dumbbell, log_uniform, red
from narrows.scenario import Scenario

DURATION_S = 26.0
SETTLED_S = 6.0
"""When DNS starts; the metrics cover the time from then on."""

QUEUES = ("pfifo", "fq-codel", "codel", "fq", "dualpi2", "red")

ECN = {
    "bbr": ("false", "true"),
    "cubic": ("false", "true", '"accurate"'),
    # DCTCP asks for ECN by itself.
    "dctcp": ("", '"accurate"'),
}
"""The values of `tcp.ecn`, for each congestion control; empty if it is left out."""

LINUX_7 = ('profile = "linux-7"', "syn_linear_timeouts = 0")
"""The kernel's own TCP, with lost SYNs repeated as in the earlier sets."""


# The order of the draws is part of the distribution.
def drawn(seed: int, number: int) -> Scenario:
    """A draw of a seed, which changes only if the distribution does.

    Examples:
        >>> drawn(1, 0) == drawn(1, 0), drawn(1, 0) == drawn(1, 1)
        (True, False)
    """
    chance = random.Random(f"narrows agreement/modern/{seed}/{number}")

    def between(low: float, high: float) -> float:
        return log_uniform(chance, low, high)

    rate = round(between(2e6, 30e6), -4)
    round_trip_ms = between(5.0, 100.0)
    dns_ms = between(2.0, 60.0)
    connections = round(between(1.0, 40.0))
    congestion = chance.choice(tuple(ECN))
    ecn = chance.choice(ECN[congestion])
    workers = chance.randint(5, 20)
    pause_ms = between(50.0, 500.0)
    room = between(0.5, 4.0) * rate / 8.0 * round_trip_ms * 1e-3
    settings = [f'congestion = "{congestion}"', *LINUX_7]
    settings += [f"ecn = {ecn}"] if ecn else []
    settings += ["pacing = true"] if congestion == "cubic" else []
    network = Dumbbell(
        name=f"modern-{seed}-{number}",
        seed=number + 1,
        duration_s=DURATION_S,
        rate=rate,
        queue=_queue(chance, min(1e6, max(15e3, room)), congestion),
        round_trip_ms=round_trip_ms,
        dns_ms=dns_ms,
        connections=connections,
        tcp=", ".join(settings),
        workers=workers,
        transport=transport(chance),
        settled_s=SETTLED_S,
        pause_ms=pause_ms,
    )
    return Scenario.parse(network.text(), file=f"draw {number} of seed {seed}")


def transport(chance: random.Random) -> str:
    """The line of the transport of DNS."""
    kind = chance.choice(("udp", "udp", "tcp"))
    other = "true" if chance.random() < 0.5 else "false"
    if kind == "udp":
        return f'transport = {{ kind = "udp", retry = "windows", new_port = {other} }}'
    return (
        f'transport = {{ kind = "tcp", reuse = {other}, tcp = {{ timer_granularity = "10 ms" }} }}'
    )


def _queue(chance: random.Random, room: float, congestion: str) -> str:
    kind = chance.choice(QUEUES)
    target = log_uniform(chance, 5.0, 30.0)
    threshold = log_uniform(chance, 1.0, 5.0)
    low, width = chance.uniform(0.1, 0.3), chance.uniform(0.2, 0.5)
    probability = chance.choice((0.02, 0.05, 0.1, 0.2))
    any_ect = "true" if chance.random() < 0.5 or congestion == "dctcp" else "false"
    ecn = "true" if chance.random() < 0.5 else "false"
    packets = max(20, round(room / 1514))
    marks = f', ce_threshold = "{threshold:.1f} ms"' if congestion == "dctcp" else ""
    match kind:
        case "pfifo":
            return f'{{ kind = "pfifo", limit = {packets} }}'
        case "red":
            return red(room, low, width, probability, "true")
        case "codel" | "fq-codel":
            return (
                f'{{ kind = "{kind}", limit = {max(packets, 100)}, target = "{target:.1f} ms", '
                f"ecn = {ecn}{marks}{', idles = false' if kind == 'fq-codel' else ''} }}"
            )
        case "fq":
            flow_limit = min(100, packets)
            # No ce_threshold: it would count from the sender, whose time stamp passes veth.
            return (
                f'{{ kind = "fq", limit = {10 * packets}, flow_limit = {flow_limit}, '
                "bands = true }"
            )
        case _:
            return (
                f'{{ kind = "dualpi2", limit = {max(packets, 100)}, target = "{target:.1f} ms", '
                f'step_thresh = "{threshold:.1f} ms", any_ect = {any_ect}, '
                # Below the shaper that gives the link its rate, as for RED.
                "idles = false }"
            )
