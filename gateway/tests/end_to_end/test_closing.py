"""How handmade connections end: FIN, RST, and a port that is used again."""

from __future__ import annotations

import pytest

from . import zones
from .clients import ask, prefixed, query
from .conftest import KINDS, LARGE, SMALL, Lab, PeerMaker
from .handmade import close, finish
from .segments import ACK, FIN, MODULUS, PSH, RST, SYN


@pytest.mark.parametrize("message", [SMALL, LARGE], ids=["small", "large"])
def test_the_client_closes_in_order(
    peer: PeerMaker, expected: dict[bytes, bytes], message: bytes
) -> None:
    client = peer()
    client.connect()
    client.send(prefixed(message), ACK | PSH)
    assert client.reply() == expected[message]
    close(client)


def test_a_close_without_a_query(peer: PeerMaker) -> None:
    client = peer()
    client.connect()
    close(client)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [300, 4000])
def test_half_close(lab: Lab, peer: PeerMaker, kind: str, size: int) -> None:
    """The client has no more queries, and still waits for its reply."""
    message = query(zones.size_name(size))
    client = peer(kind)
    client.connect()
    client.send(prefixed(message), ACK | PSH)
    sent = client.send(flags=FIN | ACK)
    address = lab.address(kind, "kernel")
    assert client.reply() == ask(lab.network.client, address, message)
    finish(client, sent)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [300, 4000])
def test_fin_with_the_query(lab: Lab, peer: PeerMaker, kind: str, size: int) -> None:
    message = query(zones.size_name(size))
    client = peer(kind)
    client.connect()
    sent = client.send(prefixed(message), ACK | PSH | FIN)
    address = lab.address(kind, "kernel")
    assert client.reply() == ask(lab.network.client, address, message)
    finish(client, sent)


def test_the_port_is_used_again_after_an_orderly_close(
    peer: PeerMaker, expected: dict[bytes, bytes]
) -> None:
    first = peer()
    first.connect()
    first.send(prefixed(SMALL), ACK | PSH)
    assert first.reply() == expected[SMALL]
    close(first)
    second = peer(port=first.port)
    second.seq = (first.seq + 100_000) % MODULUS
    second.connect()
    second.send(prefixed(LARGE), ACK | PSH)
    assert second.reply() == expected[LARGE]


@pytest.mark.parametrize("state", ["shaken", "asked", "answered", "second"])
def test_the_port_is_used_again_by_a_client_that_forgot(
    peer: PeerMaker, expected: dict[bytes, bytes], state: str
) -> None:
    """It crashed, and no longer knows its old connection (RFC 9293, section 3.5.1)."""
    first = peer("nsd" if state != "asked" else "unruly")
    first.connect()
    if state == "asked":
        first.send(prefixed(query("quiet.60.1.test")), ACK | PSH)
    if state in ("answered", "second"):
        first.send(prefixed(SMALL), ACK | PSH)
        first.reply()
    if state == "second":
        first.send(prefixed(SMALL), ACK | PSH)
        first.reply()
    second = peer(port=first.port, **({"kind": "unruly"} if state == "asked" else {}))
    second.seq = (first.seq + 1_000_000) % MODULUS
    for _ in range(3):
        syn = second.send(flags=SYN, options=second.syn(), seq=second.seq, ack=0)
        answer = second.expect()
        if answer.flags == SYN | ACK:
            break
        # It resets what it does not know, and then tries again.
        second.send(flags=RST, seq=answer.ack)
    assert answer.ack == syn.next
    second.seq, second.ack = syn.next, answer.next
    second.tsecr = answer.timestamps[0] if answer.timestamps else 0
    message = query("plain.100.test") if state == "asked" else SMALL
    second.send(prefixed(message), ACK | PSH)
    reply = second.reply()
    assert reply[:2] == message[:2]
    assert state == "asked" or reply == expected[SMALL]


def test_a_reset_ends_the_connection(peer: PeerMaker) -> None:
    client = peer()
    client.connect()
    client.send(prefixed(SMALL), ACK | PSH)
    client.reply()
    client.send(flags=RST)
    client.quiet()
    client.send(prefixed(SMALL), ACK | PSH, seq=(client.seq + 50) % MODULUS)
    assert client.expect().flags & RST


def test_a_blind_reset_is_ignored(peer: PeerMaker, expected: dict[bytes, bytes]) -> None:
    client = peer()
    client.connect()
    client.send(prefixed(SMALL), ACK | PSH)
    client.reply()
    client.send(flags=RST, seq=(client.seq + 1_000_000) % MODULUS)
    client.send(prefixed(LARGE), ACK | PSH)
    assert client.reply() == expected[LARGE]
