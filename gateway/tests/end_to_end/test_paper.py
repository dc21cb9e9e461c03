"""The paper's gateway under one name (Hayes, Rossi, Armitage 2010, section IV).

Queries are acknowledged when they come, and the last segment of their reply has FIN.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from . import gateway, zones
from .clients import ask, query
from .conftest import LARGE, SMALL, Lab, laboratory
from .segments import ACK, FIN, PSH, Peer, tap

PAPER = ("--preset", "hayes-2010", "--active", "true")


@pytest.fixture(scope="module", params=["native", "generic, whole checksums"])
def lab(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """NSD, the tests' own server, and the gateway as in the paper."""
    if gateway.program() is None:
        pytest.skip(gateway.absent())
    mode, _, whole = request.param.partition(", ")
    options = ("--mode", mode, *PAPER)
    folder = tmp_path_factory.mktemp("paper") / "lab"
    with laboratory(folder, ("nsd",), options=options, offload=not whole) as made:
        yield made


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("message", [SMALL, LARGE], ids=["one segment", "several"])
def test_queries_are_acknowledged_before_their_replies(
    lab: Lab, version: int, message: bytes
) -> None:
    expected = ask(lab.network.client, lab.address("nsd", "kernel"), message)
    with tap(lab.network) as line:
        peer = Peer(line, lab.address("nsd", "gateway", version))
        peer.connect()
        query = peer.send(len(message).to_bytes(2) + message, ACK | PSH)
        first = peer.expect()
        assert (first.flags, first.payload) == (ACK, b"")
        assert (first.seq, first.ack) == (query.ack, query.next)
        parts = []
        while not parts or not parts[-1].flags & FIN:
            parts.append(peer.expect())
        assert all(part.ack == query.next for part in parts)
        assert b"".join(part.payload for part in parts)[2:] == expected


def test_it_does_not_wait_for_the_server(lab: Lab) -> None:
    """The server takes its time; the acknowledgement comes before its reply."""
    message = query("slow.300.test")
    with tap(lab.network) as line:
        peer = Peer(line, lab.address("unruly", "gateway"))
        peer.connect()
        sent = peer.send(len(message).to_bytes(2) + message, ACK | PSH)
        began = time.monotonic()
        assert peer.expect().ack == sent.next
        acknowledged = time.monotonic() - began
        assert b"slow" in peer.expect(timeout=10).payload
        assert time.monotonic() - began > acknowledged + 0.1


def test_ordinary_clients_have_their_answers(lab: Lab) -> None:
    """Also replies that are too long for the gateway's segments, which the kernel sends."""
    before = lab.counter("query")
    for version in (4, 6):
        for size in (60, 1200, 1470, 9000, 30_000):
            message = query(zones.size_name(size))
            through = ask(lab.network.client, lab.address("nsd", "gateway", version), message)
            assert through == ask(lab.network.client, lab.address("nsd", "kernel"), message)
    assert lab.counter("query") >= before + 8
    assert lab.counter("xdp_error") == 0
