"""The server of a run between machines answers the run's machines alone."""

from __future__ import annotations

import contextlib
import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from narrows.backends.kernel.inside.agent.dns_messages import query
from narrows.backends.kernel.inside.agent.dns_server import Server
from narrows.backends.kernel.inside.agent.loop import Loop
from narrows.machines import Lab, Part, Parts
from tests.machines.scenario import lab

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the agent needs Linux")

PLACES = {"server": "127.0.0.2", "client": "127.0.0.3", "stubs": "127.0.0.4"}
STRANGER = "127.0.0.9"


class ClosingLoop(Loop):
    """A loop that knows its sockets, which the agent leaves to the end of its process."""

    def __init__(self) -> None:
        super().__init__(0.0)
        self.sockets: set[socket.socket] = set()

    def watch(self, found: socket.socket, events: int, call: Callable[[int], None]) -> None:
        """Notes the socket."""
        self.sockets.add(found)
        super().watch(found, events, call)


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[tuple[str, int]]:
    """The DNS server of `narrows traffic serve`, at a free port."""
    (job,) = Parts(lab()).of(Part("serve", "server"), Lab(PLACES, "server"))["dns_servers"]
    with socket.create_server((PLACES["server"], 0)) as found:
        where = (PLACES["server"], found.getsockname()[1])
    loop = ClosingLoop()
    assert job["tcp"] is None or job["tcp"]["tls"] is None
    Server({**job, "port": where[1], "tcp": job["tcp"] or _TCP}, loop, "seed", folder)
    thread = threading.Thread(target=loop.run)
    thread.start()
    try:
        yield where
    finally:
        loop.at(0.0, loop.stop)
        thread.join()
        for each in loop.sockets:
            each.close()


def over_udp(where: tuple[str, int], source: str) -> bytes | None:
    """The reply to a query; None if the server is silent, which a later query shows."""
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as knowing,
    ):
        asking.bind((source, 0))
        knowing.bind((PLACES["stubs"], 0))
        for each in (asking, knowing):
            each.settimeout(30.0)
            each.sendto(query(1, 40, 1232), where)
        assert knowing.recv(65_535), "both take the same time"
        asking.settimeout(0.05)
        with contextlib.suppress(TimeoutError):
            return asking.recv(65_535)
    return None


def over_tcp(where: tuple[str, int], source: str) -> bytes:
    """The reply to a query; empty if the server closes the connection."""
    with socket.create_connection(where, timeout=30.0, source_address=(source, 0)) as found:
        asked = query(1, 40, 1232)
        with contextlib.suppress(ConnectionError):
            found.sendall(struct.pack(">H", len(asked)) + asked)
            return found.recv(65_535)
    return b""


def test_only_the_machines_of_the_run_get_answers(tmp_path: Path) -> None:
    with serving(tmp_path) as where:
        for place in (PLACES["stubs"], PLACES["client"]):
            assert over_udp(where, place)
            assert over_tcp(where, place)
        assert over_udp(where, STRANGER) is None
        assert over_tcp(where, STRANGER) == b""


_TCP = {
    "congestion": "cubic",
    "mss": None,
    "nodelay": False,
    "fast_open": False,
    "backlog": 16,
    "connections": None,
    "connections_per_client": None,
    "when_full": "wait",
    "idle_s": 30.0,
    "first_query_s": 30.0,
    "half_query_s": None,
    "busy_levels": [],
    "busy_counts_new": False,
    "busy_stays": False,
    "queries_per_connection": None,
    "on_query": "answer",
    "in_order": False,
    "length_apart": False,
    "extra_service_s": 0.0,
    "tls": None,
}
