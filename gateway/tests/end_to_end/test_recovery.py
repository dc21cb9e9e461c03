"""Lost, repeated and reordered segments, by hand: only the client recovers."""

from __future__ import annotations

import itertools

import pytest

from .clients import prefixed, query
from .conftest import LARGE, SMALL, Lab, PeerMaker
from .handmade import close
from .segments import ACK, MODULUS, PSH

NUMBERS = itertools.count()


@pytest.mark.parametrize("message", [SMALL, LARGE], ids=["small", "large"])
def test_a_query_that_comes_again_gets_the_same_reply(
    peer: PeerMaker, expected: dict[bytes, bytes], message: bytes
) -> None:
    client = peer()
    client.connect()
    sent = client.send(prefixed(message), ACK | PSH)
    assert client.reply(acknowledge=False) == expected[message]
    client.ack = (client.ack - 2 - len(expected[message])) % MODULUS

    def again() -> None:
        client.send(sent.payload, ACK | PSH, seq=sent.seq)

    again()
    assert client.reply(again=again) == expected[message]


@pytest.mark.parametrize("lost", range(6))
def test_each_segment_of_a_reply_may_be_lost(
    peer: PeerMaker, expected: dict[bytes, bytes], lost: int
) -> None:
    client = peer(mss=1000)
    client.connect()
    sent = client.send(prefixed(LARGE), ACK | PSH)

    def again() -> None:
        if all(segment.ack != client.seq for segment in client.seen):
            client.send(sent.payload, ACK | PSH, seq=sent.seq)

    assert client.reply(again=again, lose={lost}) == expected[LARGE]


@pytest.mark.parametrize("parts", [False, True], ids=["whole", "in-parts"])
@pytest.mark.parametrize("first", [SMALL, LARGE], ids=["small", "large"])
def test_new_data_behind_old_data_counts(
    lab: Lab,
    arm: str,
    peer: PeerMaker,
    expected: dict[bytes, bytes],
    version: int,
    first: bytes,
    parts: bool,
) -> None:
    """RFC 9293, section 3.10.7.4: TCP cuts off what it has and takes the rest."""
    client = peer(version=version)
    client.connect()
    sent = client.send(prefixed(first), ACK | PSH)
    assert client.reply() == expected[first]
    stream = sent.payload + prefixed(SMALL)
    client.seq = (sent.seq + len(stream)) % MODULUS
    through = arm == "gateway"
    before = lab.counter("adopted") if through else 0

    def again() -> None:
        client.send(stream, ACK | PSH, seq=sent.seq)

    if parts:
        # Half a query goes to the kernel's TCP, which takes the connection over there.
        client.send(stream[:-20], ACK | PSH, seq=sent.seq)
    again()
    assert client.reply(again=again) == expected[SMALL]
    assert not through or lab.counter("adopted") == before + parts
    close(client)


def test_all_segments_but_the_last_are_lost(peer: PeerMaker, expected: dict[bytes, bytes]) -> None:
    client = peer(mss=1000)
    client.connect()
    sent = client.send(prefixed(LARGE), ACK | PSH)

    def again() -> None:
        if all(segment.ack != client.seq for segment in client.seen):
            client.send(sent.payload, ACK | PSH, seq=sent.seq)

    assert client.reply(timeout=20, again=again, lose=set(range(4))) == expected[LARGE]


def test_duplicate_acknowledgements_bring_the_segment(
    peer: PeerMaker, expected: dict[bytes, bytes]
) -> None:
    """RFC 5681, section 3.2: three of them, long before any timeout."""
    client = peer(mss=1000)
    client.connect()
    client.send(prefixed(LARGE), ACK | PSH)
    segments = []
    while (segment := client.receive(0.15)) is not None:
        if segment.payload and segment.seq not in {s.seq for s in segments}:
            segments.append(segment)
    first = min(segments, key=lambda s: (s.seq - client.ack) % MODULUS)
    assert first.seq == client.ack
    # The second segment was lost; the first is acknowledged, and again for each later one.
    client.ack = first.next
    for _ in range(5):
        client.send()
    while (segment := client.expect()).seq != client.ack or not segment.payload:
        pass


@pytest.mark.parametrize("lost", range(5))
def test_two_different_replies_are_never_mixed(peer: PeerMaker, lost: int) -> None:
    """The gateway may ask again if several segments are lost; it only sends the first reply."""
    name = f"changing.4000.{next(NUMBERS)}.test"
    client = peer("unruly", mss=1000)
    client.connect()
    sent = client.send(prefixed(query(name, edns=1232)), ACK | PSH)

    def again() -> None:
        if all(segment.ack != client.seq for segment in client.seen):
            client.send(sent.payload, ACK | PSH, seq=sent.seq)

    reply = client.reply(again=again, lose={lost})
    numbers = {reply[at : at + 8] for at in number_places(reply)}
    assert len(numbers) == 1


def number_places(reply: bytes) -> list[int]:
    """Where the eight digits are in the strings of a changing reply."""
    places = []
    for at in range(len(reply) - 8):
        if reply[at] == 240 and reply[at + 1 : at + 9].isdigit():
            places += range(at + 1, at + 1 + 240, 8)
    assert len(places) > 300
    return places
