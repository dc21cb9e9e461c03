"""Makes the captures and the tables of packets in captures/ again.

    # .venv/bin/python -m tests.dns_behaviour.capture [NAME ...]

Without names it makes all. See captures/README.txt.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from ipaddress import ip_address
from pathlib import Path

from ..network import CLIENT, Namespace, network
from .lab import KERNEL
from .packets import FAST_OPEN, Packet, parse, read_pcapng
from .real_servers import OURS, SERVERS, Options, RealServer, serving
from .real_zones import write
from .wire import Wire

FOLDER = Path(__file__).parent / "captures"
DELAY = 0.05
"""The delay in one direction, in seconds: long compared with the machine's effect on times."""
ROUND_TRIP = 2 * DELAY
ADDRESS, ADDRESS6 = "192.0.2.53", "2001:db8::53"
UDP_BYTES = 4096
"""What the servers may send over UDP here; their default is 1232."""


ECN = {1: "ECT(1)", 2: "ECT(0)", 3: "CE"}
"""What the two bits of the IP header mean (RFC 3168, 5)."""


@dataclass(frozen=True)
class Exchange:
    """What a client is asked to do in a capture."""

    name: str
    words: tuple[str, ...]
    """The command line; `@` stands for the server's address."""
    before: tuple[str, ...] = ()
    """What it does before the capture, to get a Fast Open cookie."""
    servers: tuple[str, ...] = tuple(server.name for server in SERVERS)
    what: str = ""
    ecn: bool = False
    """Whether the client's kernel offers ECN."""
    long_chain: bool = False
    """Whether the server shows four certificates instead of two."""

    @property
    def over_quic(self) -> bool:
        """Whether the client asks over QUIC."""
        return "+quic" in self.words


OVER_TLS = ("nsd", "bind", "unbound", "dnsdist")
"""Knot DNS 3.2 has no TLS."""

EXCHANGES = (
    Exchange("udp", ("kdig", "@", "www.plain.test", "A"), what="a query and its reply over UDP"),
    Exchange(
        "truncated",
        ("kdig", "@", "+bufsize=1232", "big.plain.test", "TXT"),
        what="a truncated reply over UDP, then the query over TCP",
    ),
    Exchange(
        "https",
        ("kdig", "@", "+https", "www.plain.test", "A"),
        servers=("bind", "dnsdist"),
        what="a query on an HTTPS connection of its own",
    ),
    Exchange(
        "https-kept",
        ("kdig", "@", "+https", "+keepopen", *(f"host{i}.plain.test" for i in range(3))),
        servers=("bind", "dnsdist"),
        what="three queries, one after the other, on one HTTPS connection",
    ),
    Exchange(
        "tcp",
        ("kdig", "@", "+tcp", "www.plain.test", "A"),
        what="a query on a TCP connection of its own",
    ),
    Exchange(
        "kept",
        ("kdig", "@", "+tcp", "+keepopen", *(f"host{i}.plain.test" for i in range(3))),
        what="three queries, one after the other, on one connection",
    ),
    Exchange(
        "pipelined",
        ("pipeline.py", "@", *(f"host{i}.plain.test" for i in range(3))),
        what="three queries at once on one connection, in one write",
    ),
    Exchange(
        "large",
        ("kdig", "@", "+tcp", "big.plain.test", "TXT"),
        what="a reply of about 3000 bytes over TCP",
    ),
    Exchange(
        "fast-open",
        ("kdig", "@", "+tcp", "+fastopen", "host1.plain.test"),
        before=("kdig", "@", "+tcp", "+fastopen", "host0.plain.test"),
        servers=("knot", "unbound", "dnsdist"),
        what="a connection that opens with a Fast Open cookie and the query in its SYN",
    ),
    Exchange(
        "fragmented",
        ("kdig", "@", "+bufsize=4096", "+ignore", "big.plain.test", "TXT"),
        what="a reply of about 3000 bytes over UDP, in fragments",
    ),
    Exchange(
        "dig-truncated",
        ("dig", "@", "big.plain.test", "TXT"),
        servers=("nsd", "bind"),
        what="the same as truncated, with dig",
    ),
    Exchange(
        "dig-tcp",
        ("dig", "@", "+tcp", "www.plain.test", "A"),
        servers=("nsd", "bind"),
        what="the same as tcp, with dig",
    ),
    Exchange(
        "dig-kept",
        ("dig", "@", "+tcp", "+keepopen", *(f"host{i}.plain.test" for i in range(3))),
        servers=("nsd", "bind"),
        what="the same as kept, with dig",
    ),
    Exchange(
        "ecn",
        ("kdig", "@", "+tcp", "big.plain.test", "TXT"),
        servers=("nsd",),
        what="the same as large, with ECN (net.ipv4.tcp_ecn = 1 at the client)",
        ecn=True,
    ),
    Exchange(
        "tls",
        ("kdig", "@", "+tls", "www.plain.test", "A"),
        servers=OVER_TLS,
        what="a query on a TLS connection of its own",
    ),
    Exchange(
        "tls-kept",
        ("kdig", "@", "+tls", "+keepopen", *(f"host{i}.plain.test" for i in range(3))),
        servers=OVER_TLS,
        what="three queries, one after the other, on one TLS connection",
    ),
    Exchange(
        "tls-large",
        ("kdig", "@", "+tls", "big.plain.test", "TXT"),
        servers=OVER_TLS,
        what="a reply of about 3000 bytes over TLS",
    ),
    Exchange(
        "tls-chain",
        ("kdig", "@", "+tls", "www.plain.test", "A"),
        servers=OVER_TLS,
        what="the same as tls, with certificates of more than 4096 bytes",
        long_chain=True,
    ),
    Exchange(
        "tls-dig",
        ("dig", "@", "+tls", "www.plain.test", "A"),
        servers=("nsd", "bind"),
        what="the same as tls, with dig",
    ),
    Exchange(
        "tls-resumed",
        ("tls_client.py", "@", "host0.plain.test", "host1.plain.test"),
        servers=OVER_TLS,
        what="two queries, each on a TLS connection of its own; the second resumes a session",
    ),
    Exchange(
        "quic",
        ("kdig", "@", "+quic", "www.plain.test", "A"),
        servers=("knot",),
        what="a query on a QUIC connection of its own",
    ),
    Exchange(
        "quic-kept",
        ("kdig", "@", "+quic", "+keepopen", *(f"host{i}.plain.test" for i in range(3))),
        servers=("knot",),
        what="three queries, one after the other, on one QUIC connection",
    ),
    Exchange(
        "quic-large",
        ("kdig", "@", "+quic", "big.plain.test", "TXT"),
        servers=("knot",),
        what="a reply of about 3000 bytes over QUIC",
    ),
    Exchange(
        "tcp",
        ("kdig", "@", "+tcp", "www.plain.test", "A"),
        servers=("two-writes", "two-writes-nodelay"),
        what="a server that writes the length and then the message",
    ),
    Exchange(
        "delayed",
        ("pipeline.py", "@", "+delayed", "www.plain.test"),
        servers=("two-writes",),
        what="the same, and the client delays its acknowledgements",
    ),
)


@contextlib.contextmanager
def captured(space: Namespace, link: str, path: Path) -> Iterator[None]:
    """Writes the link's packets to a pcapng file; capturing has started when the block begins."""
    words = ["dumpcap", "-q", "-i", link, "-w", str(path), "-s", "0", "-f", "ip"]
    process = subprocess.Popen(space.command(*words), stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        for line in process.stderr:
            if line.startswith("File:"):
                break
        time.sleep(0.1)
        yield
        time.sleep(0.3)
    finally:
        process.terminate()
        process.communicate()


def recorded(folder: Path) -> list[Packet]:
    """The packets that a simulated run captured at the client's end of the line, in their order."""
    packets = []
    for way in ("forward", "backward"):
        for at, frame in read_pcapng(folder / f"captures/access.{way}.pcapng"):
            packet = parse(frame, at, from_client=way == "forward")
            assert packet is not None
            packets.append(packet)
    return sorted(packets, key=lambda packet: (packet.at, not packet.from_client))


def sequence(packets: Sequence[Packet]) -> list[dict[str, object]]:
    """The packets as rows: times in round trips from the first one, connections by number."""
    flows: dict[tuple[int, int], int] = {}
    rows = []
    last = 0
    for packet in packets:
        if packet.offset:
            flow = last
        else:
            flow = flows.setdefault((packet.protocol, packet.client_port), len(flows) + 1)
        last = flow
        cookie = packet.option(FAST_OPEN)
        rows.append(
            {
                "at": round((packet.at - packets[0].at) / ROUND_TRIP, 2),
                "from": "client" if packet.from_client else "server",
                "flow": flow,
                "kind": packet.letters(),
                "payload": len(packet.payload),
                "ip": packet.length,
            }
            | ({} if cookie is None else {"fast_open": len(cookie)})
            | ({"ecn": ECN[packet.ecn]} if packet.ecn else {})
        )
    return rows


def read(path: Path) -> list[Packet]:
    """The packets of a capture."""
    client = ip_address(CLIENT).packed
    packets = [
        parse(frame, at, from_client=frame[26:30] == client) for at, frame in read_pcapng(path)
    ]
    return [packet for packet in packets if packet is not None]


def duration(path: Path) -> float:
    """Seconds from the first packet to the last."""
    packets = read(path)
    return packets[-1].at - packets[0].at


def is_encrypted(path: Path) -> bool:
    """Whether a capture has TLS, with HTTP or without, or QUIC."""
    return any(name in path.stem for name in ("-tls", "-https", "-quic"))


def exchanges_of(server: RealServer, names: Sequence[str] = ()) -> list[Exchange]:
    """The exchanges to capture with a server; only those with these names, if any are given."""
    return [
        exchange
        for exchange in EXCHANGES
        if server.name in exchange.servers
        and (not names or f"{server.name}-{exchange.name}" in names)
    ]


def run(
    server: RealServer,
    exchanges: Sequence[Exchange],
    files: dict[str, Path],
    folder: Path,
    delay: float = DELAY,
    times: int = 1,
    enough: Callable[[str, Path], bool] = lambda name, path: False,
) -> dict[str, Path]:
    """Captures exchanges with a server, at the client; returns the files by the exchange's name.

    It captures each exchange several times, or until a capture is `enough`, which is then kept. If
    none is, it keeps the shortest, because other work on the machine only makes captures longer.
    """
    made = {}
    with contextlib.ExitStack() as stack:
        net = stack.enter_context(network([ADDRESS, ADDRESS6], offload=False, wired=True))
        for space in (net.client, net.server):
            space.settings(KERNEL)
        # Lets servers accept Fast Open; by default only clients use it.
        net.server.settings({"net/ipv4/tcp_fastopen": "3"})
        wire = Wire(net, lambda packet, frame: [frame], delay)
        stack.callback(wire.close)
        options = Options(udp_bytes=UDP_BYTES, fast_open=True, tls=True)
        serves = contextlib.ExitStack()
        stack.callback(serves.close)
        kind: tuple[bool, bool] | None = None
        for exchange in sorted(exchanges, key=kind_of_server):
            if kind_of_server(exchange) != kind:
                kind = kind_of_server(exchange)
                long_chain, over_quic = kind
                serves.close()
                place_of = folder / f"{server.name}-{long_chain}-{over_quic}"
                device = net.server_link if over_quic else None
                having = replace(options, long_chain=long_chain, quic=device)
                serves.enter_context(serving(server, net.server, place_of, files, ADDRESS, having))
            net.client.settings({"net/ipv4/tcp_ecn": "1" if exchange.ecn else "2"})
            if exchange.before:
                net.client.run(*place(exchange.before))
                time.sleep(4 * delay)
            tries: list[Path] = []
            failures = 0
            while len(tries) < times:
                path = folder / f"{server.name}-{exchange.name}-{len(tries)}.pcapng"
                try:
                    with captured(net.client, net.client_link, path):
                        net.client.run(*place(exchange.words))
                        time.sleep(6 * delay)
                except RuntimeError:
                    # A busy machine may keep a server from answering in time.
                    failures += 1
                    if failures > 2:
                        raise
                    continue
                tries.append(path)
                if enough(exchange.name, path):
                    tries = [path]
                    break
            made[exchange.name] = min(tries, key=duration)
    return made


def kind_of_server(exchange: Exchange) -> tuple[bool, bool]:
    """The options with which the server has to be started."""
    return exchange.long_chain, exchange.over_quic


def place(words: Sequence[str]) -> list[str]:
    """The command line with the server's address."""
    named = [f"@{ADDRESS}" if word == "@" else word for word in words]
    if named[0].endswith(".py"):
        return [sys.executable, str(Path(__file__).parent / named[0]), *named[1:]]
    return named


def table(server: RealServer, exchange: Exchange, path: Path) -> str:
    """The packets of a capture as JSON, one per line."""
    head = {
        "server": server.name,
        "version": server.version(),
        "what": exchange.what,
        "client": " ".join(exchange.words),
    }
    lines = [json.dumps(row) for row in sequence(read(path))]
    text = json.dumps(head, indent=1)[:-2] + ',\n "packets": [\n  '
    return text + ",\n  ".join(lines) + "\n ]\n}\n"


def make(names: Sequence[str]) -> None:
    """Makes captures and tables again."""
    with tempfile.TemporaryDirectory(prefix="nrw-dns-") as temporary:
        folder = Path(temporary)
        files = write(folder / "zones")
        files.pop("root")
        for server in SERVERS + OURS:
            wanted = exchanges_of(server, names)
            made = run(server, wanted, files, folder, times=5) if wanted else {}
            for name, path in made.items():
                exchange = next(exchange for exchange in wanted if exchange.name == name)
                target = FOLDER / f"{server.name}-{name}.pcapng"
                target.write_bytes(path.read_bytes())
                target.with_suffix(".json").write_text(table(server, exchange, target))
                print(target.stem)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    make(parser.parse_args().names)


if __name__ == "__main__":
    main()
