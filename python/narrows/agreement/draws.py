"""Scenarios drawn from a stated distribution.

The network is a dumbbell (`dumbbell`). Each draw chooses these independently:

- the bottleneck's rate: 1 to 50 Mbit/s, uniform in its logarithm
- the round trip: 5 to 300 ms for bulk traffic and 2 to 60 ms for DNS, uniform in its logarithm
- the queue: bfifo, pfifo, red, codel, fq-codel, pie or sfq; in half of the draws one that can mark,
  marks, and meets connections of which half or all use ECN
- its size: a quarter to four times the bandwidth-delay product, 15 kB to 2 MB, uniform in its
  logarithm; RED's `min` and `max` as shares of it; CoDel's and PIE's `target` 2 to 30 ms
- buckets of FQ-CoDel and SFQ: 1024, which flows then share by chance, or 65536; one draw in eight
  has one of these two, with 1024 buckets and 60 to 200 connections
- connections: 1 to 200, uniform in their logarithm; ECN share 0, 0.5 or 1; CUBIC or Reno
- DNS workers: 5 to 40; pauses of 50 to 500 ms on average; a third over UDP, half of these with a
  new port for each query; else over TCP, TLS, HTTPS or QUIC, on new or on persistent connections
- the ring: none in two draws of three, otherwise 2 to 40 ms at the line's rate
- the rate: without a ring, it changes twice in every third draw, to half to twice its first value
"""

from __future__ import annotations

import random

from narrows.agreement.dumbbell import Dumbbell, log_uniform, red
from narrows.scenario import Scenario

DURATION_S = 80.0
"""With 40 s, two runs of the same draw differ by 0.64 points of first-attempt success on average,
and by more than two points in six of 60 draws. With 80 s, they differ by 0.41 points on average,
and by more than two in three or four draws."""
SETTLED_S = 12.0
"""When DNS starts; the metrics cover the time from then on."""

QUEUES = ("bfifo", "pfifo", "red", "codel", "fq-codel", "pie", "sfq")
MARKING = ("red", "codel", "fq-codel", "pie")
HASHING = ("fq-codel", "sfq")

CHANGES_S = (34.0, 57.0)
"""When the rate changes, if it does."""

DEVELOPMENT = range(100)
SEALED_FROM = 1000


def set_of(seed: int) -> str:
    """The set that a seed's draws belong to.

    Examples:
        >>> set_of(1), set_of(500), set_of(1000)
        ('development', 'other', 'sealed')
    """
    if seed in DEVELOPMENT:
        return "development"
    return "sealed" if seed >= SEALED_FROM else "other"


# The order of the draws is part of the distribution.
def drawn(seed: int, number: int) -> Scenario:
    """A draw of a seed, which changes only if the distribution does.

    Examples:
        >>> drawn(1, 0) == drawn(1, 0), drawn(1, 0) == drawn(1, 1)
        (True, False)
    """
    chance = random.Random(f"narrows agreement/{seed}/{number}")

    def between(low: float, high: float) -> float:
        return log_uniform(chance, low, high)

    rate = round(between(1e6, 50e6), -4)
    round_trip_ms = between(5.0, 300.0)
    dns_ms = between(2.0, 60.0)
    crowded = chance.random() < 1 / 8
    connections = round(between(60.0 if crowded else 1.0, 200.0))
    marks = chance.random() < 0.5
    share = chance.choice((0.5, 1.0) if marks else (0.0, 0.5, 1.0))
    congestion = chance.choice(("cubic", "reno"))
    workers = chance.randint(5, 40)
    pause_ms = between(50.0, 500.0)
    room = between(0.25, 4.0) * rate / 8.0 * round_trip_ms * 1e-3
    queue = _queue(chance, min(2e6, max(15e3, room)), marks=marks, crowded=crowded)
    ring_ms = between(2.0, 40.0) if chance.random() < 1 / 3 else 0.0
    ring_bytes = max(3100, round(rate / 8.0 * ring_ms * 1e-3))
    ring = f'ring = {{ bytes = "{ring_bytes} B" }}\n' if ring_ms else ""
    factors = [between(0.5, 2.0) for _ in CHANGES_S] if chance.random() < 1 / 3 else []
    changes = "".join(
        f'[[changes]]\nat = "{at:g} s"\nlink = "bottleneck.forward"\n'
        f'rate = "{round(rate * factor)} bit/s"\n\n'
        for at, factor in zip(CHANGES_S, factors, strict=False)
        if not ring_ms
    )
    transport = _transport(chance)
    network = Dumbbell(
        name=f"draw-{seed}-{number}",
        seed=number + 1,
        duration_s=DURATION_S,
        rate=rate,
        queue=queue,
        ring=ring,
        round_trip_ms=round_trip_ms,
        dns_ms=dns_ms,
        changes=changes,
        connections=connections,
        share=f"ecn_share = {share}\n",
        tcp=f'congestion = "{congestion}"',
        workers=workers,
        transport=transport,
        settled_s=SETTLED_S,
        pause_ms=pause_ms,
    )
    return Scenario.parse(network.text(), file=f"draw {number} of seed {seed}")


def _transport(chance: random.Random) -> str:
    kind = chance.choice(("udp", "udp", "tcp", "tls", "https", "quic"))
    other = "true" if chance.random() < 0.5 else "false"
    if kind == "quic":
        # As quinn-proto 0.11, which the kernel backend has, does by itself.
        quic = '{ probes = "quinn", undecryptable_packets = 0 }'
        return f'transport = {{ kind = "quic", reuse = {other}, quic = {quic} }}'
    if kind == "udp":
        return f'transport = {{ kind = "udp", retry = "windows", new_port = {other} }}'
    tcp = '{ timer_granularity = "10 ms" }'
    return f'transport = {{ kind = "{kind}", reuse = {other}, tcp = {tcp} }}'


def _queue(chance: random.Random, room: float, *, marks: bool, crowded: bool) -> str:
    kinds = MARKING if marks else QUEUES
    kind = chance.choice([each for each in kinds if each in HASHING] if crowded else kinds)
    ecn = "true" if marks else "false"
    buckets = 1024 if crowded else chance.choice((1024, 65536))
    target = log_uniform(chance, 2.0, 30.0)
    packets = max(10, round(room / 1514))
    low, width = chance.uniform(0.1, 0.3), chance.uniform(0.2, 0.5)
    probability = chance.choice((0.02, 0.05, 0.1, 0.2))
    match kind:
        case "bfifo":
            return f'{{ kind = "bfifo", limit = "{round(room)} B" }}'
        case "pfifo":
            return f'{{ kind = "pfifo", limit = {packets} }}'
        case "red":
            return red(room, low, width, probability, ecn)
        case "codel":
            return (
                f'{{ kind = "codel", limit = {max(packets, 20)}, target = "{target:.1f} ms", '
                f"ecn = {ecn} }}"
            )
        case "fq-codel":
            return (
                f'{{ kind = "fq-codel", limit = {max(packets, 100)}, flows = {buckets}, '
                f'target = "{target:.1f} ms", ecn = {ecn}, idles = false }}'
            )
        case "pie":
            # The guest's HZ is 100, as in `timer_granularity`.
            return (
                f'{{ kind = "pie", limit = {max(packets, 20)}, target = "{target:.1f} ms", '
                f'jiffy = "10 ms", ecn = {ecn} }}'
            )
        case _:
            return (
                f'{{ kind = "sfq", limit = {min(packets, 1000)}, depth = 127, '
                f"divisor = {buckets} }}"
            )
