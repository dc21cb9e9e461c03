"""Servers that answer oddly, and queries that could be mixed up, by hand."""

from __future__ import annotations

import itertools
import socket

import pytest

from .clients import ask, connect, prefixed, query, receive
from .conftest import SMALL, Lab, PeerMaker
from .handmade import nothing_new
from .segments import ACK, PSH


@pytest.mark.parametrize("kind", ["twice", "slow", "once", "other-id", "garbage"])
@pytest.mark.parametrize("size", [200, 6000])
def test_servers_that_answer_oddly(lab: Lab, peer: PeerMaker, kind: str, size: int) -> None:
    message = query(f"{kind}.{size}.{next(NUMBERS)}.test", edns=1232)
    client = peer("unruly")
    client.connect()
    sent = client.send(prefixed(message), ACK | PSH)

    def again() -> None:
        if all(segment.ack != client.seq for segment in client.seen):
            client.send(sent.payload, ACK | PSH, seq=sent.seq)

    reply = client.reply(again=again)
    assert reply == ask(lab.network.client, lab.address("unruly", "kernel"), message)
    nothing_new(client, 0.3)
    message = query("plain.100.test")
    client.send(prefixed(message), ACK | PSH)
    assert client.reply() == ask(lab.network.client, lab.address("unruly", "kernel"), message)


NUMBERS = itertools.count()


def test_many_connections_with_the_same_id(peer: PeerMaker, expected: dict[bytes, bytes]) -> None:
    clients = [peer() for _ in range(50)]
    for client in clients:
        client.connect()
    for client in clients:
        client.send(prefixed(SMALL), ACK | PSH)
    for client in clients:
        assert client.reply() == expected[SMALL]


def test_a_udp_client_of_the_same_address_and_port(lab: Lab, arm: str) -> None:
    """While its TCP query is with the server, which answers the other query first."""
    net, server = lab.network, lab.address("unruly", arm)
    with connect(net.client, server) as stream:
        stream.sendall(prefixed(query("slow.100.1.test", id=1)))
        with net.client.inside():
            datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        with datagrams:
            datagrams.settimeout(0.5)
            datagrams.bind(stream.getsockname())
            datagrams.sendto(query("plain.100.test", id=2), (server, 53))
            assert datagrams.recv(512)[:2] == b"\0\2"
        assert receive(stream)[:2] == b"\0\1"
