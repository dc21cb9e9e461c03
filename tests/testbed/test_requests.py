"""Counting queries over TCP, and those that are answered, at the server's side of the path."""

from __future__ import annotations

import ipaddress
import struct
import time

import pytest

from narrows.testbed import SERVER, Crowd, Link, OldServer, bed, counted, crowd, emulated, missing
from narrows.testbed.requests import Counter

CLIENT = "10.9.0.1"
SYN, ACK, PUSH = 0x02, 0x10, 0x08


def packet(
    flags: int, payload: bytes = b"", *, port: int = 40_000, back: bool = False, protocol: int = 6
) -> bytes:
    """An IPv4 packet of a client to the server, or `back` (RFC 791 and 9293 draw the headers)."""
    source, target = (SERVER, CLIENT) if back else (CLIENT, SERVER)
    ports = (53, port) if back else (port, 53)
    tcp = struct.pack("!HHIIBBHHH", *ports, 1, 1, 5 << 4, flags, 1000, 0, 0) + payload
    addresses = ipaddress.IPv4Address(source).packed + ipaddress.IPv4Address(target).packed
    return struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(tcp), 0, 0, 64, protocol, 0) + addresses + tcp


def count(*packets: bytes) -> tuple[int, int]:
    counter = Counter()
    for one in packets:
        counter.take(one)
    return counter.total()


def test_a_query_and_its_answer() -> None:
    query, answer = packet(PUSH | ACK, b"query"), packet(PUSH | ACK, b"answer", back=True)
    opened = (packet(SYN), packet(SYN | ACK, back=True), packet(ACK))
    assert count(*opened, query, answer) == (1, 1)
    assert count(*opened, query, packet(ACK, back=True)) == (1, 0)
    assert count(*opened, query, query, answer, answer) == (1, 1), "sent again"
    assert count(*opened) == (0, 0), "never asked"


def test_a_port_that_is_used_again_begins_a_connection() -> None:
    query, answer = packet(PUSH | ACK, b"query"), packet(PUSH | ACK, b"answer", back=True)
    assert count(packet(SYN), query, packet(SYN), query, answer) == (2, 1)
    assert count(packet(SYN), query, packet(PUSH | ACK, b"query", port=40_001), answer) == (2, 1)


def test_other_protocols_and_broken_packets_do_not_count() -> None:
    assert count(packet(PUSH | ACK, b"query", protocol=17)) == (0, 0)
    assert count(b"", b"\x45", b"\x60" + bytes(60)) == (0, 0)
    # A header with options, and nothing behind it.
    assert count(b"\x4f" + packet(PUSH | ACK)[1:]) == (0, 0)


@pytest.mark.slow
@pytest.mark.parametrize("closes", [False, True])
def test_a_server_that_closes_connections_loses_their_queries(closes: bool) -> None:
    if reason := missing():
        pytest.skip(reason)
    clients = Crowd(20, CLIENT, hold_s=0.0, think_s=0.2)
    with (
        bed([Link(CLIENT, 2.0)]) as made,
        emulated(made, OldServer(closes=closes)),
        counted(made) as found,
        crowd(made, clients),
    ):
        time.sleep(2.0)
    assert found.asked > 20 and found.missed == 0
    assert found.lost_percent == (100.0 if closes else 0.0)
