"""The distribution `home`: CAKE and FQ-PIE, with other people's traffic of another host.

The network is that of the other distributions (`dumbbell`), and beside it a second group of bulk
traffic between two hosts of its own. Each draw chooses these independently:

- the bottleneck's rate: 2 to 30 Mbit/s, uniform in its logarithm; it never changes
- the round trip: 5 to 100 ms for bulk traffic and 2 to 60 ms for DNS, uniform in its logarithm
- connections: 1 to 20 in each group, uniform in their logarithm; CUBIC or Reno
- ECN: neither group, both, or the first alone
- the code point of the second group: default, CS1, CS4 or EF
- the queue: cake in three draws of four, else fq-pie
- cake's rate: none in every third draw, else 60 to 95 % of the line's
- cake's tins: besteffort, diffserv3, diffserv4 or diffserv8; its isolation: any but flowblind
- cake's `rtt`: 20 to 200 ms, uniform in its logarithm; `overhead`, `mpu` and `link_layer` in every
  other draw; `ingress` in every sixth
- fq-pie's `target`: 5 to 30 ms; with ECN in every other draw
- DNS workers: 5 to 20; pauses of 50 to 500 ms on average; two thirds over UDP, half of these with a
  new port for each query; else over TCP, on new or on persistent connections

The sealed set of seed 3301 led to a correction of PIE. The next sealed set, seed 3401, was named
here before its first run.
"""

from __future__ import annotations

import random

from narrows.agreement.dumbbell import Dumbbell, log_uniform
from narrows.agreement.modern import transport
from narrows.scenario import Scenario

DURATION_S = 26.0
SETTLED_S = 6.0
"""When DNS starts; the metrics cover the time from then on."""

TINS = ("besteffort", "diffserv3", "diffserv4", "diffserv8")
ISOLATIONS = (
    *("triple-isolate", "dual-srchost", "dual-dsthost", "flows"),
    *("srchost", "dsthost", "hosts"),
)


# The order of the draws is part of the distribution.
def drawn(seed: int, number: int) -> Scenario:
    """A draw of a seed, which changes only if the distribution does.

    Examples:
        >>> drawn(1, 0) == drawn(1, 0), drawn(1, 0) == drawn(1, 1)
        (True, False)
    """
    chance = random.Random(f"narrows agreement/home/{seed}/{number}")

    def between(low: float, high: float) -> float:
        return log_uniform(chance, low, high)

    rate = round(between(2e6, 30e6), -4)
    round_trip_ms = between(5.0, 100.0)
    dns_ms = between(2.0, 60.0)
    connections, others = round(between(1.0, 20.0)), round(between(1.0, 20.0))
    congestion = chance.choice(("cubic", "reno"))
    ecn, theirs = chance.choice((("false", "false"), ("true", "true"), ("true", "false")))
    dscp = chance.choice((0, 8, 32, 46))
    workers = chance.randint(5, 20)
    pause_ms = between(50.0, 500.0)
    tcp = f'congestion = "{congestion}", ecn = '
    network = Dumbbell(
        name=f"home-{seed}-{number}",
        seed=number + 1,
        duration_s=DURATION_S,
        rate=rate,
        queue=_queue(chance, rate),
        round_trip_ms=round_trip_ms,
        dns_ms=dns_ms,
        connections=connections,
        tcp=tcp + ecn,
        workers=workers,
        transport=transport(chance),
        settled_s=SETTLED_S,
        pause_ms=pause_ms,
        neighbours=_neighbours(others, dscp, tcp + theirs, round_trip_ms),
    )
    return Scenario.parse(network.text(), file=f"draw {number} of seed {seed}")


def _neighbours(connections: int, dscp: int, tcp: str, round_trip_ms: float) -> str:
    """The second group and its links."""
    return f"""
[[links]]
name = "theirs"
between = ["others", "near"]
rate = "200 Mbit/s"
delay = "{round_trip_ms / 2:.3f} ms"
framing = "ethernet"
backward = {{ jitter = {{ deviation = "200 us" }} }}

[[links]]
name = "next-door"
between = ["far", "neighbours"]
rate = "1 Gbit/s"
framing = "ethernet"

[[traffic]]
kind = "bulk"
name = "others"
sender = "others"
receiver = "neighbours"
connections = {connections}
dscp = {dscp}
opener = "receiver"
spread = "2 s"
stagger = "random"
tcp = {{ {tcp}, timer_granularity = "10 ms" }}
"""


def _queue(chance: random.Random, rate: float) -> str:
    kind = chance.choice(("cake", "cake", "cake", "fq-pie"))
    shaped = chance.random() < 2 / 3
    share = chance.uniform(0.6, 0.95)
    tins, isolation = chance.choice(TINS), chance.choice(ISOLATIONS)
    rtt = log_uniform(chance, 20.0, 200.0)
    target = log_uniform(chance, 5.0, 30.0)
    counted = chance.random() < 1 / 2
    overhead, mpu = chance.randint(0, 50), chance.choice((0, 64, 84))
    link_layer = chance.choice(("noatm", "atm", "ptm"))
    ingress = "true" if chance.random() < 1 / 6 else "false"
    ecn = "true" if chance.random() < 1 / 2 else "false"
    if kind == "fq-pie":
        # The guest's HZ is 100, as in `timer_granularity`.
        return (
            f'{{ kind = "fq-pie", target = "{target:.1f} ms", jiffy = "10 ms", ecn = {ecn}, '
            "idles = false }"
        )
    words = [f'tins = "{tins}", isolation = "{isolation}", rtt = "{rtt:.1f} ms"']
    words += [f'rate = "{round(rate * share)} bit/s", ingress = {ingress}'] if shaped else []
    if counted:
        words.append(f'overhead = {overhead}, mpu = "{mpu} B", link_layer = "{link_layer}"')
    return f'{{ kind = "cake", {", ".join(words)} }}'
