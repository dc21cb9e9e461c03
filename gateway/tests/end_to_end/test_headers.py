"""What may come before and after the TCP header, checksums, and EDNS options, by hand."""

from __future__ import annotations

import itertools

import dns.edns
import pytest

from . import zones
from .clients import ask, prefixed, query
from .conftest import KINDS, LARGE, SMALL, Lab, PeerMaker
from .segments import ACK, FIN, NOP, PSH, SYN


@pytest.mark.parametrize(
    "options",
    [NOP * 4, NOP * 3 + b"\0", b"\x94\x04\0\0", NOP * 40],
    ids=["nop", "end", "alert", "40"],
)
def test_ipv4_options(peer: PeerMaker, expected: dict[bytes, bytes], options: bytes) -> None:
    client = peer(ip_options=options)
    client.connect()
    for message in (SMALL, LARGE):
        client.send(prefixed(message), ACK | PSH)
        assert client.reply() == expected[message]


def extension(next_header: int, length: int = 8) -> bytes:
    """An IPv6 hop-by-hop or destination header with an option for experiments (RFC 4727, 3.4).

    Its type, 0x1e, is one that is skipped if unknown. Linux drops headers with more than 7 bytes of
    padding.
    """
    return bytes([next_header, length // 8 - 1, 0x1E, length - 4]) + bytes(length - 4)


@pytest.mark.parametrize(
    ("first", "headers"),
    [
        (0, extension(6)),
        (60, extension(6, 24)),
        (0, extension(60) + extension(6)),
    ],
    ids=["hop-by-hop", "destination", "both"],
)
def test_ipv6_extension_headers(
    peer: PeerMaker, expected: dict[bytes, bytes], first: int, headers: bytes
) -> None:
    client = peer(version=6, first_header=first, ip_options=headers)
    client.connect()
    for message in (SMALL, LARGE):
        client.send(prefixed(message), ACK | PSH)
        assert client.reply() == expected[message]


@pytest.mark.parametrize("padding", [1, 6, 46])
def test_bytes_behind_the_packet_are_ignored(
    peer: PeerMaker, expected: dict[bytes, bytes], padding: int
) -> None:
    """Ethernet pads frames to 60 bytes, not always with zeros."""
    client = peer(timestamps=False)
    dirt = bytes(itertools.islice(itertools.cycle(b"\xa5\x5a\xff"), padding))
    client.send(flags=SYN, options=client.syn(), padding=dirt)
    client.ack = client.expect(SYN | ACK).next
    client.send(padding=dirt)
    client.send(prefixed(SMALL), ACK | PSH, padding=dirt)
    assert client.reply() == expected[SMALL]
    client.send(flags=FIN | ACK, padding=dirt)
    assert client.expect(FIN | ACK).ack == client.seq


def test_an_answer_to_a_segment_with_a_wrong_checksum_never_comes(peer: PeerMaker) -> None:
    client = peer()
    client.connect()
    client.send(prefixed(SMALL), ACK | PSH, checksum=0xBEEF, seq=client.seq)
    client.quiet(0.3)


def options(name: str) -> list[dns.edns.Option]:
    """EDNS options, by the names of the tests."""
    code, length = {"odd": (65001, 13), "empty": (65001, 0), "padding": (12, 201), "nsid": (3, 0)}[
        name
    ]
    return [dns.edns.GenericOption(code, bytes(length))]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["odd", "empty", "padding", "nsid"])
def test_edns_options_of_any_length(lab: Lab, peer: PeerMaker, kind: str, name: str) -> None:
    for size, edns in itertools.product((300, 1200), (512, 1232, 4096)):
        message = query(zones.size_name(size), edns=edns, options=options(name))
        client = peer(kind)
        client.connect()
        client.send(prefixed(message), ACK | PSH)
        address = lab.address(kind, "kernel")
        assert client.reply() == ask(lab.network.client, address, message)
