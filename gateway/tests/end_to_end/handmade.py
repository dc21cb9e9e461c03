"""What tests with handmade segments share: the end of a connection."""

from __future__ import annotations

import time

from .segments import ACK, FIN, MODULUS, RST, Peer, Segment


def close(client: Peer) -> None:
    """The client closes first, in an orderly way."""
    sent = client.send(flags=FIN | ACK)
    finish(client, sent)


def finish(client: Peer, sent: Segment) -> None:
    """The client's FIN has gone out: it is acknowledged, and the server's comes.

    As any TCP, the client sends again what is not acknowledged.
    """
    until = time.monotonic() + 5
    acknowledged = any(segment.flags & FIN for segment in client.seen)
    while not acknowledged or all(segment.ack != client.seq for segment in client.seen):
        assert time.monotonic() < until, f"not closed: {[str(s) for s in client.seen]}"
        segment = client.receive(0.2)
        if segment is None:
            client.send(sent.payload, sent.flags, seq=sent.seq)
            continue
        assert not segment.flags & RST, str(segment)
        if segment.flags & FIN:
            client.ack = segment.next
            client.send()
            acknowledged = True
    nothing_new(client)


def nothing_new(client: Peer, seconds: float = 0.15) -> None:
    """Nothing new comes: on a busy machine, a copy may cross its acknowledgement."""
    until = time.monotonic() + seconds
    while (segment := client.receive(max(0.0, until - time.monotonic()))) is not None:
        assert not segment.flags & RST, str(segment)
        assert (client.ack - segment.next) % MODULUS < 100_000, str(segment)
