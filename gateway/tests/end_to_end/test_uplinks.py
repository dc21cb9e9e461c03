"""Several uplinks: queries come in through one interface, and replies leave through another."""

from __future__ import annotations

import contextlib
import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.network import nodad

from . import gateway, zones
from .clients import ask, connect, prefixed, query, receive
from .conftest import Lab, laboratory
from .xdp import passing

BEHIND = {4: "198.18.0.9", 6: "2001:db8:f::9"}
"""The client's addresses, in networks that the server reaches through its other interface."""


@contextlib.contextmanager
def two_links(folder: Path, *options: str, both: bool) -> Iterator[Lab]:
    """NSD on a machine with a second link to the client, which takes some of its answers."""
    with laboratory(folder / "lab", ("nsd",), options=options) as lab:
        net = lab.network
        client_link, server_link = f"q{net.client_link}", f"q{net.server_link}"
        net.client.run(
            *("ip", "link", "add", client_link, "type", "veth"),
            *("peer", "name", server_link, "netns", net.server.name),
        )
        for space, link, addresses in (
            (net.client, client_link, ("203.0.113.1/24", "2001:db8:e::1/64")),
            (net.server, server_link, ("203.0.113.2/24", "2001:db8:e::2/64")),
        ):
            space.run("ethtool", "-K", link, "tso", "off", "gso", "off", "gro", "off")
            space.run("ip", "link", "set", link, "up")
            for address in addresses:
                space.run("ip", "addr", "add", address, "dev", link, *nodad(address))
            # Packets through the other interface must not count as those of a stranger.
            space.settings({"net/ipv4/conf/all/rp_filter": "0"})
            space.settings({f"net/ipv4/conf/{link}/rp_filter": "0"})
        for version, prefix, via in (
            (4, "198.18.0.0/15", "203.0.113.1"),
            (6, "2001:db8:f::/48", "2001:db8:e::1"),
        ):
            bits = "/32" if version == 4 else "/128"
            net.client.run("ip", "addr", "add", BEHIND[version] + bits, "dev", "lo")
            net.server.run("ip", "route", "replace", prefix, "via", via)
        assert lab.gateway is not None
        with passing(net.client, client_link):
            if both:
                lab.gateway.end()
                lab.gateway.words = [*lab.gateway.words, "--interface", server_link]
                lab.gateway.process = gateway.start(
                    net.server, lab.gateway.words, lab.gateway.folder
                )
            yield lab


@pytest.mark.parametrize("mode", ["native", "generic"])
def test_one_gateway_serves_several_interfaces(tmp_path: Path, mode: str) -> None:
    if gateway.program() is None:
        pytest.skip(gateway.absent())
    with two_links(tmp_path, "--mode", mode, both=True) as lab:
        net = lab.network
        assert lab.gateway is not None
        for version, source in BEHIND.items():
            address = lab.address("nsd", "gateway", version)
            plain = lab.address("nsd", "kernel", version)
            messages = [query(zones.size_name(size)) for size in (60, 300, 1200, 4000, 16000)]
            expected = [ask(net.client, plain, message) for message in messages]
            # Alone, several on a connection, and pipelined, for clients of either route.
            for bound in ((source, 0), None):
                before = lab.counter("query"), lab.counter("to_kernel_silent")
                for message, reply in zip(messages, expected, strict=True):
                    with connect(net.client, address, source=bound) as stream:
                        stream.sendall(prefixed(message))
                        assert receive(stream) == reply
                assert lab.counter("query") - before[0] >= 4
                with connect(net.client, address, source=bound) as stream:
                    for message, reply in zip(messages, expected, strict=True):
                        stream.sendall(prefixed(message))
                        assert receive(stream) == reply
                    stream.sendall(b"".join(map(prefixed, messages)))
                    assert sorted(receive(stream) for _ in messages) == sorted(expected)
                assert lab.counter("to_kernel_silent") == before[1]
        # A restart takes both over, and the end leaves neither.
        lab.gateway.restart(signal.SIGUSR2)
        status = json.loads(lab.gateway.command("status", "--interface", net.server_link, "--json"))
        assert status["attached"] is True
        assert status["interfaces"] == [net.server_link, f"q{net.server_link}"]
        lab.gateway.end(signal.SIGKILL)
        lab.gateway.command("detach", "--interface", net.server_link)
        for link in (net.server_link, f"q{net.server_link}"):
            assert "xdp" not in net.server.run("ip", "link", "show", link)
            assert "tcx" not in net.server.run("bpftool", "net", "show", "dev", link)
        lab.gateway.process = gateway.start(net.server, lab.gateway.words, lab.gateway.folder)


def test_a_way_back_that_is_not_covered_is_named(tmp_path: Path) -> None:
    """Its clients get the kernel's TCP in the end, later than necessary."""
    if gateway.program() is None:
        pytest.skip(gateway.absent())
    with two_links(tmp_path, both=False) as lab:
        net = lab.network
        other = f"q{net.server_link}"
        assert lab.gateway is not None
        # It is named before anything is attached, from the routes, and then from what happens.
        words = ["--interface", net.server_link, "--server", lab.address("nsd", "gateway")]
        said = lab.gateway.command("check", *words, "--mode", "native")
        assert f"routes lead out by {other}" in said
        address = lab.address("nsd", "gateway")
        with connect(net.client, address, source=(BEHIND[4], 0)) as stream:
            stream.sendall(prefixed(query(zones.size_name(300))))
            assert receive(stream)[3] & 15 == 0
        until = time.monotonic() + 5
        while other not in (text := (lab.gateway.folder / "log").read_text()):
            assert time.monotonic() < until, text
            time.sleep(0.1)
        assert BEHIND[4] in text
