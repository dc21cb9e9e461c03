"""Windows, segment sizes and timestamps, by hand."""

from __future__ import annotations

import struct

import pytest

from .clients import prefixed
from .conftest import LARGE, SMALL, PeerMaker
from .segments import ACK, MODULUS, PSH


@pytest.mark.parametrize("timestamps", [True, False], ids=["timestamps", "plain"])
@pytest.mark.parametrize("mss", [88, 256, 536, 537, 1001, 1220, 1399, 1459, 1460])
def test_no_segment_is_longer_than_the_clients_mss(
    peer: PeerMaker, expected: dict[bytes, bytes], mss: int, timestamps: bool
) -> None:
    # The kernel adopts no connection with an MSS below 536, and would send longer segments.
    message = LARGE if mss >= 536 else SMALL
    client = peer(mss=mss, timestamps=timestamps)
    client.connect()
    client.send(prefixed(message), ACK | PSH)
    assert client.reply() == expected[message]
    longest = max(len(segment.payload) for segment in client.seen)
    assert longest <= mss - 12 * timestamps


@pytest.mark.parametrize("window", [100, 1000, 3000])
def test_a_reply_above_the_window(
    peer: PeerMaker, expected: dict[bytes, bytes], window: int
) -> None:
    client = peer(window_scale=None, window=window)
    client.connect()
    client.send(prefixed(LARGE), ACK | PSH)
    begin = client.ack
    assert client.reply(timeout=20) == expected[LARGE]
    # Nothing was ever sent beyond the acknowledged data plus the window.
    edge = begin
    for segment in client.seen:
        if segment.payload:
            assert (segment.next - begin) % MODULUS <= (edge - begin) % MODULUS + window
            edge = max(edge, segment.next)


def test_a_zero_window_that_opens_later(peer: PeerMaker, expected: dict[bytes, bytes]) -> None:
    client = peer()
    client.connect()
    client.window = 0
    query_sent = client.send(prefixed(SMALL), ACK | PSH)
    while (segment := client.receive(0.5)) is not None:
        assert len(segment.payload) <= 1, "more than a window probe"
    client.window = 65535
    client.send()

    def again() -> None:
        if not any(segment.ack == client.seq for segment in client.seen):
            client.send(query_sent.payload, ACK | PSH, seq=query_sent.seq)

    assert client.reply(again=again) == expected[SMALL]


def test_timestamps_are_echoed(peer: PeerMaker) -> None:
    """RFC 7323, section 4.3: TSecr is the TSval of the segment that is acknowledged."""
    client = peer()
    client.connect()
    client.tsval = 123_456
    client.send(prefixed(SMALL), ACK | PSH)
    client.reply()
    reply = next(segment for segment in client.seen if segment.payload)
    assert reply.timestamps is not None
    assert reply.timestamps[1] == 123_456
    assert struct.pack(">I", reply.timestamps[0]) == struct.pack(">I", client.tsecr)
