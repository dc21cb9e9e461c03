"""What Knot DNS does with a query over QUIC that overtakes the client's Finished (RFC 9001, 5.7).

The client is `narrows probe`, that is quinn: its query leaves right after Finished, in a datagram
of its own. The line lets them change places.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
from pathlib import Path

import pytest

from ..network import network
from . import real_servers, real_zones
from .conftest import INSTALL, cannot
from .lab import KERNEL
from .packets import UDP, Packet
from .real_servers import Options, serving
from .wire import Wire

ADDRESS, ADDRESS6 = "192.0.2.53", "2001:db8::53"
COUNT = 4
LONG_HEADER = 0x80
"""This bit of the first byte is set in Initial and Handshake packets (RFC 9000, 17.2)."""
LONGEST_QUERY = 200
"""A datagram with the query is shorter; quinn's probes of the path are longer."""


class Line:
    """Holds each connection's Finished back until the query has passed, if it reorders."""

    def __init__(self, reorders: bool) -> None:
        self.reorders = reorders
        self.met: set[int] = set()
        self.held: dict[int, list[bytes]] = {}
        self.queries: dict[int, int] = {}

    def rule(self, packet: Packet, frame: bytes) -> list[bytes]:
        """What becomes of a frame."""
        port = packet.client_port
        if packet.protocol != UDP or packet.destination_port != 853:
            return [frame]
        if packet.payload[0] & LONG_HEADER:
            is_hello = port not in self.met
            self.met.add(port)
            if is_hello or not self.reorders or port in self.queries:
                return [frame]
            self.held.setdefault(port, []).append(frame)
            return []
        if len(packet.payload) > LONGEST_QUERY or port in self.queries:
            return [frame]
        self.queries[port] = len(packet.payload)
        return [frame, *self.held.get(port, [])]


@pytest.mark.servers
@pytest.mark.alone
@pytest.mark.parametrize("reorders", [False, True])
def test_knot_acknowledges_an_early_query_and_does_not_answer(
    reorders: bool, tmp_path: Path
) -> None:
    """Knot DNS 3.2.6 keeps it (ngtcp2) and acknowledges it, so the client never sends it again."""
    if reason := cannot():
        pytest.skip(reason)
    if absent := [tool for tool in ("knotd", "dnssec-signzone") if not shutil.which(tool)]:
        pytest.skip(f"{absent[0]} is not installed; {INSTALL}")
    knot = next(server for server in real_servers.SERVERS if server.name == "knot")
    if not (knot.version() or "").startswith("3.2."):
        pytest.skip(f"this is what Knot DNS 3.2 does; here is {knot.version()}")
    files = real_zones.write(tmp_path / "zones")
    files.pop("root")
    line = Line(reorders)
    with contextlib.ExitStack() as stack:
        net = stack.enter_context(network([ADDRESS, ADDRESS6], offload=False, wired=True))
        for space in (net.client, net.server):
            space.settings(KERNEL)
        wire = Wire(net, line.rule)
        stack.callback(wire.close)
        options = Options(quic=net.server_link)
        stack.enter_context(serving(knot, net.server, tmp_path / "knot", files, ADDRESS, options))
        words = ["--transport", "quic", "--count", str(COUNT), "--interval", "0.2s"]
        words += ["--timeout", "2s", "--name", "www.plain.test", "--out", str(tmp_path / "run")]
        probe = [sys.executable, "-m", "narrows", "probe", f"{ADDRESS}:853", *words, "--json"]
        found = json.loads(net.client.run(*probe, check=False))
        record = list(wire.record)
    outcomes = {each["outcome"]: each["exchanges"] for each in found["summary"]["outcomes"]}
    assert outcomes == {"timeout" if reorders else "answered": COUNT}
    assert len(line.queries) == COUNT
    if not reorders:
        return
    # Nothing but Finished was late.
    assert [len(frames) for frames in line.held.values()] == [1] * COUNT
    # If the query were not acknowledged, the client would send probes, after 0.1, 0.3, 0.7 and
    # 1.5 s or sooner (RFC 9002, 6.2).
    for port in line.queries:
        sent = [packet.at for packet in record if packet.source_port == port]
        later = [at - sent[0] for at in sent if 0.6 < at - sent[0] < 1.9]
        assert not later, later
