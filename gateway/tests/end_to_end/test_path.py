"""Paths narrower than the links at both ends: a router reports it by ICMP, or nobody does."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from . import gateway, zones
from .clients import connect, prefixed, query, receive
from .conftest import Lab, laboratory

SIZES = (300, 1200, 1232, 1398, 1460, 1470, 2000, 2920, 4000, 9000)
CLIENTS = {
    4: tuple(f"192.0.2.{200 + i}" for i in range(len(SIZES))),
    6: tuple(f"2001:db8::{200 + i}" for i in range(len(SIZES))),
}
"""A client for each size, because the gateway remembers the path of an address."""


def fetch(lab: Lab, arm: str, version: int, size: int, source: str) -> bytes:
    """The reply on a separate connection."""
    address = lab.address("nsd", arm, version)
    with connect(lab.network.client, address, 30, source=(source, 0)) as stream:
        stream.sendall(prefixed(query(zones.size_name(size))))
        return receive(stream)


Maker = Callable[..., AbstractContextManager[Lab]]


@pytest.fixture
def narrow(tmp_path: Path) -> Maker:
    """Puts NSD and the gateway behind a router of which one link takes only `mtu` bytes."""
    if gateway.program() is None:
        pytest.skip(gateway.absent())

    def made(mtu: int, *options: str) -> AbstractContextManager[Lab]:
        return laboratory(
            tmp_path / "lab",
            ("nsd",),
            options=("--edns-size", "65500 B", *options),
            clients=CLIENTS[4] + CLIENTS[6],
            path_mtu=mtu,
        )

    return made


def too_long(version: int, mtu: int) -> list[int]:
    """The sizes whose replies have segments that are too long for the path."""
    headers = 52 if version == 4 else 72
    return [size for size in SIZES if min(headers + 2 + size, 1500) > mtu]


@pytest.mark.parametrize(("version", "mtu"), [(4, 576), (4, 1280), (4, 1499), (6, 1280), (6, 1499)])
@pytest.mark.parametrize("mode", ["native", "generic"])
def test_a_router_says_what_the_path_takes(
    narrow: Maker, version: int, mtu: int, mode: str
) -> None:
    with narrow(mtu, "--mode", mode) as lab:
        before = lab.network.client.statistic("Tcp", "RetransSegs")
        for size, source in zip(SIZES, CLIENTS[version], strict=True):
            first = fetch(lab, "gateway", version, size, source)
            again = fetch(lab, "gateway", version, size, source)
            assert first == again == fetch(lab, "kernel", version, size, source), size
        # Once for each client: its second connection is right from the start.
        assert lab.counter("path_mtu") == len(too_long(version, mtu))
        assert lab.counter("black_hole") == 0
        # And no client had to wait for its timeout.
        assert lab.network.client.statistic("Tcp", "RetransSegs") == before


def test_nobody_says_what_the_path_takes(narrow: Maker, version: int) -> None:
    """RFC 2923, section 2.1: the kernel's TCP hangs then, unless tcp_mtu_probing is on."""
    with narrow(1280) as lab:
        expected = [fetch(lab, "kernel", version, size, CLIENTS[version][0]) for size in SIZES]
        assert lab.network.wire is not None
        family = "-4" if version == 4 else "-6"
        lab.network.wire.run("ip", family, "rule", "add", "pref", "1", "iif", "lo", "blackhole")
        for size, source, reply in zip(SIZES, CLIENTS[version], expected, strict=True):
            assert fetch(lab, "gateway", version, size, source) == reply, size
        assert lab.counter("path_mtu") == 0
        assert lab.counter("black_hole") == len(too_long(version, 1280))
