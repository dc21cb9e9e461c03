"""Handshakes and queries in unusual segments, by hand, on the kernel's TCP as well."""

from __future__ import annotations

import pytest

from . import zones
from .clients import prefixed, query
from .conftest import LARGE, SMALL, PeerMaker
from .handmade import close
from .segments import ACK, MODULUS, PSH, RST, SYN, Peer


def test_a_syn_ack_has_what_was_offered(peer: PeerMaker, version: int) -> None:
    client = peer(version=version)
    answer = client.connect()
    assert answer.mss == (1460 if version == 4 else 1440)
    assert answer.sack_permitted
    assert answer.timestamps is not None
    assert answer.timestamps[1] == client.tsval
    assert answer.window_scale is not None


def test_a_syn_without_options_gets_none_but_the_mss(peer: PeerMaker) -> None:
    client = peer(mss=None, window_scale=None, sack=False, timestamps=False)
    answer = client.connect()
    assert answer.timestamps is None
    assert answer.window_scale is None
    assert not answer.sack_permitted
    client.send(prefixed(SMALL), ACK | PSH)
    assert len(client.reply()) >= 300


def test_the_ack_of_the_handshake_may_be_lost(
    peer: PeerMaker, expected: dict[bytes, bytes]
) -> None:
    client = peer()
    client.connect(acknowledge=False)
    client.send(prefixed(SMALL), ACK | PSH)
    assert client.reply() == expected[SMALL]


def test_a_syn_that_comes_again_is_answered_again(
    peer: PeerMaker, expected: dict[bytes, bytes]
) -> None:
    client = peer()
    first = client.connect(acknowledge=False)
    client.send(flags=SYN, options=client.syn(), seq=(client.seq - 1) % MODULUS, ack=0)
    again = client.expect(SYN | ACK)
    assert (again.seq, again.ack) == (first.seq, first.ack)
    client.send(prefixed(SMALL), ACK | PSH)
    assert client.reply() == expected[SMALL]


def test_a_split_length_prefix(peer: PeerMaker, expected: dict[bytes, bytes]) -> None:
    client = peer()
    client.connect()
    stream = prefixed(SMALL)
    client.send(stream[:1], ACK | PSH)
    client.receive(0.1)
    client.send(stream[1:], ACK | PSH)
    assert client.reply() == expected[SMALL]


@pytest.mark.parametrize("cut", [2, 3, 14, 20])
def test_a_split_query(peer: PeerMaker, expected: dict[bytes, bytes], cut: int) -> None:
    client = peer()
    client.connect()
    stream = prefixed(SMALL)
    client.send(stream[:cut], ACK | PSH)
    client.send(stream[cut:], ACK | PSH)
    assert client.reply() == expected[SMALL]


def test_a_query_byte_by_byte(peer: PeerMaker, expected: dict[bytes, bytes], version: int) -> None:
    client = peer(version=version)
    client.connect()
    for byte in prefixed(SMALL):
        client.send(bytes([byte]), ACK | PSH)
    assert client.reply() == expected[SMALL]


def test_the_second_part_comes_first(peer: PeerMaker, expected: dict[bytes, bytes]) -> None:
    client = peer()
    client.connect()
    stream = prefixed(SMALL)
    begin = client.seq
    client.send(stream[10:], ACK | PSH, seq=(begin + 10) % MODULUS)
    client.receive(0.1)
    client.send(stream[:10], ACK | PSH)

    def again() -> None:
        client.send(stream, ACK | PSH, seq=begin)

    client.seq = (begin + len(stream)) % MODULUS
    assert client.reply(again=again) == expected[SMALL]


@pytest.mark.parametrize("count", [2, 3, 8])
def test_several_queries_in_a_segment(peer: PeerMaker, count: int) -> None:
    client = peer()
    client.connect()
    queries = [query(zones.size_name(100), id=i + 1) for i in range(count)]
    client.send(b"".join(map(prefixed, queries)), ACK | PSH)
    assert ids(client, count) == set(range(1, count + 1))


def test_pipelined_queries(peer: PeerMaker) -> None:
    client = peer()
    client.connect()
    sent = [
        client.send(prefixed(query(zones.size_name(100), id=i + 1)), ACK | PSH) for i in range(5)
    ]

    def again() -> None:
        """Like any TCP, it sends again what is not acknowledged, from the start."""
        for segment in sent:
            if segment.seq == client.seen[-1].ack:
                client.send(segment.payload, ACK | PSH, seq=segment.seq)

    assert ids(client, 5, again) == set(range(1, 6))


def ids(client: Peer, count: int, again: object = lambda: None) -> set[int]:
    """The IDs of that many replies, which may share segments."""
    begin, stream, found = client.ack, {}, set()  # type: ignore[var-annotated]
    for _ in range(200):
        segment = client.receive(0.2)
        if segment is None:
            again()  # type: ignore[operator]
            continue
        assert not segment.flags & RST
        if segment.payload:
            stream[(segment.seq - begin) % MODULUS] = segment.payload
        have = b"".join(stream[at] for at in sorted(stream))
        client.ack = (begin + len(have)) % MODULUS
        if segment.payload:
            client.send()
        found = set()
        while len(have) > 2 and len(have) >= 2 + int.from_bytes(have[:2]):
            found.add(int.from_bytes(have[2:4]))
            have = have[2 + int.from_bytes(have[:2]) :]
        if len(found) == count:
            return found
    raise AssertionError(f"replies to {found} of {count} alone")


@pytest.mark.parametrize("first", [SMALL, LARGE], ids=["small", "large"])
def test_a_second_query_on_the_connection(
    peer: PeerMaker, expected: dict[bytes, bytes], version: int, first: bytes
) -> None:
    client = peer(version=version)
    client.connect()
    for message in (first, SMALL, LARGE, SMALL):
        client.send(prefixed(message), ACK | PSH)
        assert client.reply() == expected[message]
    close(client)
