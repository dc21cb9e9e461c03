"""Records what a Linux kernel's TCP senders receive and send, for transport's tests/tcp_replay.

    .venv/bin/python tools/kernel_replay.py crates/transport/tests/tcp_replay/kernel [VARIANT ...]

Captures both directions next to the senders, on the guest kernel, and writes one file for each
variant of TCP's settings. Needs tcpdump and `narrows kernel prepare`. `cubic`, `reno`, `ecn`,
`fifo`, `no-rack` and `no-sack` are eight connections over RED (or a FIFO) with a delay that varies.
The others have no jitter and a round trip of 40 ms:

- `bbr`: three BBR connections over 3 Mbit/s with a FIFO of one bandwidth-delay product, which 0.3 %
  of the segments do not reach
- `bbr-alone`: one BBR connection over a FIFO of four of them, without other losses
- `paced`: CUBIC as `bbr`, paced by TCP itself (SO_MAX_PACING_RATE)
- `dctcp`: two DCTCP connections over 6 Mbit/s with a queue that marks what has waited for 5 ms;
  0.1 % of the segments get lost
- `dctcp-receiver`: the same at the receivers, whose acknowledgements echo the marks
- `accecn`, `accecn-receiver`: CUBIC with accurate ECN in place of DCTCP, on the guest of Linux 7

A line is what arrives (`i`) or leaves (`o`):

    i TIME_US FLAGS ACK WINDOW TSVAL TSECR [START:END ...]
    o TIME_US FLAGS SEQ LENGTH

and next to receivers, with the ECN field (0: none, 1: ECT(1), 2: ECT(0), 3: CE):

    i TIME_US FLAGS SEQ LENGTH TSVAL TSECR ECN
    o TIME_US FLAGS ACK WINDOW [START:END ...]

With accurate ECN, FLAGS have an A for AE, and acknowledgements and SYNs end with `KIND:HEX` if they
have the AccECN option (the bytes of its counts).

Sequence numbers count from the SYN of the end that sends them. TSECR counts milliseconds of the
file's clock, which is shifted so that the kernel's jiffies begin at multiples of 10 ms.

What the kernel draws or measures is not in the files. A replay can infer it: BBR takes its first
round trip from the handshake, which is in the file (the SYN-ACK that leaves and the acknowledgement
that arrives). Each time it enters PROBE_BW, it draws the phase to begin with from seven (all but
the one that drains): try all, and keep the one whose segments agree for longest. BBR counts
PROBE_RTT and the age of its smallest round trip in jiffies, and phases in microseconds. No other
setting draws anything.
"""

from __future__ import annotations

import argparse
import collections
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from narrows import Scenario, run

CONNECTIONS = 8
SECONDS = 8
PACED_SECONDS = 12
JIFFY_US = 10_000

SCENARIO = f"""
name = "replay"
seed = 1
duration = "{SECONDS} s"
nodes = {{ hosts = ["sender", "receiver"], routers = ["near", "far"] }}

[[links]]
name = "bottleneck"
between = ["near", "far"]
rate = "2 Mbit/s"
framing = "ethernet"
queue = {{ kind = "red", limit = "60000 B", min = "10000 B", max = "30000 B", avpkt = "1000 B", \
burst = 20, probability = 0.1, ecn = true, idles = false }}

[[links]]
name = "internet"
between = ["path", "near"]
rate = "100 Mbit/s"
delay = "40 ms"
jitter = {{ deviation = "10 ms", reorder = true }}
framing = "ethernet"

# This is so fast that segments leave the host as soon as TCP sends them.
[[links]]
name = "access"
between = ["sender", "path"]
rate = "10 Gbit/s"
framing = "ethernet"

[[links]]
name = "lan"
between = ["far", "receiver"]
rate = "1 Gbit/s"
framing = "ethernet"

[[traffic]]
kind = "bulk"
name = "bulk"
sender = "sender"
receiver = "receiver"
connections = {CONNECTIONS}
opener = "receiver"
spread = "1 s"
tcp = {{ timer_granularity = "10 ms" }}

[monitor]
capture = [{{ link = "access", at = "sender" }}]
""".replace('routers = ["near", "far"]', 'routers = ["path", "near", "far"]')

FIFO = '{ kind = "bfifo", limit = "40000 B" }'
PACED = f"""
name = "replay-paced"
seed = 1
duration = "{PACED_SECONDS} s"
nodes = {{ hosts = ["sender", "receiver", "clock", "peer"], routers = ["path", "near", "far"] }}

[[links]]
name = "access"
between = ["sender", "path"]
rate = "10 Gbit/s"
framing = "ethernet"

[[links]]
name = "internet"
between = ["path", "near"]
rate = "100 Mbit/s"
delay = "20 ms"
framing = "ethernet"

[links.forward]
loss = 0.003

[[links]]
name = "bottleneck"
between = ["near", "far"]
rate = "3 Mbit/s"
framing = "ethernet"
queue = {{ kind = "bfifo", limit = "15000 B" }}

[[links]]
name = "lan"
between = ["far", "receiver"]
rate = "1 Gbit/s"
framing = "ethernet"

[[traffic]]
kind = "bulk"
name = "bulk"
sender = "sender"
receiver = "receiver"
connections = 3
opener = "receiver"
spread = "1 s"
tcp = {{ timer_granularity = "10 ms" }}

# Its timers tell when jiffies begin. Those of a paced connection are lost among its segments.
[[links]]
name = "timers"
between = ["clock", "peer"]
rate = "1 Gbit/s"
framing = "ethernet"
delay = "50 ms"

[links.forward]
loss = 0.1

[[traffic]]
kind = "bulk"
name = "timers"
sender = "clock"
receiver = "peer"
connections = 8
opener = "receiver"
tcp = {{ timer_granularity = "10 ms" }}

[monitor]
capture = [
    {{ link = "access", at = "sender" }},
    {{ link = "lan", at = "receiver" }},
    {{ link = "timers", at = "clock" }},
]
"""

DCTCP = {
    "traffic.bulk.tcp.congestion": "dctcp",
    "traffic.bulk.tcp.ecn": "true",
    "links.bottleneck.queue": '{ kind = "codel", target = "1 s", interval = "10 s", '
    'ce_threshold = "5 ms" }',
    "links.internet.forward.loss": "0.001",
    "links.bottleneck.rate": "6 Mbit/s",
    "traffic.bulk.connections": "2",
    "duration": "7 s",
}
ACCURATE = {**DCTCP, "traffic.bulk.tcp.congestion": "cubic", "traffic.bulk.tcp.ecn": '"accurate"'}
PACED_VARIANTS = {
    "bbr": {"traffic.bulk.tcp.congestion": "bbr"},
    "bbr-alone": {
        "traffic.bulk.tcp.congestion": "bbr",
        "traffic.bulk.connections": "1",
        "links.bottleneck.queue.limit": "60000 B",
        "links.internet.forward.loss": "0",
    },
    "paced": {"traffic.bulk.tcp.pacing": "true"},
    "dctcp": DCTCP,
    "dctcp-receiver": DCTCP,
    "accecn": ACCURATE,
    "accecn-receiver": ACCURATE,
    "accecn-dctcp-receiver": {**ACCURATE, "traffic.bulk.tcp.congestion": "dctcp"},
}
"""Settings of each file without jitter."""

VARIANTS = {
    "cubic": {},
    "reno": {"traffic.bulk.tcp.congestion": "reno"},
    "ecn": {"traffic.bulk.ecn_share": "1.0"},
    "fifo": {"links.bottleneck.queue": FIFO},
    "no-rack": {"traffic.bulk.tcp.rack": "false", "traffic.bulk.tcp.tlp": "false"},
    "no-sack": {
        "traffic.bulk.tcp.sack": "false",
        "traffic.bulk.tcp.recovery": "new-reno",
        "traffic.bulk.tcp.rack": "false",
        "traffic.bulk.tcp.tlp": "false",
    },
}
"""Settings of each file, by its name, which the test knows too."""

PACKET = re.compile(
    r"([\d.]+) IP \(tos 0x(\w+).*?\)\n\s+(\S+) > (\S+): Flags \[(\S+)\],(.*)((?:\n\t0x.*)*)"
)

ACCECN = re.compile(r"unknown-(172|174) 0x(\w+)")


def main() -> None:
    """Records a file for each set of TCP settings that the command line asks for."""
    known = {**VARIANTS, **PACED_VARIANTS}
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("variants", nargs="*", metavar="VARIANT", help="default: all")
    arguments = parser.parse_args()
    if unknown := set(arguments.variants) - known.keys():
        parser.error(f"{min(unknown)} is none of {', '.join(known)}")
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for variant in arguments.variants or known:
        scenario = PACED if variant in PACED_VARIANTS else SCENARIO
        place = "lan@receiver" if variant.endswith("-receiver") else "access@sender"
        with tempfile.TemporaryDirectory() as folder:
            parsed = Scenario.parse(scenario, file="replay", set=known[variant])
            backend = "kernel-7" if variant.startswith("accecn") else "kernel-virtual"
            done = run(parsed, backend=backend, out=Path(folder) / "run")
            captures = Path(folder) / "run" / "captures"
            connections = _connections(captures / f"{place}.pcapng", place.endswith("@sender"))
            timers = connections
            if variant in PACED_VARIANTS:
                timers = _connections(captures / "timers@clock.pcapng", True)
            version = done.host["kernel"]["version"]
        lines = list(_lines(connections, _phase_us(timers), place.endswith("@sender")))
        text = "\n".join([f"# Linux {version}; tools/kernel_replay.py", *lines])
        (arguments.folder / f"{variant}.txt").write_text(text + "\n")
        print(f"{variant}: {len(connections)} connections, {len(lines)} lines, {len(text)} bytes")


class Packet(NamedTuple):
    """A packet that a host receives or sends."""

    at: int
    """Microseconds."""
    direction: str
    """`i` or `o`."""
    flags: str
    ecn: int
    rest: str
    """The rest of tcpdump's line."""


def _connections(file: Path, is_opened: bool) -> list[list[Packet]]:
    """The packets of each connection in a capture at one of its ends.

    Args:
        file: The capture.
        is_opened: Whether this end is not the one that has opened the connections.
    """
    command = ["tcpdump", "-r", str(file), "-n", "-tt", "-S", "-v", "-x", "tcp"]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found: dict[tuple[str, str], list[Packet]] = {}
    for stamp, tos, source, to, flags, rest, dump in PACKET.findall(output):
        # The first bit of the flags, which tcpdump does not show.
        octets = bytes.fromhex("".join(re.findall(r"0x\w+:(.*)", dump)).replace(" ", ""))
        flags += "A" * (octets[4 * (octets[0] & 15) + 12] & 1)
        at, ecn = round(float(stamp) * 1e6), int(tos, 16) & 3
        to = to.rstrip(":")
        if flags[0] == "S" and "." not in flags:
            found.setdefault((source, to), [])
        opener = (source, to) in found
        ends = (source, to) if opener else (to, source)
        found[ends].append(Packet(at, "o" if opener != is_opened else "i", flags, ecn, rest))
    return [sorted(found[ends], key=lambda packet: packet[:2]) for ends in sorted(found)]


def _phase_us(connections: list[list[Packet]]) -> int:
    """What has to be added to times so that timers fire at multiples of a jiffy."""
    phases: collections.Counter[int] = collections.Counter()
    for packets in connections:
        arrived = -JIFFY_US
        for packet in packets:
            if packet.direction == "i":
                arrived = packet.at
            elif packet.at - arrived > 1000 and "S" not in packet.flags:
                phases[packet.at % JIFFY_US] += 1
    if not phases:
        sys.exit("error: no timer fired, so the kernel's jiffies are not known; run for longer")
    # Segments leave a few microseconds after the timer.
    near = {phase: sum(phases[(phase + late) % JIFFY_US] for late in range(50)) for phase in phases}
    best = max(near, key=lambda phase: (near[phase], -phase))
    return (JIFFY_US - best) % JIFFY_US


def _lines(connections: list[list[Packet]], shift: int, is_sender: bool) -> Iterator[str]:
    for packets in connections:
        yield "connection"
        syns = [packet for packet in packets if "S" in packet.flags]
        first = {to: next(syn for syn in syns if syn.direction == to) for to in "io"}
        start = {to: _number("seq", first[to].rest) or 0 for to in "io"}
        stamps = _stamps(first["o"].rest)
        clock = stamps[0] - (first["o"].at + shift) // 1000 - 1 if stamps else 0
        for packet in packets:
            rest, other = packet.rest, "o" if packet.direction == "i" else "i"
            seq, ack = _number("seq", rest), _number("ack", rest)
            length = _number("length", rest) or 0
            seq = -1 if seq is None else (seq - start[packet.direction]) % 2**32
            ack = 0 if ack is None else (ack - start[other]) % 2**32
            stamp, echo = _stamps(rest) or (0, 0)
            echo = (echo - clock) % 2**32 if echo else 0
            blocks = [
                ":".join(str((int(edge) - start[other]) % 2**32) for edge in block)
                for block in re.findall(r"\{(\d+):(\d+)\}", rest)
            ]
            has_data = (packet.direction == "o") == is_sender
            parts: list[object] = [packet.direction, packet.at + shift, packet.flags]
            parts += [seq, length] if has_data else [ack, _number("win", rest)]
            if packet.direction == "i":
                parts += [stamp, echo]
            parts += ([] if is_sender else [packet.ecn]) if has_data else blocks
            if "S" in packet.flags or not has_data:
                parts += (f"{kind}:{octets}" for kind, octets in ACCECN.findall(rest))
            yield " ".join(str(part) for part in parts)


def _number(name: str, text: str) -> int | None:
    found = re.search(rf"\b{name} (\d+)", text)
    return int(found[1]) if found else None


def _stamps(text: str) -> tuple[int, int] | None:
    found = re.search(r"TS val (\d+) ecr (\d+)", text)
    return (int(found[1]), int(found[2])) if found else None


if __name__ == "__main__":
    main()
