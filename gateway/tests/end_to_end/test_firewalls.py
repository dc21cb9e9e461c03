"""Common packet filters: to them, what the kernel's TCP takes over is an ordinary connection."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.network import Namespace

from . import gateway, zones
from .clients import ask, connect, prefixed, query, receive
from .conftest import LARGE, SMALL, Lab, laboratory

NEW_IS_SYN = "tcp flags & (fin|syn|rst|ack) != syn ct state new drop"
"""From the nftables wiki, the Debian wiki and many guides."""

STRICT = f"""
table inet filter {{
  chain input {{
    type filter hook input priority 0; policy drop;
    ct state invalid drop
    {NEW_IS_SYN}
    ct state established,related accept
    meta l4proto {{ icmp, icmpv6 }} accept
    udp dport 53 accept
    tcp dport 53 ct state new accept
  }}
  chain output {{
    type filter hook output priority 0; policy accept;
    ct state invalid drop
  }}
}}
"""

Maker = Callable[..., AbstractContextManager[Lab]]


@pytest.fixture
def make(tmp_path: Path) -> Maker:
    """Makes a network with NSD and the gateway with some options."""
    if gateway.program() is None:
        pytest.skip(gateway.absent())

    def made(*options: str, **other: object) -> AbstractContextManager[Lab]:
        return laboratory(tmp_path / "lab", ("nsd",), options=options, **other)  # type: ignore[arg-type]

    return made


def rule(space: Namespace, text: str) -> None:
    """Puts these tables into a namespace."""
    space.run("nft", "-f", "-", input=text)


@pytest.mark.parametrize(
    ("mode", "loose", "offload"),
    [
        ("native", "0", True),
        ("native", "1", False),
        ("generic", "0", False),
        ("generic", "1", True),
    ],
)
def test_a_filter_that_wants_a_handshake(
    make: Maker, mode: str, loose: str, offload: bool, version: int
) -> None:
    """Connection tracking sees each connection that the kernel's TCP takes over once."""
    with make("--mode", mode, offload=offload) as lab:
        net = lab.network
        net.server.settings({"net/netfilter/nf_conntrack_tcp_loose": loose})
        expected = {}
        for size in (60, 300, 9000, 16000):
            message = query(zones.size_name(size))
            expected[message] = ask(net.client, lab.address("nsd", "kernel", version), message)
        small, *_, large = expected
        rule(net.server, STRICT)
        address = lab.address("nsd", "gateway", version)
        adopted = lab.counter("adopted")

        # Replies that are too long: first over UDP, then by name.
        for message in list(expected) * 2:
            assert ask(net.client, address, message, 3) == expected[message]
        # Further queries, and as many bytes at once as the client's window allows.
        with connect(net.client, address, 3) as stream:
            for message in expected:
                stream.sendall(prefixed(message))
                assert receive(stream) == expected[message]
            stream.sendall(prefixed(large) * 10)
            for _ in range(10):
                assert receive(stream) == expected[large]
        # Pipelined, and split.
        with connect(net.client, address, 3) as stream:
            stream.sendall(prefixed(small) * 40)
            for _ in range(40):
                assert receive(stream) == expected[small]
        with connect(net.client, address, 3) as stream:
            stream.sendall(prefixed(small)[:1])
            stream.sendall(prefixed(small)[1:])
            assert receive(stream) == expected[small]
        # The same client port, as soon as the client may use it (tcp_tw_reuse: after a second).
        for turn in range(2):
            time.sleep(1.2 * turn)
            source = ("::" if version == 6 else "0.0.0.0", 40_300)
            with connect(net.client, address, 3, source=source) as stream:
                for message in (small, large):
                    stream.sendall(prefixed(message))
                    assert receive(stream) == expected[message]
        assert lab.counter("adopted") >= adopted + 7
        assert lab.counter("adopt_failed") == 0


def test_who_may_not_connect_is_not_adopted(make: Maker) -> None:
    """A rule about TCP to the port still holds for what the kernel's TCP takes over."""
    with make() as lab:
        net = lab.network
        rule(net.server, STRICT.replace("tcp dport 53 ct state new accept", ""))
        address = lab.address("nsd", "gateway")
        assert ask(net.client, address, SMALL, 3)[3] & 15 == 0
        with connect(net.client, address, 1) as stream:
            stream.sendall(prefixed(SMALL))
            receive(stream)
            # Several queries at once go to the kernel's TCP.
            stream.sendall(prefixed(LARGE) * 2)
            # Nothing comes, and retransmissions belong to a connection that is over.
            with pytest.raises((TimeoutError, ConnectionResetError)):
                receive(stream)
