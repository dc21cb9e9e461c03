"""Queries one after another on a kept connection, which the gateway serves one by one."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from . import gateway, zones
from .clients import ask, connect, prefixed, query, receive
from .conftest import KINDS, LARGE, SMALL, Lab, laboratory

SIZES = (60, 300, 1200)


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A gateway that no other test has asked: names with large replies go to the kernel."""
    with laboratory(tmp_path_factory.mktemp("kept") / "lab") as made:
        yield made


@pytest.mark.parametrize("kind", KINDS)
def test_they_are_served_without_the_kernels_tcp(fresh: Lab, kind: str, version: int) -> None:
    """Real clients, too, get the same answers as from the kernel's TCP."""
    lab = fresh
    client, address = lab.network.client, lab.address(kind, "gateway", version)
    messages = [query(zones.size_name(size), edns=4096) for size in SIZES] * 4
    expected = {
        message: ask(client, lab.address(kind, "kernel", version), message) for message in messages
    }
    names = ("query_later", "adopted")
    before = [lab.counter(name) for name in names]
    with connect(client, address) as stream:
        for message in messages:
            stream.sendall(prefixed(message))
            assert receive(stream) == expected[message]
    asked = itertools.chain(*((zones.size_name(size), "TXT") for size in SIZES))
    client.run("kdig", "+tcp", "+keepopen", "+timeout=5", "+edns", f"@{address}", *asked)
    later, adopted = (lab.counter(name) - count for name, count in zip(names, before, strict=True))
    assert (later, adopted) == (len(messages) - 1 + 2, 0)


def test_several_at_once_go_on_with_the_kernels_tcp(
    lab: Lab, expected: dict[bytes, bytes], version: int
) -> None:
    """On the same connection, at any place in it."""
    adopted = lab.counter("adopted")
    with connect(lab.network.client, lab.address("nsd", "gateway", version)) as stream:
        for message in (SMALL, LARGE, SMALL):
            stream.sendall(prefixed(message))
            assert receive(stream) == expected[message]
        stream.sendall(prefixed(SMALL) * 3)
        for _ in range(3):
            assert receive(stream) == expected[SMALL]
        stream.sendall(prefixed(LARGE))
        assert receive(stream) == expected[LARGE]
    assert lab.counter("adopted") == adopted + 1


def test_a_later_reply_that_is_too_long(lab: Lab, version: int) -> None:
    """It comes from the kernel's TCP, which takes the connection over in the middle."""
    long = query(zones.size_name(16_000))
    whole = ask(lab.network.client, lab.address("nsd", "kernel", version), long)
    small = ask(lab.network.client, lab.address("nsd", "kernel", version), SMALL)
    with connect(lab.network.client, lab.address("nsd", "gateway", version)) as stream:
        for message, reply in ((SMALL, small), (SMALL, small), (long, whole), (SMALL, small)):
            stream.sendall(prefixed(message))
            assert receive(stream) == reply


def test_they_may_be_left_to_the_kernels_tcp(tmp_path: Path) -> None:
    if gateway.program() is None:
        pytest.skip(gateway.absent())
    with laboratory(tmp_path / "lab", ("nsd",), options=("--later-queries", "false")) as lab:
        with connect(lab.network.client, lab.address("nsd", "gateway")) as stream:
            for message in (SMALL, SMALL, LARGE):
                stream.sendall(prefixed(message))
                assert receive(stream)[:2] == message[:2]
        assert (lab.counter("query_later"), lab.counter("to_kernel_second")) == (0, 1)
