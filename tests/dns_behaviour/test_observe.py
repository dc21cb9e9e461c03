"""Packets that a busy machine adds are not counted as the client's behaviour."""

from __future__ import annotations

import dns.message

from . import observe
from .cases import CASES
from .lab import Trial
from .packets import ACK, FIN, PSH, SYN, TCP, Packet

PORT = 40000


def segment(
    at: float, sequence: int, flags: int, payload: bytes = b"", *, from_client: bool = True
) -> Packet:
    """A segment between the client's port and the server's."""
    ends = ("192.0.2.1", "10.53.6.14")
    ports = (PORT, 53)
    source, destination = ends if from_client else ends[::-1]
    source_port, destination_port = ports if from_client else ports[::-1]
    return Packet(
        at=at,
        from_client=from_client,
        protocol=TCP,
        source=source,
        destination=destination,
        length=40 + len(payload),
        ecn=0,
        offset=0,
        more=False,
        do_not_fragment=True,
        source_port=source_port,
        destination_port=destination_port,
        flags=flags,
        sequence=sequence,
        payload=payload,
    )


def framed(name: str) -> bytes:
    """A query with its length in front."""
    wire = dns.message.make_query(name, "A", id=1).to_wire()
    return len(wire).to_bytes(2) + wire


def two_queries(*, repeats: int) -> Trial:
    """Two queries, one after the other, on a connection.

    The kernels sent the first query and the last reply again.
    """
    first, second = framed("q1.sequence.test"), framed("q2.sequence.test")
    packets = [
        segment(0.00, 100, SYN),
        segment(0.01, 500, SYN | ACK, from_client=False),
        segment(0.02, 101, PSH | ACK, first),
        *[segment(0.24 + n / 100, 101, PSH | ACK, first) for n in range(repeats)],
        segment(0.30, 501, PSH | ACK, first, from_client=False),
        segment(0.31, 101 + len(first), PSH | ACK, second),
        segment(0.32, 501 + len(first), PSH | ACK, second, from_client=False),
        *[
            segment(0.60 + n / 100, 501 + len(first), PSH | ACK, second, from_client=False)
            for n in range(repeats)
        ],
        segment(2.32, 101 + len(first) + len(second), FIN | ACK),
    ]
    case = next(case for case in CASES if case.name == "sequence")
    return Trial("unbound", "1.17.1", case, [], packets)


def test_repeated_segments_are_not_queries() -> None:
    for repeats in (0, 2):
        trial = two_queries(repeats=repeats)
        queries = observe.tcp_queries(trial)
        assert [observe.host(packet) for packet in queries] == ["q1", "q2"]
        assert observe.reused(trial)
        assert not observe.pipelined(trial)
        idle = observe.idle_timeout(trial)
        assert idle is not None
        assert abs(idle - 2.0) < 1e-9
