"""What servers do with TCP clients that wait, say nothing, or are many.

# .venv/bin/python -m tests.dns_behaviour.server_trials [--watch 130]
"""

from __future__ import annotations

import argparse
import contextlib
import selectors
import socket
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import dns.edns
import dns.flags
import dns.message

from ..network import Namespace, network
from .lab import KERNEL
from .packets import FAST_OPEN, SYN, Packet
from .real_servers import SERVERS, RealServer, serving
from .real_zones import write
from .wire import Wire

ADDRESS, ADDRESS6 = "192.0.2.53", "2001:db8::53"
DELAY = 0.005
QUERY = dns.message.make_query("www.plain.test", "A").to_wire()
FRAMED = len(QUERY).to_bytes(2) + QUERY
CROWD = 200
"""The number of connections in a crowd: more than NSD (100), BIND (150) and Unbound (10) take."""
QUERIES = 120
"""The number of queries on one connection."""
KEEPALIVE = 11
"""The option's number (RFC 7828)."""


@dataclass
class Shown:
    """What a server did in the trials."""

    server: str
    version: str
    backlog: int = 0
    idle: float | None = None
    """Seconds from the reply to the server's FIN; None: it was open when the trial ended."""
    first_query: float | None = None
    """Seconds from the connection to the FIN without a query."""
    half_query: float | None = None
    """The same after half a query."""
    keepalive: bool = False
    """Whether the reply has the edns-tcp-keepalive option."""
    udp_bytes: int = 0
    """The UDP size that its OPT record offers."""
    udp_truncated: bool = False
    """Whether 3000 bytes over UDP are truncated although the client offers 4096."""
    cookie: bool = False
    """Whether its SYN/ACK has a Fast Open cookie."""
    queries: int = 0
    """How many of `QUERIES` queries on one connection were answered."""
    crowd_answers: list[float] = field(default_factory=list)
    """When the crowd's connections were answered."""
    crowd_ends: list[float] = field(default_factory=list)
    """When the server closed connections that it had answered."""
    crowd_refused: list[float] = field(default_factory=list)
    """When it closed or reset other connections."""
    one_segment: bool = True

    @property
    def together(self) -> int:
        """Connections of the crowd that were answered before the server closed any."""
        first = min(self.crowd_ends, default=float("inf"))
        return sum(at < first - 0.02 for at in self.crowd_answers)


def connected(space: Namespace) -> socket.socket:
    """A connection to the server."""
    with space.inside():
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    sock.settimeout(10)
    sock.connect((ADDRESS, 53))
    return sock


def message(sock: socket.socket) -> bytes | None:
    """The next message; None at the end of the stream."""
    have = b""
    while len(have) < 2 or len(have) < 2 + int.from_bytes(have[:2]):
        wanted = 2 if len(have) < 2 else 2 + int.from_bytes(have[:2])
        part = sock.recv(wanted - len(have))
        if not part:
            return None
        have += part
    return have[2:]


def until_closed(sock: socket.socket, watch: float, begin: float) -> float | None:
    """Seconds from `begin` until the other end closes; None if it does not within `watch`.

    If `begin` is before the step that starts the server's timer, the result is never less than the
    timer, however long the client waits for a processor.
    """
    sock.settimeout(watch)
    try:
        while sock.recv(65535):
            pass
    except TimeoutError:
        return None
    except OSError:
        pass
    return time.monotonic() - begin


def backlog(space: Namespace) -> int:
    """The backlog of the listening socket."""
    for line in space.run("ss", "-Hltn").splitlines():
        words = line.split()
        if words[3] == f"{ADDRESS}:53":
            return int(words[2])
    raise RuntimeError("no socket listens")


def crowd(space: Namespace, shown: Shown, watch: float) -> None:
    """Opens many connections, each with a query, and keeps them."""
    selector = selectors.DefaultSelector()
    begin = time.monotonic()
    answered: set[int] = set()
    sockets = []
    for number in range(CROWD):
        with space.inside():
            sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        sock.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            sock.connect((ADDRESS, 53))
        sockets.append(sock)
        selector.register(sock, selectors.EVENT_WRITE, number)
    while time.monotonic() - begin < watch:
        for key, _ in selector.select(0.05):
            sock, number = sockets[key.data], key.data
            at = time.monotonic() - begin
            if key.events & selectors.EVENT_WRITE:
                selector.modify(sock, selectors.EVENT_READ, number)
                with contextlib.suppress(OSError):
                    sock.send(FRAMED)
                continue
            data = b""
            with contextlib.suppress(OSError):
                data = sock.recv(65535)
            if data:
                answered.add(number)
                shown.crowd_answers.append(at)
            else:
                selector.unregister(sock)
                ends = shown.crowd_ends if number in answered else shown.crowd_refused
                ends.append(at)
    for sock in sockets:
        sock.close()
    selector.close()


def udp(space: Namespace, shown: Shown) -> None:
    """Asks for a long reply over UDP."""
    query = dns.message.make_query("big.plain.test", "TXT", use_edns=0, payload=4096)
    with space.inside():
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with sock:
        sock.settimeout(5)
        sock.sendto(query.to_wire(), (ADDRESS, 53))
        reply = dns.message.from_wire(sock.recv(65535), ignore_trailing=True)
    shown.udp_bytes = reply.payload
    shown.udp_truncated = bool(reply.flags & dns.flags.TC)


def keepalive(space: Namespace, shown: Shown) -> None:
    """Sends the edns-tcp-keepalive option in a query over TCP."""
    option = dns.edns.GenericOption(dns.edns.OptionType.make(KEEPALIVE), b"")
    query = dns.message.make_query("www.plain.test", "A", use_edns=0, options=[option]).to_wire()
    with connected(space) as sock:
        sock.sendall(len(query).to_bytes(2) + query)
        reply = message(sock)
    assert reply is not None
    shown.keepalive = any(o.otype == KEEPALIVE for o in dns.message.from_wire(reply).options)


def many_queries(space: Namespace, shown: Shown) -> None:
    """Sends queries one after the other on a connection."""
    with connected(space) as sock:
        for _ in range(QUERIES):
            try:
                sock.sendall(FRAMED)
                if message(sock) is None:
                    break
            except OSError:
                break
            shown.queries += 1


def cookie(space: Namespace) -> None:
    """Sends a SYN that asks for a Fast Open cookie."""
    with space.inside():
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    with sock:
        sock.sendto(FRAMED, socket.MSG_FASTOPEN, (ADDRESS, 53))
        sock.settimeout(5)
        message(sock)


def waits(space: Namespace, shown: Shown, watch: float) -> None:
    """Opens three connections that wait for the server to close them."""

    def idle() -> None:
        with connected(space) as sock:
            begin = time.monotonic()
            sock.sendall(FRAMED)
            message(sock)
            shown.idle = until_closed(sock, watch, begin)

    def first() -> None:
        begin = time.monotonic()
        with connected(space) as sock:
            shown.first_query = until_closed(sock, watch, begin)

    def half() -> None:
        begin = time.monotonic()
        with connected(space) as sock:
            sock.sendall(FRAMED[:20])
            shown.half_query = until_closed(sock, watch, begin)

    threads = [threading.Thread(target=target) for target in (idle, first, half)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def whole_messages(packets: Sequence[Packet]) -> bool:
    """Whether no segment of the server has only a length."""
    return not any(not p.from_client and len(p.payload) in (1, 2) for p in packets)


def run(
    server: RealServer, files: dict[str, Path], folder: Path, watch: float, crowd_watch: float
) -> Shown:
    """All trials of one server."""
    shown = Shown(server.name, server.version() or "")
    with contextlib.ExitStack() as stack:
        net = stack.enter_context(network([ADDRESS, ADDRESS6], offload=False, wired=True))
        for space in (net.client, net.server):
            space.settings(KERNEL)
        net.server.settings({"net/ipv4/tcp_fastopen": "3"})
        wire = Wire(net, lambda packet, frame: [frame], DELAY)
        stack.callback(wire.close)
        stack.enter_context(serving(server, net.server, folder / server.name, files, ADDRESS))
        shown.backlog = backlog(net.server)
        waiting = threading.Thread(target=waits, args=(net.client, shown, watch))
        waiting.start()
        udp(net.client, shown)
        keepalive(net.client, shown)
        cookie(net.client)
        many_queries(net.client, shown)
        waiting.join()
        time.sleep(0.2)
        crowd(net.client, shown, crowd_watch)
        packets = list(wire.record)
    shown.cookie = any(
        packet.option(FAST_OPEN) is not None
        for packet in packets
        if packet.flags & SYN and not packet.from_client
    )
    shown.one_segment = whole_messages(packets)
    return shown


def run_all(folder: Path, watch: float, crowd_watch: float) -> dict[str, Shown]:
    """The trials of all servers at once, because they mostly wait."""
    files = write(folder / "zones")
    files = {kind: file for kind, file in files.items() if kind != "root"}
    with ThreadPoolExecutor(len(SERVERS)) as pool:
        shown = pool.map(lambda server: run(server, files, folder, watch, crowd_watch), SERVERS)
        return {one.server: one for one in shown}


def main() -> None:
    """Prints what was shown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--watch", type=float, default=130.0)
    parser.add_argument("--crowd-watch", type=float, default=10.0)
    asked = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="nrw-dns-"))
    for shown in run_all(folder, asked.watch, asked.crowd_watch).values():
        print(f"== {shown.server} {shown.version}")
        for key in ("backlog", "idle", "first_query", "half_query", "keepalive", "udp_bytes"):
            print(f"   {key}: {getattr(shown, key)}")
        for key in ("udp_truncated", "cookie", "queries", "one_segment", "together"):
            print(f"   {key}: {getattr(shown, key)}")
        for key in ("crowd_answers", "crowd_ends", "crowd_refused"):
            times = getattr(shown, key)
            print(f"   {key}: {len(times)}, at {[round(at, 2) for at in times[::20]]}")


if __name__ == "__main__":
    main()
