"""The agent's server times its clients out as Unbound was measured to do, on loopback."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from narrows import dns_profiles
from narrows.backends.kernel.inside.agent.dns_service import Service
from narrows.backends.kernel.inside.agent.loop import Loop
from tests.dns_behaviour.busy_handshakes import (
    GAP,
    PIECES,
    ROOM,
    Ports,
    afterwards,
    filled,
    free_ports,
    half_query,
    hello_alone,
    slow_hello,
)
from tests.dns_behaviour.real_servers import CHAIN, KEY

pytestmark = pytest.mark.slow

LATE = 1.0
"""Seconds by which a busy machine may be late."""


@contextlib.contextmanager
def serving(folder: Path, **changed: Any) -> Iterator[Ports]:
    """A server with Unbound's limits, but another timeout of the connections without a crowd."""
    profile = dns_profiles.server("unbound")
    ports = Ports(*free_ports(2))
    tls = {
        "port": ports.tls,
        "pem": KEY.read_text() + CHAIN.read_text(),
        "tickets": 2,
        "tickets_apart": True,
        "write": None,
        "close_notify": True,
        "service_s": 0.0,
        "extra_service_s": 0.0,
        "padding": None,
    }
    told = {
        "congestion": "reno",
        "mss": None,
        "nodelay": False,
        "fast_open": False,
        "backlog": profile.backlog,
        "connections": profile.tcp_connections,
        "connections_per_client": None,
        "when_full": profile.when_full,
        "idle_s": profile.idle_timeout_s,
        "first_query_s": profile.first_query_timeout_s,
        "half_query_s": profile.half_query_timeout_s,
        "busy_levels": profile.busy_levels,
        "busy_counts_new": profile.busy_counts_new,
        "busy_stays": profile.busy_stays,
        "queries_per_connection": None,
        "on_query": "answer",
        "in_order": False,
        "length_apart": False,
        "extra_service_s": 0.0,
        "tls": tls,
    }
    loop = Loop(0.0)
    job = {"tcp": told | changed, "addresses": ["127.0.0.1"], "namespace": "", "group": "busy"}
    job["clients"] = None
    heard = job | {"port": ports.plain}
    service = Service(heard, loop, lambda _asked, _padding: b"", lambda: 0.0, folder)
    thread = threading.Thread(target=loop.run)
    thread.start()
    try:
        yield ports
    finally:
        loop.at(0.0, loop.stop)
        thread.join()
        service.close()


def test_the_timeout_depends_on_the_place(tmp_path: Path) -> None:
    with serving(tmp_path) as ports:
        found = [one.closed_after for one in filled(ports, hello_alone, 3.0)]
    assert found[:5] == [None] * 5
    for place, expected in zip(found[5:], (0.3, 0.2, 0.2, 0.2, 0.2), strict=True):
        assert place is not None
        assert expected - 0.05 <= place <= expected + LATE


def test_each_piece_of_a_handshake_begins_the_timeout_again(tmp_path: Path) -> None:
    with serving(tmp_path) as ports:
        lasted = slow_hello(ports)
    assert lasted is not None
    assert (PIECES - 2) * GAP + 0.15 <= lasted <= (PIECES - 1) * GAP + 0.2 + LATE


def test_half_a_query_has_the_shorter_timeout_too(tmp_path: Path) -> None:
    with serving(tmp_path) as ports:
        lasted = half_query(ports)
    assert lasted is not None
    assert 0.15 <= lasted <= 0.2 + LATE


def test_a_place_keeps_its_shorter_timeout(tmp_path: Path) -> None:
    assert dns_profiles.server("unbound").tcp_connections == ROOM
    with serving(tmp_path) as ports:
        lasted = afterwards(ports)
    assert lasted is not None
    assert lasted <= 0.2 + LATE
    with serving(tmp_path, busy_stays=False) as ports:
        assert afterwards(ports) is None
