"""The emulated old server meets what any host on the Internet may send."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from narrows.testbed.old_server import OldServer, is_query

QUERY = b"\x12\x34\x01\x00\0\1\0\0\0\0\0\0\0\0\x06\0\1"
"""The root's SOA (RFC 1035, section 4)."""


@pytest.fixture
def server() -> Iterator[tuple[str, int]]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as found:
        found.bind(("127.0.0.1", 0))
        where = found.getsockname()
    text = OldServer(address=where[0], port=where[1], tcp=False).text()
    program = "import sys; from narrows.testbed.old_server import main; main(sys.argv[1])"
    with subprocess.Popen(
        [sys.executable, "-c", program, text], stdout=subprocess.PIPE, text=True
    ) as running:
        try:
            assert running.stdout is not None and running.stdout.readline() == "ready\n"
            yield where
        finally:
            running.kill()


@contextlib.contextmanager
def client(server: tuple[str, int]) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        made.settimeout(10.0)
        made.connect(server)
        yield made


def test_only_queries_are_answered(server: tuple[str, int]) -> None:
    with client(server) as asking:
        asking.send(QUERY)
        answer = asking.recv(4096)
        assert answer[:2] == QUERY[:2] and not is_query(answer)
        # What is sent back to it gets no answer; the next query is the next that does.
        asking.send(answer)
        asking.send(b"\xab\xcd" + QUERY[2:])
        assert asking.recv(4096)[:2] == b"\xab\xcd"


def test_a_client_that_is_gone_ends_nothing(server: tuple[str, int]) -> None:
    for _ in range(3):
        with client(server) as gone:
            gone.send(QUERY)
    with client(server) as asking:
        asking.send(QUERY)
        assert asking.recv(4096)[:2] == QUERY[:2]
