"""TCP keep-alives, sent by the client's kernel and by hand."""

from __future__ import annotations

import select
import socket

import pytest

from .clients import connect, prefixed, receive
from .conftest import SMALL, Lab, PeerMaker
from .segments import ACK, MODULUS, PSH


@pytest.mark.parametrize("asked", [False, True], ids=["before-a-query", "idle"])
def test_a_real_client_stays_connected(lab: Lab, arm: str, version: int, asked: bool) -> None:
    """Its kernel gives a connection up after one probe without an answer."""
    with connect(lab.network.client, lab.address("nsd", arm, version)) as stream:
        if asked:
            stream.sendall(prefixed(SMALL))
            receive(stream)
        for option, value in (("TCP_KEEPIDLE", 1), ("TCP_KEEPINTVL", 1), ("TCP_KEEPCNT", 1)):
            stream.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        assert not select.select([stream], [], [], 3.5)[0]
        stream.sendall(prefixed(SMALL))
        assert receive(stream)[:2] == SMALL[:2]


@pytest.mark.parametrize("garbage", [b"", b"?"], ids=["empty", "garbage"])
@pytest.mark.parametrize("timestamps", [True, False])
def test_a_probe_before_the_first_query_and_after_each(
    peer: PeerMaker, expected: dict[bytes, bytes], garbage: bytes, timestamps: bool
) -> None:
    client = peer(timestamps=timestamps)
    client.connect()
    for _ in range(3):
        client.send(garbage, seq=(client.seq - 1) % MODULUS)
        answer = client.expect(ACK)
        assert (answer.seq, answer.ack, answer.payload) == (client.ack, client.seq, b"")
        client.send(prefixed(SMALL), ACK | PSH)
        assert client.reply() == expected[SMALL]


@pytest.mark.parametrize("later", [True, False])
def test_the_query_may_lack_the_timestamps_of_the_syn(
    peer: PeerMaker, expected: dict[bytes, bytes], later: bool
) -> None:
    client = peer()
    client.connect()
    client.timestamps = False
    client.send(prefixed(SMALL), ACK | PSH)
    assert client.reply() == expected[SMALL]
    client.timestamps = later
    client.send(prefixed(SMALL), ACK | PSH)
    assert client.reply() == expected[SMALL]
