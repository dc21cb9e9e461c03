"""Asks a DNS server over kept connections, one query after the other on each.

    python gateway/benchmarks/in_turn.py --server 198.18.0.1 --names FILE --transport tcp
        --connections 50 --rate 5000 --seconds 1.5

This is the client of `kept_connections.py`. It uses a connection as stub resolvers, forwarders and
health checks do: it sends the next query when the reply is there (dnsperf does not wait for that).
Queries are due at a fixed rate. If all connections wait when a query is due, it goes out as soon as
one is free. Over UDP, each "connection" is a connected socket. At the end it prints how many
queries were answered.
"""

from __future__ import annotations

import argparse
import select
import socket
import struct
import sys
import time
from collections import deque
from itertools import cycle
from pathlib import Path

GIVEN_UP_S = 2.0
"""After so many seconds without any answer, the run has failed."""


def message(name: str) -> bytes:
    """A query for the A record of a name, with EDNS (RFC 1035, 4.1; RFC 6891, 6.1.2)."""
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.rstrip(".").split("."))
    opt = struct.pack("!BHHIH", 0, 41, 1232, 0, 0)
    return struct.pack("!HHHHHH", 0, 0x0100, 1, 0, 0, 1) + labels + b"\0\0\1\0\1" + opt


def main() -> int:
    """Runs for the given time."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--server", required=True)
    parser.add_argument("--names", type=Path, required=True, help="a name and a type in each line")
    parser.add_argument("--transport", choices=("tcp", "udp"), default="tcp")
    parser.add_argument("--connections", type=int, default=50)
    parser.add_argument("--rate", type=float, default=5000, help="queries a second in all")
    parser.add_argument("--seconds", type=float, default=1.5)
    words = parser.parse_args()
    with words.names.open() as lines:
        queries = [message(line.split()[0]) for line, _ in zip(lines, range(10_000), strict=False)]
    stream = words.transport == "tcp"
    kind = socket.SOCK_STREAM if stream else socket.SOCK_DGRAM
    sockets = {}
    poller = select.epoll()
    for _ in range(words.connections):
        made = socket.socket(socket.AF_INET, kind)
        made.settimeout(GIVEN_UP_S)
        made.connect((words.server, 53))
        if stream:
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        made.setblocking(False)
        sockets[made.fileno()] = made
        poller.register(made, select.EPOLLIN)
    free, asked, answered = deque(sockets), 0, 0
    source = cycle(queries)
    start = heard = time.monotonic()
    while True:
        now = time.monotonic()
        over = now - start > words.seconds
        if over and len(free) == len(sockets):
            break
        if now - heard > GIVEN_UP_S:
            print(f"{len(sockets) - len(free)} queries without an answer", file=sys.stderr)
            return 1
        while not over and free and asked < (now - start) * words.rate:
            query = (asked & 0xFFFF).to_bytes(2) + next(source)[2:]
            if stream:
                query = len(query).to_bytes(2) + query
            sockets[free.popleft()].send(query)
            asked += 1
        for descriptor, _ in poller.poll(0 if free and not over else 0.1):
            reply = sockets[descriptor].recv(65_537)
            # The zone's replies fit in one segment.
            if not reply or (stream and len(reply) != 2 + int.from_bytes(reply[:2])):
                print("a connection was closed, or a reply came in parts", file=sys.stderr)
                return 1
            answered += 1
            free.append(descriptor)
            heard = now
    print(answered)
    return 0


if __name__ == "__main__":
    sys.exit(main())
