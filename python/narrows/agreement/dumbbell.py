"""The network of all draws, as the text of a scenario.

It is a dumbbell: senders, a bottleneck, receivers, with DNS stubs next to the receivers and a
server near the senders.

The delay of acknowledgements of bulk traffic varies by the time that the bottleneck takes to send a
frame. Without this variation, every data segment would arrive a fixed time after another one has
left. Its position in the gap between two departures would then decide how often the queue is full
for everybody else (S. Floyd and V. Jacobson, "On traffic phase effects in packet-switched
gateways", 1992, who add a random time of that length at the senders). That position is a matter of
microseconds. It says nothing about a queue, and no real network keeps it for long. One draw of seed
1000, which had no such variation, answers 98 % of the first attempts. With a round trip that is 6
microseconds longer, it answers 90 %.

The variation lets no acknowledgement overtake another, because the bottleneck sends data no faster.

The two routers learn each other's address by ARP through the same queue, as the kernel's do. In
draw 18 of seed 1002, CoDel marks 49 connections and drops whatever cannot be marked. No query gets
an answer until CoDel drops the ARP packets too, and the link goes quiet.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from decimal import Decimal

FRAME_BITS = 1538 * 8
"""Bits that a full frame takes on an Ethernet line."""


@dataclass(frozen=True, kw_only=True)
class Dumbbell:
    """What differs between draws; tables are in the words of a scenario file."""

    name: str
    seed: int
    duration_s: float
    rate: float
    """The bottleneck's first rate, in bit/s."""
    queue: str
    """The bottleneck's queue, as an inline table."""
    ring: str = ""
    """The line of the bottleneck's ring; empty if it has none."""
    round_trip_ms: float
    """Of bulk traffic."""
    dns_ms: float
    """The round trip of DNS."""
    changes: str = ""
    """The tables `changes`, each with an empty line below it."""
    connections: int
    share: str = ""
    """The line of `ecn_share`; empty if all connections have the ECN of `tcp`."""
    tcp: str
    """Settings of bulk traffic's TCP, separated by commas."""
    workers: int
    transport: str
    """The line of the transport of DNS."""
    settled_s: float
    """When DNS starts; the metrics cover the time from then on."""
    pause_ms: float
    """The mean pause of a DNS worker."""
    neighbours: str = ""
    """Tables of a second group, from `others` to `neighbours`; empty if there is none."""

    @property
    def jitter_ms(self) -> float:
        """Half of the range of acknowledgements' delay, but never more than the delay itself."""
        frame_ms = 1e3 * FRAME_BITS / self.rate
        return min(frame_ms / 2.0, math.floor(500.0 * self.round_trip_ms) / 1e3)

    @property
    def _hosts(self) -> str:
        own = ("senders", "server", "receivers", "stubs")
        hosts = (*own, "others", "neighbours") if self.neighbours else own
        return ", ".join(f'"{host}"' for host in hosts)

    # Long: the text of a scenario.
    def text(self) -> str:
        """The scenario, as the text of a file."""
        return f"""
name = "{self.name}"
seed = {self.seed}
duration = "{self.duration_s:g} s"
nodes = {{ hosts = [{self._hosts}], routers = ["near", "far"] }}

[[links]]
name = "bottleneck"
between = ["near", "far"]
rate = "{round(self.rate)} bit/s"
framing = "ethernet"
neighbours = "arp"
forward = {{ queue = {self.queue} }}
{self.ring}
[[links]]
name = "bulk"
between = ["senders", "near"]
rate = "200 Mbit/s"
delay = "{self.round_trip_ms / 2:.3f} ms"
framing = "ethernet"
backward = {{ jitter = {{ deviation = "{1e3 * self.jitter_ms:.0f} us" }} }}

[[links]]
name = "dns"
between = ["server", "near"]
rate = "200 Mbit/s"
delay = "{self.dns_ms / 2:.3f} ms"
framing = "ethernet"

[[links]]
name = "lan"
between = ["far", "receivers"]
rate = "1 Gbit/s"
framing = "ethernet"

[[links]]
name = "wifi"
between = ["far", "stubs"]
rate = "1 Gbit/s"
framing = "ethernet"

{self.changes}[[traffic]]
kind = "bulk"
name = "bulk"
sender = "senders"
receiver = "receivers"
connections = {self.connections}
{self.share}opener = "receiver"
spread = "2 s"
stagger = "random"
tcp = {{ {self.tcp}, timer_granularity = "10 ms" }}

[[dns]]
name = "stubs"
client = "stubs"
server = "server"
workers = {self.workers}
queries = 100000
{self.transport}
start = "{self.settled_s:g} s"
spread = "1 s"
think_mean = "{self.pause_ms:.1f} ms"
service = "0.5 ms"
service_jitter_mean = "0.5 ms"

[monitor]
queues = {{ links = ["bottleneck.forward"], rate = 97.3 }}
links = {{ links = ["bottleneck.forward"], rate = 10 }}
{self.neighbours}"""


def log_uniform(chance: random.Random, low: float, high: float) -> float:
    """A number that is uniform in its logarithm.

    In decimals: the last bits of math.exp and math.log depend on the C library.
    """
    steps = Decimal(chance.random())
    return float(Decimal(low) * (Decimal(high) / Decimal(low)) ** steps)


def red(room: float, low: float, width: float, probability: float, ecn: str) -> str:
    """RED with `min` and `max` as shares of its room.

    Args:
        room: The most that waits, in bytes.
        low: `min`, as a share of the room.
        width: `max` minus `min`, as a share of the room.
        probability: At `max`.
        ecn: `true` or `false`.
    """
    lower, upper = max(4500, round(room * low)), max(12_000, round(room * (low + width)))
    # One or two packets above tc's default, so never too few for tc.
    burst = math.ceil((2 * lower + upper) / 3000) + 1
    return (
        f'{{ kind = "red", limit = "{max(round(room), 2 * upper)} B", min = "{lower} B", '
        f'max = "{upper} B", avpkt = "1000 B", burst = {burst}, '
        # Below the shaper that gives the link its rate.
        f"probability = {probability}, ecn = {ecn}, idles = false }}"
    )
