"""A second query and more, while the first is at a server that takes its time."""

from __future__ import annotations

import itertools
import os
import socket
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .clients import connect, family, prefixed, query, receive, receive_bytes
from .conftest import ARMS, Lab, PeerMaker, laboratory
from .segments import ACK, FIN, MODULUS, PSH, RST, Peer

NUMBERS = itertools.count()
RETRANSMITTED = 100
"""Where tcpi_total_retrans is in struct tcp_info (include/uapi/linux/tcp.h, Linux 6.18)."""


@pytest.fixture(scope="session", params=["native", "native-one", "generic", "generic-offload"])
def kind(request: pytest.FixtureRequest) -> str:
    """The mode, whether checksums are left to offloads, and whether only one query may be open."""
    return str(request.param)


@pytest.fixture(scope="session")
def place(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Only the tests' own server, with checksums that are complete or left to offloads."""
    folder = tmp_path_factory.mktemp(f"pipelining-{kind}")
    options = ("--mode", kind.split("-")[0])
    if kind == "native-one":
        options += ("--several-queries", "false")
    else:
        # Slow queries come again at about the time when the gateway stops waiting.
        options += ("--patience", "5 s", "--timeout", "10 s")
    with laboratory(Path(folder), (), offload=kind != "generic", options=options) as lab:
        yield lab


def served(kind: str, arm: str) -> bool:
    """Whether the gateway itself serves several queries at once, with replies in any order."""
    return arm == "gateway" and kind != "native-one"


def slow(id: int, size: int = 200) -> bytes:
    """A query that the server answers after 0.6 seconds."""
    return query(f"slow.{size}.{next(NUMBERS)}.{os.getpid()}.test", id=id)


def plain(id: int, size: int = 100) -> bytes:
    """A query that it answers at once."""
    return query(f"plain.{size}.test", id=id)


def retransmitted(stream: socket.socket) -> int:
    """Segments that the client sent again."""
    info = stream.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    return int(struct.unpack_from("=I", info, RETRANSMITTED)[0])


@pytest.mark.parametrize("arm", ARMS)
@pytest.mark.parametrize("size", [200, 6000])
def test_nothing_waits_for_a_retransmission(
    place: Lab, kind: str, arm: str, version: int, size: int
) -> None:
    server = place.address("unruly", arm, version)
    names = ("to_kernel_pipelined", "adopted", "reply_repeated", "query_again", "query")
    many = served(kind, arm)
    before = [place.counter(name) if arm == "gateway" else 0 for name in names]
    for half_close in (False, True):
        with connect(place.network.client, server) as stream:
            with place.network.client.inside():
                datagrams = socket.socket(family(server), socket.SOCK_DGRAM)
            with datagrams:
                datagrams.bind(stream.getsockname())
                datagrams.setblocking(False)
                stream.sendall(prefixed(slow(1, size)))
                stream.sendall(prefixed(plain(2)))
                if half_close:
                    stream.shutdown(socket.SHUT_WR)
                replies = [receive(stream), receive(stream)]
                if many:
                    replies.sort()
                assert [reply[:2] for reply in replies] == [b"\0\1", b"\0\2"]
                assert len(replies[0]) > size - 60
                if not half_close:
                    # Afterwards it is an ordinary connection.
                    for id in (3, 4):
                        stream.sendall(prefixed(plain(id)))
                        assert receive(stream)[:2] == id.to_bytes(2)
                    stream.shutdown(socket.SHUT_WR)
                assert stream.recv(1) == b""
                # A query that the gateway serves is acknowledged with its reply. So the slow one
                # comes again meanwhile, as a single one would, and so does a FIN after it.
                assert many or retransmitted(stream) == 0
                # The server has also answered the first query over UDP.
                with pytest.raises(BlockingIOError):
                    datagrams.recv(65535)
    if arm == "gateway":
        after = [place.counter(name) for name in names]
        more = [b - a for a, b in zip(before, after, strict=True)]
        # Whatever comes again, the server gets each query only once: the first, or all.
        if not many:
            assert more == [2, 2, 2, 0, 2]
        elif size <= 1400:
            assert more == [0, 0, 0, 0, 6]
        else:
            # The kernel gets a reply that is too long for one segment, and everything after it.
            assert more == [0, 2, 0, 0, 4]


@pytest.mark.parametrize("arm", ARMS)
@pytest.mark.parametrize("apart", [True, False], ids=["one-by-one", "at-once"])
def test_many_in_a_row(place: Lab, kind: str, arm: str, apart: bool) -> None:
    """Queries after the second find the kernel's socket, even if they come at the same moment."""
    with connect(place.network.client, place.address("unruly", arm)) as stream:
        stream.sendall(prefixed(slow(0)))
        rest = [prefixed(plain(id)) for id in range(1, 40)]
        for part in rest if apart else [b"".join(rest)]:
            stream.sendall(part)
        ids = [receive(stream)[:2] for _ in range(40)]
        assert (sorted(ids) if served(kind, arm) else ids) == [id.to_bytes(2) for id in range(40)]
        # Here a slow query comes again, as a single one would.
        assert served(kind, arm) or retransmitted(stream) == 0


@pytest.mark.parametrize("arm", ARMS)
def test_a_long_second_part(place: Lab, kind: str, arm: str) -> None:
    """More than a segment behind the first query, and part of a query."""
    with connect(place.network.client, place.address("unruly", arm)) as stream:
        stream.sendall(prefixed(slow(0)))
        rest = b"".join(prefixed(plain(id)) for id in range(1, 300))
        stream.sendall(rest[:-7])
        ids = [receive(stream)[:2] for _ in range(299)]
        assert (sorted(ids) if served(kind, arm) else ids) == [id.to_bytes(2) for id in range(299)]
        stream.sendall(rest[-7:])
        assert receive(stream)[:2] == (299).to_bytes(2)
        # Here the part that was too long to be kept comes again.
        assert served(kind, arm) or retransmitted(stream) == 0


# By hand.


def replies(client: Peer, count: int, again: Callable[[], None] = lambda: None) -> list[int]:
    """The IDs of that many replies, in stream order; what arrives is acknowledged."""
    begin, have = client.ack, b""
    ids: list[int] = []
    ahead: dict[int, bytes] = {}
    for _ in range(60):
        segment = client.receive(0.2)
        if segment is None:
            again()
            continue
        assert not segment.flags & RST, str(segment)
        if segment.payload:
            ahead[(segment.seq - begin) % MODULUS] = segment.payload
            while (part := ahead.pop(len(have), None)) is not None:
                have += part
            client.ack = (begin + len(have)) % MODULUS
            client.send()
        ids, at = [], 0
        while len(have) >= at + 4 and len(have) >= at + 2 + int.from_bytes(have[at : at + 2]):
            ids.append(int.from_bytes(have[at + 2 : at + 4]))
            at += 2 + int.from_bytes(have[at : at + 2])
        if len(ids) == count:
            assert at == len(have)
            return ids
    raise AssertionError(f"replies to {ids} alone; {[str(s) for s in client.seen]}")


@pytest.mark.parametrize("size", [100, 4000])
@pytest.mark.parametrize("count", [1, 3])
def test_queries_that_cross_the_reply(peer: PeerMaker, version: int, size: int, count: int) -> None:
    """They were sent before the client had it, and nothing is sent again."""
    client = peer("unruly", version=version)
    client.connect()
    client.send(prefixed(plain(1, size)), ACK | PSH)
    time.sleep(0.1)
    for id in range(count):
        client.send(prefixed(plain(2 + id)), ACK | PSH)
    assert replies(client, 1 + count) == list(range(1, 2 + count))
    client.send(prefixed(plain(9)), ACK | PSH)
    assert replies(client, 1) == [9]


@pytest.mark.parametrize("size", [100, 4000])
def test_a_fin_that_crosses_the_reply(peer: PeerMaker, version: int, size: int) -> None:
    client = peer("unruly", version=version)
    client.connect()
    client.send(prefixed(plain(1, size)), ACK | PSH)
    time.sleep(0.1)
    fin = client.send(flags=FIN | ACK)
    assert client.reply()[:2] == b"\0\1"
    while not any(segment.flags & FIN for segment in client.seen):
        client.expect()
    client.ack = max(segment.next for segment in client.seen if segment.flags & FIN)
    client.send()
    while all(segment.ack != fin.next for segment in client.seen):
        client.expect()


def test_the_first_again_with_the_second_behind_it(peer: PeerMaker) -> None:
    """As Linux sends again: in one segment."""
    client = peer("unruly")
    client.connect()
    first, second = prefixed(slow(1)), prefixed(plain(2))
    begin = client.seq
    client.send(first, ACK | PSH)
    client.send(first + second, ACK | PSH, seq=begin)
    client.seq = (begin + len(first + second)) % MODULUS
    assert replies(client, 2) == [1, 2]


@pytest.mark.parametrize("lost", [{0}, {1}, {2}, {0, 1}, {1, 2}, {0, 2}])
def test_any_of_them_may_be_lost(peer: PeerMaker, lost: set[int]) -> None:
    client = peer("unruly")
    client.connect()
    parts = [prefixed(slow(1)), prefixed(plain(2)), prefixed(plain(3))]
    sent = []
    for at, part in enumerate(parts):
        segment = client.segment(part, ACK | PSH)
        client.seq = segment.next
        sent.append(segment)
        if at not in lost:
            client.tap.send(segment)

    def again() -> None:
        """Everything unacknowledged, from the first on."""
        acked = client.seen[-1].ack
        for segment in sent:
            if (segment.next - acked) % MODULUS < MODULUS // 2 and segment.next != acked:
                client.send(segment.payload, ACK | PSH, seq=segment.seq)

    assert sorted(replies(client, 3, again)) == [1, 2, 3]


def test_the_second_comes_before_the_first(peer: PeerMaker) -> None:
    client = peer("unruly")
    client.connect()
    parts = [prefixed(slow(1)), prefixed(plain(2))]
    sent = []
    for part in parts:
        sent.append(client.segment(part, ACK | PSH))
        client.seq = sent[-1].next
    client.tap.send(sent[1], sent[0])

    def again() -> None:
        for segment in sent:
            if segment.seq == client.seen[-1].ack:
                client.send(segment.payload, ACK | PSH, seq=segment.seq)

    assert sorted(replies(client, 2, again)) == [1, 2]


def test_copies_change_nothing(peer: PeerMaker) -> None:
    """Each segment comes twice, and the first once more when the kernel has the connection."""
    client = peer("unruly")
    client.connect()
    sent = []
    for part in (prefixed(slow(1)), prefixed(plain(2)), prefixed(plain(3))):
        sent.append(client.send(part, ACK | PSH))
        client.tap.send(sent[-1])
    client.receive(0.1)
    client.tap.send(sent[0])
    assert sorted(replies(client, 3)) == [1, 2, 3]
    client.tap.send(*sent)
    fin = client.send(flags=FIN | ACK)
    while (segment := client.expect()).ack != fin.next or not segment.flags & FIN:
        assert not segment.payload, "something was answered twice"


def test_a_reset_reaches_the_kernel(lab: Lab, arm: str, peer: PeerMaker) -> None:
    client = peer("unruly")
    client.connect()
    client.send(prefixed(slow(1)), ACK | PSH)
    # A part alone goes to the kernel, with everything before it.
    client.send(prefixed(plain(2))[:-3], ACK | PSH)

    def there() -> bool:
        sockets = lab.network.server.run("ss", "-Htn", "sport", "=", ":53")
        return f":{client.port} " in sockets or f":{client.port}\n" in sockets + "\n"

    for _ in range(20):
        if there():
            break
        client.receive(0.05)
    assert there()
    client.send(flags=RST | ACK)
    client.receive(0.1)
    assert not there()


@pytest.mark.parametrize("arm", ARMS)
def test_a_stream_of_pairs(place: Lab, kind: str, arm: str) -> None:
    """Hundreds of connections at once, each with two queries in a row."""
    server, streams = place.address("unruly", arm), []
    try:
        for _ in range(100):
            stream = connect(place.network.client, server)
            streams.append(stream)
            stream.sendall(prefixed(slow(1)))
            stream.sendall(prefixed(plain(2)))
        for stream in streams:
            first = b"\0\2" if served(kind, arm) else b"\0\1"
            assert receive_bytes(stream, 4)[2:] == first
    finally:
        for stream in streams:
            stream.close()
