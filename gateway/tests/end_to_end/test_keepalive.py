"""The edns-tcp-keepalive option (RFC 7828): clients get what the server says about idle time."""

from __future__ import annotations

import dns.edns
import dns.message
import pytest

from . import zones
from .clients import ask, connect, prefixed, query, receive
from .conftest import Lab

KEEPALIVE = dns.edns.GenericOption(dns.edns.OptionType.make(11), b"")
"""The option, which is empty in a query (section 3.1)."""


def idle_time(reply: bytes) -> bytes | None:
    """The idle time in the reply's option, in units of 0.1 s."""
    options = dns.message.from_wire(reply).options
    found = [option for option in options if option.otype == KEEPALIVE.otype]
    return found[0].to_wire() if found else None


@pytest.mark.parametrize("kind", ["bind", "nsd", "knot"])
def test_the_servers_idle_time_is_told(lab: Lab, kind: str, version: int) -> None:
    message = query(zones.size_name(300), edns=1232, options=[KEEPALIVE])
    through = lab.address(kind, "gateway", version)
    before = lab.counter("to_kernel_keepalive")
    idle = idle_time(ask(lab.network.client, through, message))
    assert lab.counter("to_kernel_keepalive") == before + 1
    assert idle == idle_time(ask(lab.network.client, lab.address(kind, "kernel", version), message))
    # BIND reports its tcp-advertised-timeout, which is 30 s unless set.
    assert idle == (300).to_bytes(2) if kind == "bind" else True


def test_the_connection_goes_on(lab: Lab) -> None:
    """The server gets it from the first query on."""
    message = query(zones.size_name(300), edns=1232, options=[KEEPALIVE])
    with connect(lab.network.client, lab.address("bind", "gateway")) as stream:
        for _ in range(3):
            stream.sendall(prefixed(message))
            assert idle_time(receive(stream)) == (300).to_bytes(2)
