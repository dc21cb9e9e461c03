"""Records what a Linux kernel's TCP senders receive and send, for transport's tests/tcp_replay.

    .venv/bin/python tools/kernel_replay.py crates/transport/tests/tcp_replay/kernel

Runs eight connections over RED (or a FIFO) with a delay that varies, on the guest kernel, captures
both directions next to the senders, and writes one file for each variant of TCP's settings. Needs
tcpdump and `narrows kernel prepare`.

A line is what arrives at the sender (`i`) or leaves it (`o`):

    i TIME_US FLAGS ACK WINDOW TSVAL TSECR [START:END ...]
    o TIME_US FLAGS SEQ LENGTH

Sequence numbers count from the sender's SYN. TSECR counts milliseconds of the file's clock, which
is shifted so that the kernel's jiffies begin at multiples of 10 ms.
"""

from __future__ import annotations

import argparse
import collections
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from narrows import Scenario, run

CONNECTIONS = 8
SECONDS = 8
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
capture = ["access.forward", "access.backward"]
""".replace('routers = ["near", "far"]', 'routers = ["path", "near", "far"]')

FIFO = '{ kind = "bfifo", limit = "40000 B" }'
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

LINE = re.compile(r"([\d.]+) IP (\S+) > (\S+): Flags \[(\S+)\],(.*)")


def main() -> None:
    """Records a file for each set of TCP settings that the command line asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("variants", nargs="*", metavar="VARIANT", help="default: all")
    arguments = parser.parse_args()
    if unknown := set(arguments.variants) - VARIANTS.keys():
        parser.error(f"{min(unknown)} is none of {', '.join(VARIANTS)}")
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for variant in arguments.variants or VARIANTS:
        with tempfile.TemporaryDirectory() as folder:
            scenario = Scenario.parse(SCENARIO, file="replay", set=VARIANTS[variant])
            done = run(scenario, backend="kernel-virtual", out=Path(folder) / "run")
            connections = _connections(Path(folder) / "run" / "captures")
            version = done.host["kernel"]["version"]
        text = "\n".join(_lines(connections, version))
        (arguments.folder / f"{variant}.txt").write_text(text + "\n")
        print(f"{variant}: {len(connections)} connections, {text.count(chr(10))} lines")


Packet = tuple[int, str, str, str]
"""Time in microseconds, `i` or `o`, TCP flags, the rest of tcpdump's line."""


def _connections(folder: Path) -> list[list[Packet]]:
    found: dict[tuple[str, str], list[Packet]] = collections.defaultdict(list)
    for direction, way in (("forward", "o"), ("backward", "i")):
        command = ["tcpdump", "-r", str(folder / f"access.{direction}.pcapng"), "-n", "-tt", "-S"]
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        for line in output.splitlines():
            if match := LINE.match(line):
                stamp, source, to, flags, rest = match.groups()
                ends = (source, to.rstrip(":")) if way == "o" else (to.rstrip(":"), source)
                found[ends].append((round(float(stamp) * 1e6), way, flags, rest))
    return [sorted(found[ends], key=lambda packet: packet[:2]) for ends in sorted(found)]


def _phase_us(connections: list[list[Packet]]) -> int:
    """What has to be added to times so that timers fire at multiples of a jiffy."""
    phases: collections.Counter[int] = collections.Counter()
    for packets in connections:
        arrived = -JIFFY_US
        for at, way, flags, _ in packets:
            if way == "i":
                arrived = at
            elif at - arrived > 1000 and "S" not in flags:
                phases[at % JIFFY_US] += 1
    if not phases:
        sys.exit("error: no timer fired, so the kernel's jiffies are not known; run for longer")
    # Segments leave a few microseconds after the timer.
    near = {phase: sum(phases[(phase + late) % JIFFY_US] for late in range(50)) for phase in phases}
    best = max(near, key=lambda phase: (near[phase], -phase))
    return (JIFFY_US - best) % JIFFY_US


def _lines(connections: list[list[Packet]], version: str) -> list[str]:
    shift = _phase_us(connections)
    lines = [f"# Linux {version}; tools/kernel_replay.py"]
    for packets in connections:
        lines.append("connection")
        first = {way: next(p for p in packets if p[1] == way and "S" in p[2]) for way in "io"}
        start = {way: _number("seq", first[way][3]) for way in "io"}
        answer = first["o"]
        stamps = _stamps(answer[3])
        clock = stamps[0] - (answer[0] + shift) // 1000 - 1 if stamps else 0
        for at, way, flags, rest in packets:
            length = _number("length", rest) or 0
            if way == "o":
                seq = _number("seq", rest)
                seq = -1 if seq is None else (seq - (start["o"] or 0)) % 2**32
                lines.append(f"o {at + shift} {flags} {seq} {length}")
                continue
            ack = _number("ack", rest)
            ack = 0 if ack is None else (ack - (start["o"] or 0)) % 2**32
            stamp, echo = _stamps(rest) or (0, 0)
            echo = (echo - clock) % 2**32 if echo else 0
            blocks = " ".join(
                ":".join(str((int(edge) - (start["o"] or 0)) % 2**32) for edge in block)
                for block in re.findall(r"\{(\d+):(\d+)\}", rest)
            )
            line = f"i {at + shift} {flags} {ack} {_number('win', rest)} {stamp} {echo} {blocks}"
            lines.append(line.rstrip())
    return lines


def _number(name: str, text: str) -> int | None:
    found = re.search(rf"\b{name} (\d+)", text)
    return int(found[1]) if found else None


def _stamps(text: str) -> tuple[int, int] | None:
    found = re.search(r"TS val (\d+) ecr (\d+)", text)
    return (int(found[1]), int(found[2])) if found else None


if __name__ == "__main__":
    main()
