"""Is narrows probe right? `make bench-probe`: verdicts on servers of known behaviour, and times.

Each behaviour has four networks of its own, in which the probe asks from five distances at once;
each distance in each network is a trial. Several networks run side by side, each in its own
namespaces and process. The confusion matrix says how often each verdict came. After that, with
nothing else running, the probe's own times are compared with those of tcpdump on the same
interface. The last line of stdout is a JSON object.

Needs root, and tcpdump for the second part. QUICK=1 asks from one distance, once.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from narrows.probe import Plan, Target, probe
from narrows.results.intervals import wilson
from narrows.testbed import (
    SERVER,
    SERVERS,
    Bed,
    Crowd,
    Link,
    OldServer,
    bed,
    crowd,
    emulated,
    missing,
    real,
)

RTTS_MS = (10.0, 20.0, 40.0, 80.0, 160.0)
NETWORKS = 4
"""Networks with each behaviour, so that it has 20 trials."""
SIDE_BY_SIDE = 4
"""Networks at a time; each mostly waits."""
OTHERS = "10.9.1.1"
"""The crowd's address, 40 ms away."""
LOSSY = 0.02
"""Share of packets that a lossy path loses each way."""
SHARE_RIGHT = 0.95
MOST_ERROR_US = 50.0


@dataclass(frozen=True)
class Behaviour:
    """What a server does, and what the verdict must be."""

    name: str
    verdict: str
    server: OldServer | str
    """The emulated server, or the program of a real one."""
    crowd: Crowd | None = None
    loss: float = 0.0
    tcp_rtt_factor: float | None = None
    """TCP's round trip in units of UDP's, if another machine answers TCP."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Fields of the probe's plan that differ."""


def many(clients: int, hold_s: float, think_s: float, *, silent: bool = False) -> Crowd:
    """A crowd of other clients at `OTHERS`."""
    return Crowd(clients, OTHERS, hold_s=hold_s, think_s=think_s, silent=silent)


ONE = OldServer(writing="once")
BEHAVIOURS = (
    *(Behaviour(f"{program}, as packaged", "one-write", program) for program in SERVERS),
    Behaviour("one write", "one-write", ONE),
    Behaviour("writev", "one-write", OldServer(writing="writev")),
    Behaviour("TCP_CORK", "one-write", OldServer(writing="cork")),
    Behaviour("reply of three segments", "one-write", OldServer(writing="once", reply_bytes=3000)),
    Behaviour("two writes", "two-writes", OldServer()),
    Behaviour("length byte by byte", "split-length", OldServer(writing="byte")),
    Behaviour("two writes, TCP_NODELAY", "two-writes-at-once", OldServer(writing="two-nodelay")),
    Behaviour(
        "two writes, we acknowledge late",
        "delayed-acknowledgement",
        OldServer(),
        settings={"late_acknowledgements": True},
    ),
    Behaviour("two writes, connection kept", "two-writes", OldServer(), settings={"reuse": True}),
    Behaviour("one write, connection kept", "one-write", ONE, settings={"reuse": True}),
    Behaviour("20 ms over TCP", "fixed-delay", OldServer(writing="once", tcp_delay_ms=20.0)),
    Behaviour(
        "25 ms over both",
        "slow-server",
        OldServer(writing="once", tcp_delay_ms=25, udp_delay_ms=25),
    ),
    Behaviour("slots full", "slots-full", OldServer(slots=20, backlog=256), many(80, 0.3, 0.3)),
    Behaviour(
        "silent holders",
        "slots-full",
        OldServer(slots=10, backlog=256),
        many(40, 60.0, 0.5, silent=True),
        settings={"timeout_s": 1.5},
    ),
    Behaviour(
        "backlog full",
        "backlog-full",
        OldServer(slots=4, backlog=1),
        many(60, 0.3, 0.2),
        # A client that asks again at once finds the room that it has just left.
        settings={"interval_s": 0.5},
    ),
    Behaviour(
        "closes above its limit",
        "closes",
        OldServer(writing="once", slots=10, overflow="close", backlog=256),
        many(60, 0.5, 0.2),
    ),
    Behaviour("closes always", "closes", OldServer(closes=True)),
    Behaviour("does not listen", "refuses", OldServer(tcp=False)),
    Behaviour("one write, packets lost", "one-write", ONE, loss=LOSSY, settings={"count": 25}),
    Behaviour("two writes, packets lost", "two-writes", OldServer(), loss=LOSSY),
    Behaviour("TCP from a nearer machine", "elsewhere", ONE, tcp_rtt_factor=0.4),
)


def address(number: int) -> str:
    """The address of the client at the distance with this number."""
    return f"10.9.0.{1 + number}"


@contextlib.contextmanager
def standing(made: Bed, server: OldServer | str) -> Iterator[None]:
    """The server, running until the block ends."""
    with real(made, server) if isinstance(server, str) else emulated(made, server):
        yield


def trials(number: int, rtts: tuple[float, ...], network: int) -> list[str]:
    """The verdict on a behaviour from each distance."""
    behaviour = BEHAVIOURS[number]
    links = [
        Link(
            address(place),
            rtt,
            behaviour.loss,
            None if behaviour.tcp_rtt_factor is None else behaviour.tcp_rtt_factor * rtt,
        )
        for place, rtt in enumerate(rtts)
    ]
    links.append(Link(OTHERS, 40.0))
    plan = Plan(
        (Target("server", SERVER),),
        sources=tuple(link.client for link in links[:-1]),
        **{"count": 12, "interval_s": 0.0, "timeout_s": 5.0, **behaviour.settings},
    )
    seed = 1 + network
    with (
        bed(links, seed=seed) as made,
        standing(made, behaviour.server),
        contextlib.ExitStack() as stack,
    ):
        if behaviour.crowd is not None:
            stack.enter_context(crowd(made, behaviour.crowd))
            time.sleep(SETTLE_S)
        with made.client.inside():
            found = probe(plan).findings["verdicts"]
    by_place = {verdict["vantage"]: verdict["name"] for verdict in found}
    return [by_place[source] for source in plan.sources if source is not None]


SETTLE_S = 1.5
"""Time until a crowd has filled the server's slots and backlog."""


def confusion(rtts: tuple[float, ...], networks: int) -> dict[str, dict[str, int]]:
    """How often each verdict came, by behaviour."""
    wanted = []
    for number, behaviour in enumerate(BEHAVIOURS):
        if isinstance(behaviour.server, str) and (reason := missing([behaviour.server])):
            log(f"SKIP {behaviour.name}: {reason}")
            continue
        wanted += [(number, network) for network in range(networks)]
    found: dict[int, list[str]] = {number: [] for number, _ in wanted}
    # In separate processes, so that a path's thread does not wait for another network's probe.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(SIDE_BY_SIDE, len(wanted)), context) as pool:
        asked = [(number, pool.submit(trials, number, rtts, network)) for number, network in wanted]
        for done, (number, future) in enumerate(asked, 1):
            found[number] += future.result()
            if sys.stderr.isatty():
                print(f"\r{done} of {len(asked)}", end="", file=sys.stderr)
    matrix = {}
    for number, verdicts in found.items():
        matrix[BEHAVIOURS[number].name] = {
            name: verdicts.count(name) for name in sorted(set(verdicts))
        }
    print_matrix(matrix)
    return matrix


def print_matrix(matrix: dict[str, dict[str, int]]) -> None:
    """A row for each behaviour, a column for each verdict that came; the right one is marked."""
    names = sorted({name for row in matrix.values() for name in row})
    for number, name in enumerate(names):
        print(f"{chr(ord('A') + number)}  {name}")
    print()
    print(" " * 34 + "".join(f"{chr(ord('A') + number):>5}" for number in range(len(names))))
    for behaviour in BEHAVIOURS:
        row = matrix.get(behaviour.name)
        if row is None:
            continue
        cells = [
            f"{row.get(name, 0) or '.'}{'*' if name == behaviour.verdict else ' '}"
            for name in names
        ]
        print(f"{behaviour.name:34}" + "".join(f"{cell:>5}" for cell in cells))
    print("\n* the right one")


def timing(rounds: int) -> dict[str, float]:
    """Medians of the differences between the probe's times and tcpdump's, in microseconds."""
    with bed([Link(address(0), 40.0)]) as made, emulated(made, OldServer()):
        with made.client.inside():
            lines = Path("/proc/thread-self/net/dev").read_text(encoding="ascii").splitlines()
            names = [line.partition(":")[0].strip() for line in lines[2:]]
            device = next(name for name in names if name.startswith("nrw"))
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "capture.pcap"
            words = ["tcpdump", "-i", device, "-w", str(file), "-U"]
            words += ["--time-stamp-precision=nano", "-s", "128"]
            with (Path(folder) / "log").open("wb") as said:
                capturing = made.client.start(words, said.fileno())
                try:
                    until = time.monotonic() + 20.0
                    while b"listening on" not in (Path(folder) / "log").read_bytes():
                        if time.monotonic() > until:
                            raise TimeoutError("tcpdump does not listen after 20 s")
                        time.sleep(0.05)
                    with made.client.inside():
                        plan = Plan(
                            (Target("server", SERVER),),
                            sources=(address(0),),
                            count=rounds,
                            interval_s=0.0,
                        )
                        rows = probe(plan).exchanges.to_dicts()
                    # A busy machine may let tcpdump wait.
                    time.sleep(2.0)
                finally:
                    capturing.terminate()
                    capturing.wait()
            flows = read_flows(file.read_bytes())
    errors: dict[str, list[float]] = {}
    for row, flow in zip(rows, flows, strict=True):
        for column, seen_ms in flow.items():
            errors.setdefault(f"{row['transport']}_{column}", []).append(row[column] - seen_ms)
    return {
        f"{name}_us": round(1e3 * statistics.median(abs(value) for value in values), 1)
        for name, values in errors.items()
    }


def read_flows(data: bytes) -> list[dict[str, float]]:
    """The times of each exchange in a capture of raw IPv4, in ms; each has its own port."""
    magic, link = struct.unpack_from("<I16xI", data)
    assert magic == 0xA1B23C4D and link in (12, 101), "nanoseconds, raw IP"
    flows: dict[tuple[int, int], list[tuple[int, bool, int, int]]] = {}
    at = 24
    while at + 16 <= len(data):
        seconds, nanos, length, _ = struct.unpack_from("<4I", data, at)
        packet = data[at + 16 : at + 16 + length]
        at += 16 + length
        if packet[0] >> 4 != 4 or packet[9] not in (6, 17):
            continue
        header = 4 * (packet[0] & 15)
        source, destination = struct.unpack_from("!HH", packet, header)
        ours = destination == 53
        if packet[9] == 17:
            payload, flags = struct.unpack_from("!H", packet, header + 4)[0] - 8, 0
        else:
            offset = 4 * (packet[header + 12] >> 4)
            payload = struct.unpack_from("!H", packet, 2)[0] - header - offset
            flags = packet[header + 13]
        key = (packet[9], source if ours else destination)
        flows.setdefault(key, []).append((10**9 * seconds + nanos, ours, payload, flags))
    found = []
    for (protocol, _), packets in flows.items():
        asked = next(t for t, ours, payload, _ in packets if ours and payload)
        answered = [t for t, ours, payload, _ in packets if not ours and payload]
        flow = {"query_ms": (answered[-1] - asked) / 1e6}
        flow["total_ms"] = (answered[-1] - packets[0][0]) / 1e6
        if protocol == 6:
            accepted = next(t for t, ours, _, flags in packets if not ours and flags & 2)
            flow["connect_ms"] = (accepted - packets[0][0]) / 1e6
            flow["first_byte_ms"] = (answered[0] - asked) / 1e6
        found.append(flow)
    return found


def log(text: str) -> None:
    """Prints a line about the progress."""
    print(text, file=sys.stderr)


def main() -> int:
    """Measures, prints, and returns the exit code."""
    if reason := missing():
        log(f"SKIP bench-probe: {reason}")
        return 0
    quick = bool(os.environ.get("QUICK"))
    clock = time.monotonic()
    matrix = confusion((40.0,) if quick else RTTS_MS, 1 if quick else NETWORKS)
    expected = {behaviour.name: behaviour.verdict for behaviour in BEHAVIOURS}
    tried = sum(sum(row.values()) for row in matrix.values())
    right = sum(row.get(expected[name], 0) for name, row in matrix.items())
    low, high = wilson(right, tried)
    print(
        f"\nright: {right} of {tried}, {100 * right / tried:.1f} % "
        f"({100 * low:.1f} to {100 * high:.1f}), in {time.monotonic() - clock:.0f} s"
    )
    errors: dict[str, float] = {}
    if reason := missing(["tcpdump"]):
        log(f"SKIP times: {reason}")
    else:
        errors = timing(20 if quick else 100)
        for name, error in errors.items():
            print(f"{name:24} {error:8.1f} us from tcpdump's, median")
    worst = max(errors.values(), default=0.0)
    result = {"right": right, "trials": tried, "matrix": matrix, "errors": errors}
    print(json.dumps({**result, "worst_error_us": worst}))
    return 0 if right >= SHARE_RIGHT * tried and worst <= MOST_ERROR_US else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except subprocess.SubprocessError as error:
        log(f"failed: {error}")
        sys.exit(1)
