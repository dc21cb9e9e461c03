"""Several queries at once on a connection, which the gateway serves without the kernel's TCP."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from . import zones
from .clients import ask, connect, prefixed, query, receive
from .conftest import KINDS, Lab, laboratory
from .programs import Conditions
from .segments import ACK, MODULUS, PSH, RST, Peer, in_order, tap

SIZES = (60, 300, 1200)
# On a busy machine a server may take its time.
OPTIONS = ("--patience", "10 s", "--timeout", "20 s", "--limits-query-rate", "0")


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A gateway that no other test has asked: names with large replies go to the kernel."""
    with laboratory(tmp_path_factory.mktemp("several") / "lab", options=OPTIONS) as made:
        yield made


def asked(id: int) -> bytes:
    """The query with this ID."""
    return query(zones.size_name(SIZES[id % len(SIZES)]), id=id, edns=4096)


def expected(lab: Lab, kind: str, version: int) -> list[bytes]:
    """What follows the ID in the replies to queries of each size, from the kernel's TCP."""
    address = lab.address(kind, "kernel", version)
    return [ask(lab.network.client, address, asked(id))[2:] for id in range(len(SIZES))]


def check(stream: socket.socket, count: int, replies: list[bytes]) -> None:
    """Receives the replies to the queries 0 to `count`, in any order."""
    came = [receive(stream) for _ in range(count)]
    ids = [int.from_bytes(reply[:2]) for reply in came]
    assert sorted(ids) == list(range(count))
    assert all(reply[2:] == replies[id % len(SIZES)] for id, reply in zip(ids, came, strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_they_are_served_without_the_kernels_tcp(fresh: Lab, kind: str, version: int) -> None:
    """Queries come in separate segments, several in one, and both again when all are answered."""
    names = ("query_pipelined", "adopted")
    replies = expected(fresh, kind, version)
    before = [fresh.counter(name) for name in names]
    with connect(fresh.network.client, fresh.address(kind, "gateway", version)) as stream:
        for _ in range(2):
            for id in range(10):
                stream.sendall(prefixed(asked(id)))
            check(stream, 10, replies)
            stream.sendall(b"".join(prefixed(asked(id)) for id in range(12)))
            check(stream, 12, replies)
        stream.shutdown(socket.SHUT_WR)
        assert stream.recv(1) == b""
    pipelined, adopted = (
        fresh.counter(name) - count for name, count in zip(names, before, strict=True)
    )
    # Served are at least those that come together in one segment, except for the first.
    assert pipelined >= 22
    assert adopted == 0


def test_as_the_first_that_a_client_says(fresh: Lab, version: int) -> None:
    """The C library glibc sends A and AAAA in one segment (docs/dns-clients.md)."""
    replies, adopted = expected(fresh, "nsd", version), fresh.counter("adopted")
    for _ in range(3):
        with connect(fresh.network.client, fresh.address("nsd", "gateway", version)) as stream:
            stream.sendall(prefixed(asked(0)) + prefixed(asked(1)))
            check(stream, 2, replies)
    assert fresh.counter("adopted") == adopted


def test_dnsperf_is_served(fresh: Lab, tmp_path: Path) -> None:
    """Five connections with twelve queries each; it delays small segments (Nagle)."""
    names = tmp_path / "names"
    names.write_text("".join(f"{zones.size_name(size)} TXT\n" for size in SIZES[:2]) * 500)
    counted = ("query", "reply", "adopted")
    before = [fresh.counter(name) for name in counted]
    said = fresh.network.client.run(
        *("dnsperf", "-m", "tcp", "-s", fresh.address("nsd", "gateway"), "-d", str(names)),
        *("-c", "5", "-q", "60", "-n", "1", "-t", "30"),
    )
    completed = re.search(r"Queries completed:\s+(\d+) \(100.00%\)", said)
    assert completed is not None, said
    asked, replied, adopted = (
        fresh.counter(name) - count for name, count in zip(counted, before, strict=True)
    )
    assert (int(completed[1]), asked, replied, adopted) == (1000, 1000, 1000, 0)


@pytest.mark.slow
def test_a_line_that_loses_doubles_and_reorders(tmp_path: Path, version: int) -> None:
    """Each reply comes, once and unchanged."""
    made = laboratory(tmp_path / "lab", ("nsd",), wired=True, options=OPTIONS)
    with made as lab:
        assert lab.wire is not None
        lab.wire.set(Conditions())
        replies, resent = expected(lab, "nsd", version), lab.counter("resent")
        lab.wire.set(Conditions(0.05, 0.02, 0.05, delay=0.002, seed=2026 + version))
        server = lab.address("nsd", "gateway", version)
        streams = [connect(lab.network.client, server, timeout=120) for _ in range(40)]
        try:
            for turn in range(2):
                for number, stream in enumerate(streams):
                    queries = [prefixed(asked(id)) for id in range(20)]
                    # Each in a segment, and several in one.
                    several = 1 + (number + turn) % 4
                    for at in range(0, 20, several):
                        stream.sendall(b"".join(queries[at : at + several]))
                for stream in streams:
                    check(stream, 20, replies)
        finally:
            for stream in streams:
                stream.close()
        assert lab.counter("resent") > resent
        assert lab.counter("query_pipelined") > 0


def test_a_burst_that_comes_while_its_first_replies_are_on_their_way(
    fresh: Lab, version: int
) -> None:
    """200 queries, as a Linux client sends them: ten alone, and the others in full segments.

    Nothing is sent twice, so no reply waits for a timeout of the client.
    """
    queries = [prefixed(query(zones.size_name(60), id=id)) for id in range(200)]
    adopted = fresh.counter("adopted")
    with tap(fresh.network) as line:
        client = Peer(line, fresh.address("nsd", "gateway", version))
        client.connect()
        for message in queries[:10]:
            client.send(message, ACK | PSH)
        first = messages(client, 1)
        burst = b"".join(queries[10:])
        for at in range(0, len(burst), 1400):
            client.send(burst[at : at + 1400])
        replies = first + messages(client, 200 - len(first))
    assert sorted(int.from_bytes(reply[:2]) for reply in replies) == list(range(200))
    assert fresh.counter("adopted") == adopted + 1


def messages(client: Peer, count: int) -> list[bytes]:
    """At least so many DNS messages, acknowledged as their segments come."""
    begin, stream = client.ack, dict[int, bytes]()
    while True:
        have, found = in_order(stream), list[bytes]()
        while len(have) >= 2 and len(have) >= 2 + int.from_bytes(have[:2]):
            found.append(have[2 : 2 + int.from_bytes(have[:2])])
            have = have[2 + len(found[-1]) :]
        if len(found) >= count:
            return found
        segment = client.receive(5)
        assert segment is not None, f"{len(found)} of {count} messages came"
        assert not segment.flags & RST, str(segment)
        if segment.payload:
            stream[(segment.seq - begin) % MODULUS] = segment.payload
            client.ack = (begin + len(in_order(stream))) % MODULUS
            client.send()
