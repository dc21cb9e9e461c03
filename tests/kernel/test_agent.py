"""What the agent makes without a kernel of its own: DNS messages, times, counters."""

from __future__ import annotations

import socket
import time

import pytest

from narrows.backends.kernel.inside.agent.dns_messages import query, reply
from narrows.backends.kernel.inside.agent.loop import READ, Loop

dns_message = pytest.importorskip("dns.message")

LENGTHS = [17, 19, 20, 36, 80, 81, 82, 83, 84, 145, 146, 147, 148, 200, 271, 300, 512, 1400]


@pytest.mark.parametrize("length", LENGTHS)
def test_queries_have_the_length_and_parse(length: int) -> None:
    found = query(4711, length)
    assert len(found) == length
    parsed = dns_message.from_wire(found)
    assert parsed.id == 4711 and len(parsed.question) == 1


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("more", [0, 11, 12, 36, 500])
def test_replies_have_the_length_and_parse(length: int, more: int) -> None:
    asked = query(1, length)
    found = reply(asked, length + more)
    assert len(found) == length + more
    parsed = dns_message.from_wire(found)
    assert dns_message.from_wire(asked).is_response(parsed)


def test_the_loop_wakes_at_fractions_of_a_millisecond() -> None:
    """With epoll alone it would wake a whole millisecond later."""
    loop = Loop(time.monotonic())
    woken: list[float] = []
    for when in (0.0201, 0.0203, 0.0205):
        loop.at(when, lambda: woken.append(loop.now()))
    loop.at(0.0207, loop.stop)
    loop.run()
    assert len(woken) == 3 and woken == sorted(woken)
    assert woken[0] >= 0.0201


def test_the_loop_calls_for_what_is_ready() -> None:
    near, far = socket.socketpair()
    with near, far:
        loop = Loop(time.monotonic())

        def read(_events: int) -> None:
            assert near.recv(10) == b"hello"
            loop.stop()

        loop.watch(near, READ, read)
        loop.at(0.001, lambda: far.sendall(b"hello") and None)
        loop.run()
