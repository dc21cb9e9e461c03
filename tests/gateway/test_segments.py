"""One handmade connection: what breaks naive stateless TCP, also on the kernel's TCP."""

from __future__ import annotations

import itertools
import socket
import struct
import time

import dns.edns
import pytest

from . import zones
from .clients import ask, connect, prefixed, query, receive
from .conftest import KINDS, LARGE, SMALL, Lab, PeerMaker
from .segments import ACK, FIN, MODULUS, NOP, PSH, RST, SYN, Peer, Segment


def close(client: Peer) -> None:
    """The client closes first, in an orderly way."""
    sent = client.send(flags=FIN | ACK)
    finish(client, sent)


def finish(client: Peer, sent: Segment) -> None:
    """The client's FIN has gone out: it is acknowledged, and the server's comes.

    As any TCP, the client sends again what is not acknowledged.
    """
    until = time.monotonic() + 5
    acknowledged = any(segment.flags & FIN for segment in client.seen)
    while not acknowledged or all(segment.ack != client.seq for segment in client.seen):
        assert time.monotonic() < until, f"not closed: {[str(s) for s in client.seen]}"
        segment = client.receive(0.2)
        if segment is None:
            client.send(sent.payload, sent.flags, seq=sent.seq)
            continue
        assert not segment.flags & RST, str(segment)
        if segment.flags & FIN:
            client.ack = segment.next
            client.send()
            acknowledged = True
    nothing_new(client)


def nothing_new(client: Peer, seconds: float = 0.15) -> None:
    """Nothing new comes: on a busy machine, a copy may cross its acknowledgement."""
    until = time.monotonic() + seconds
    while (segment := client.receive(max(0.0, until - time.monotonic()))) is not None:
        assert not segment.flags & RST, str(segment)
        assert (client.ack - segment.next) % MODULUS < 100_000, str(segment)


# Handshakes.


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


# Queries in unusual segments.


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


# Closing.


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


# Windows and segment sizes.


@pytest.mark.parametrize("timestamps", [True, False], ids=["timestamps", "plain"])
@pytest.mark.parametrize("mss", [88, 256, 536, 537, 1001, 1220, 1399, 1459, 1460])
def test_no_segment_is_longer_than_the_clients_mss(
    peer: PeerMaker, expected: dict[bytes, bytes], mss: int, timestamps: bool
) -> None:
    # The kernel adopts no connection with an MSS below 536, and would send longer segments.
    message = LARGE if mss >= 536 else SMALL
    client = peer(mss=mss, timestamps=timestamps)
    client.connect()
    client.send(prefixed(message), ACK | PSH)
    assert client.reply() == expected[message]
    longest = max(len(segment.payload) for segment in client.seen)
    assert longest <= mss - 12 * timestamps


@pytest.mark.parametrize("window", [100, 1000, 3000])
def test_a_reply_above_the_window(
    peer: PeerMaker, expected: dict[bytes, bytes], window: int
) -> None:
    client = peer(window_scale=None, window=window)
    client.connect()
    client.send(prefixed(LARGE), ACK | PSH)
    begin = client.ack
    assert client.reply(timeout=20) == expected[LARGE]
    # Nothing was ever sent beyond the acknowledged data plus the window.
    edge = begin
    for segment in client.seen:
        if segment.payload:
            assert (segment.next - begin) % MODULUS <= (edge - begin) % MODULUS + window
            edge = max(edge, segment.next)


def test_a_zero_window_that_opens_later(peer: PeerMaker, expected: dict[bytes, bytes]) -> None:
    client = peer()
    client.connect()
    client.window = 0
    query_sent = client.send(prefixed(SMALL), ACK | PSH)
    while (segment := client.receive(0.5)) is not None:
        assert len(segment.payload) <= 1, "more than a window probe"
    client.window = 65535
    client.send()

    def again() -> None:
        if not any(segment.ack == client.seq for segment in client.seen):
            client.send(query_sent.payload, ACK | PSH, seq=query_sent.seq)

    assert client.reply(again=again) == expected[SMALL]


def test_an_answer_to_a_segment_with_a_wrong_checksum_never_comes(peer: PeerMaker) -> None:
    client = peer()
    client.connect()
    client.send(prefixed(SMALL), ACK | PSH, checksum=0xBEEF, seq=client.seq)
    client.quiet(0.3)


# What may stand before and behind the TCP header.


@pytest.mark.parametrize(
    "options",
    [NOP * 4, NOP * 3 + b"\0", b"\x94\x04\0\0", NOP * 40],
    ids=["nop", "end", "alert", "40"],
)
def test_ipv4_options(peer: PeerMaker, expected: dict[bytes, bytes], options: bytes) -> None:
    client = peer(ip_options=options)
    client.connect()
    for message in (SMALL, LARGE):
        client.send(prefixed(message), ACK | PSH)
        assert client.reply() == expected[message]


def extension(next_header: int, length: int = 8) -> bytes:
    """An IPv6 hop-by-hop or destination header with an option for experiments (RFC 4727, 3.4).

    Its type, 0x1e, is one that is skipped if unknown. Linux drops what has over 7 bytes of padding.
    """
    return bytes([next_header, length // 8 - 1, 0x1E, length - 4]) + bytes(length - 4)


@pytest.mark.parametrize(
    ("first", "headers"),
    [
        (0, extension(6)),
        (60, extension(6, 24)),
        (0, extension(60) + extension(6)),
    ],
    ids=["hop-by-hop", "destination", "both"],
)
def test_ipv6_extension_headers(
    peer: PeerMaker, expected: dict[bytes, bytes], first: int, headers: bytes
) -> None:
    client = peer(version=6, first_header=first, ip_options=headers)
    client.connect()
    for message in (SMALL, LARGE):
        client.send(prefixed(message), ACK | PSH)
        assert client.reply() == expected[message]


@pytest.mark.parametrize("padding", [1, 6, 46])
def test_bytes_behind_the_packet_are_ignored(
    peer: PeerMaker, expected: dict[bytes, bytes], padding: int
) -> None:
    """Ethernet pads frames to 60 bytes, not always with zeros."""
    client = peer(timestamps=False)
    dirt = bytes(itertools.islice(itertools.cycle(b"\xa5\x5a\xff"), padding))
    client.send(flags=SYN, options=client.syn(), padding=dirt)
    client.ack = client.expect(SYN | ACK).next
    client.send(padding=dirt)
    client.send(prefixed(SMALL), ACK | PSH, padding=dirt)
    assert client.reply() == expected[SMALL]
    client.send(flags=FIN | ACK, padding=dirt)
    assert client.expect(FIN | ACK).ack == client.seq


# EDNS.


def options(name: str) -> list[dns.edns.Option]:
    """EDNS options, by the names of the tests."""
    code, length = {"odd": (65001, 13), "empty": (65001, 0), "padding": (12, 201), "nsid": (3, 0)}[
        name
    ]
    return [dns.edns.GenericOption(code, bytes(length))]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["odd", "empty", "padding", "nsid"])
def test_edns_options_of_any_length(lab: Lab, peer: PeerMaker, kind: str, name: str) -> None:
    for size, edns in itertools.product((300, 1200), (512, 1232, 4096)):
        message = query(zones.size_name(size), edns=edns, options=options(name))
        client = peer(kind)
        client.connect()
        client.send(prefixed(message), ACK | PSH)
        address = lab.address(kind, "kernel")
        assert client.reply() == ask(lab.network.client, address, message)


# The server.


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


def test_timestamps_are_echoed(peer: PeerMaker) -> None:
    """RFC 7323, section 4.3: TSecr is the TSval of the segment that is acknowledged."""
    client = peer()
    client.connect()
    client.tsval = 123_456
    client.send(prefixed(SMALL), ACK | PSH)
    client.reply()
    reply = next(segment for segment in client.seen if segment.payload)
    assert reply.timestamps is not None
    assert reply.timestamps[1] == 123_456
    assert struct.pack(">I", reply.timestamps[0]) == struct.pack(">I", client.tsecr)
